// Complex numbers as pairs (cuComplex.h).
#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cuComplex.h
#else
// `s` ends the names for float.
#define CUPLUG_COMPLEX(T, name, V, s, fabs)                                                                      \
    typedef V name;                                                                                              \
    inline name make_##name(T x, T y) { return {x, y}; }                                                         \
    inline T cuCreal##s(name z) { return z.x; }                                                                  \
    inline T cuCimag##s(name z) { return z.y; }                                                                  \
    inline name cuConj##s(name z) { return {z.x, -z.y}; }                                                        \
    inline name cuCadd##s(name a, name b) { return {a.x + b.x, a.y + b.y}; }                                     \
    inline name cuCsub##s(name a, name b) { return {a.x - b.x, a.y - b.y}; }                                     \
    inline name cuCmul##s(name a, name b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }             \
    inline name cuCdiv##s(name a, name b) {                                                                      \
        T scale = 1 / (__builtin_##fabs(b.x) + __builtin_##fabs(b.y));                                           \
        a = {a.x * scale, a.y * scale};                                                                          \
        b = {b.x * scale, b.y * scale};                                                                          \
        scale = 1 / (b.x * b.x + b.y * b.y);                                                                     \
        return {(a.x * b.x + a.y * b.y) * scale, (a.y * b.x - a.x * b.y) * scale};                               \
    }                                                                                                            \
    inline T cuCabs##s(name z) { return hypot(z.x, z.y); }                                                       \
    inline name cuCfma##s(name a, name b, name c) { return cuCadd##s(cuCmul##s(a, b), c); }
CUPLUG_COMPLEX(float, cuFloatComplex, float2, f, fabsf)
CUPLUG_COMPLEX(double, cuDoubleComplex, double2, , fabs)
#undef CUPLUG_COMPLEX
typedef cuFloatComplex cuComplex;
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) { return {(float)z.x, (float)z.y}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return {z.x, z.y}; }
#endif
