// Arithmetic rounded upwards (ru), downwards (rd) or towards zero (rz): with the processor's rounding mode changed for
// that one operation.
#pragma once

extern "C" int fesetround(int) noexcept;

namespace __cuplug {

#if defined(__aarch64__)
enum { ROUND_NEAREST = 0, ROUND_UP = 0x400000, ROUND_DOWN = 0x800000, ROUND_TO_ZERO = 0xc00000 };
#else
enum { ROUND_NEAREST = 0, ROUND_UP = 0x800, ROUND_DOWN = 0x400, ROUND_TO_ZERO = 0xc00 };
#endif

// Keeps the compiler from computing with `x` before or after its time.
template <class T> inline void pin(T& x) { asm volatile("" : "+m"(x)); }

template <class R, class T, class F> inline R directed(int mode, T x, F operation) {
    fesetround(mode);
    pin(x);
    R result = operation(x);
    pin(result);
    fesetround(ROUND_NEAREST);
    return result;
}

}  // namespace __cuplug

#define CUPLUG_DIRECTED(suffix, mode)                                                                                 \
    CUPLUG_DIRECTED_ARITHMETIC(float, f, __fmaf_##suffix, fmaf, sqrtf, suffix, mode)                                  \
    CUPLUG_DIRECTED_ARITHMETIC(double, d, __fma_##suffix, fma, sqrt, suffix, mode)                                    \
    inline float __double2float_##suffix(double x) {                                                                  \
        return __cuplug::directed<float>(mode, x, [](double x) { return (float)x; });                                 \
    }                                                                                                                 \
    CUPLUG_DIRECTED_CONVERSION(int, int, float, suffix, mode)                                                         \
    CUPLUG_DIRECTED_CONVERSION(uint, unsigned, float, suffix, mode)                                                   \
    CUPLUG_DIRECTED_CONVERSION(ll, long long, float, suffix, mode)                                                    \
    CUPLUG_DIRECTED_CONVERSION(ull, unsigned long long, float, suffix, mode)                                          \
    CUPLUG_DIRECTED_CONVERSION(ll, long long, double, suffix, mode)                                                   \
    CUPLUG_DIRECTED_CONVERSION(ull, unsigned long long, double, suffix, mode)

#define CUPLUG_DIRECTED_ARITHMETIC(T, f, fmaname, fma, sqrt, suffix, mode)                                            \
    inline T __##f##add_##suffix(T x, T y) { return __cuplug::directed<T>(mode, x, [=](T x) { return x + y; }); }     \
    inline T __##f##sub_##suffix(T x, T y) { return __cuplug::directed<T>(mode, x, [=](T x) { return x - y; }); }     \
    inline T __##f##mul_##suffix(T x, T y) { return __cuplug::directed<T>(mode, x, [=](T x) { return x * y; }); }     \
    inline T __##f##div_##suffix(T x, T y) { return __cuplug::directed<T>(mode, x, [=](T x) { return x / y; }); }     \
    inline T __##f##rcp_##suffix(T x) { return __cuplug::directed<T>(mode, x, [](T x) { return (T)1 / x; }); }        \
    inline T __##f##sqrt_##suffix(T x) {                                                                              \
        return __cuplug::directed<T>(mode, x, [](T x) { return __builtin_##sqrt(x); });                               \
    }                                                                                                                 \
    inline T fmaname(T x, T y, T z) {                                                                                 \
        return __cuplug::directed<T>(mode, x, [=](T x) { return __builtin_##fma(x, y, z); });                         \
    }

#define CUPLUG_DIRECTED_CONVERSION(from, F, to, suffix, mode)                                                         \
    inline to __##from##2##to##_##suffix(F x) {                                                                       \
        return __cuplug::directed<to>(mode, x, [](F x) { return (to)x; });                                            \
    }

CUPLUG_DIRECTED(ru, __cuplug::ROUND_UP)
CUPLUG_DIRECTED(rd, __cuplug::ROUND_DOWN)
CUPLUG_DIRECTED(rz, __cuplug::ROUND_TO_ZERO)
#undef CUPLUG_DIRECTED
#undef CUPLUG_DIRECTED_ARITHMETIC
#undef CUPLUG_DIRECTED_CONVERSION
