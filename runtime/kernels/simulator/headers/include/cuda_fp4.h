// Floating-point numbers of 4 bits, E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (CUDA Math API, "FP4
// Intrinsics"). What is greater becomes 6, and NaN as well.
#pragma once
#ifdef CUPLUG_SCAN
#include "cuda_fp8.h"
#pragma cuplug_include cuda_fp4.h
#else

typedef __nv_fp8_storage_t __nv_fp4_storage_t;
typedef __nv_fp8_storage_t __nv_fp4x2_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };

namespace __cuplug {

constexpr float fp4_sizes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
inline float from_fp4(unsigned x) { return x & 8 ? -fp4_sizes[x & 7] : fp4_sizes[x & 7]; }
inline unsigned char to_fp4(double x, cudaRoundMode rounding = cudaRoundNearest) {
    if (x != x) return 7;
    const double size = __builtin_fabs(x);
    unsigned char code = 0;
    for (int next = 1; next < 8; ++next) {
        const double between = rounding ? fp4_sizes[next] : (fp4_sizes[next - 1] + fp4_sizes[next]) / 2;
        code += rounding || next % 2 == 0 ? size >= between : size > between;
    }
    return (unsigned char)(code | (__builtin_signbit(x) ? 8 : 0));
}
inline unsigned char to_fp4(double x, double y, cudaRoundMode rounding = cudaRoundNearest) {
    return (unsigned char)(to_fp4(y, rounding) << 4 | to_fp4(x, rounding));
}

}  // namespace __cuplug

#define CUPLUG_FP4_FROM(name, T, x) \
    inline __nv_fp4_storage_t __nv_cvt_##name##_to_fp4(T v, __nv_fp4_interpretation_t, cudaRoundMode rounding) { \
        return __cuplug::to_fp4(x, rounding);                                                                    \
    }
#define CUPLUG_FP4_FROM_TWO(name, T, x, y) \
    inline __nv_fp4x2_storage_t __nv_cvt_##name##_to_fp4x2(T v, __nv_fp4_interpretation_t, cudaRoundMode rounding) { \
        return __cuplug::to_fp4(x, y, rounding);                                                                     \
    }
CUPLUG_FP4_FROM(double, double, v)
CUPLUG_FP4_FROM(float, float, v)
CUPLUG_FP4_FROM(halfraw, __half_raw, (float)__half(v))
CUPLUG_FP4_FROM(bfloat16raw, __nv_bfloat16_raw, (float)__nv_bfloat16(v))
CUPLUG_FP4_FROM_TWO(double2, double2, v.x, v.y)
CUPLUG_FP4_FROM_TWO(float2, float2, v.x, v.y)
CUPLUG_FP4_FROM_TWO(halfraw2, __half2_raw, (float)__half2(v).x, (float)__half2(v).y)
CUPLUG_FP4_FROM_TWO(bfloat16raw2, __nv_bfloat162_raw, (float)__nv_bfloat162(v).x, (float)__nv_bfloat162(v).y)
#undef CUPLUG_FP4_FROM
#undef CUPLUG_FP4_FROM_TWO
inline __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t x, __nv_fp4_interpretation_t) {
    return __half(__cuplug::from_fp4(x));
}
inline __half2_raw __nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t x, __nv_fp4_interpretation_t) {
    return __half2(__half(__cuplug::from_fp4(x)), __half(__cuplug::from_fp4(x >> 4)));
}

struct __attribute__((aligned(1))) __nv_fp4_e2m1 {
    __nv_fp4_storage_t __x;
    __nv_fp4_e2m1() = default;
    template <class T> explicit __nv_fp4_e2m1(T x) : __x(__cuplug::to_fp4((double)x)) {}
    explicit __nv_fp4_e2m1(__half x) : __nv_fp4_e2m1((float)x) {}
    explicit __nv_fp4_e2m1(__nv_bfloat16 x) : __nv_fp4_e2m1((float)x) {}
    explicit operator float() const { return __cuplug::from_fp4(__x); }
    explicit operator double() const { return __cuplug::from_fp4(__x); }
    explicit operator __half() const { return __half((float)*this); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }
    explicit operator bool() const { return (__x & 7) != 0; }
    template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0> explicit operator T() const {
        return __cuplug::saturated<T>((float)*this);
    }
};
struct __attribute__((aligned(1))) __nv_fp4x2_e2m1 {
    __nv_fp4x2_storage_t __x;
    __nv_fp4x2_e2m1() = default;
    explicit __nv_fp4x2_e2m1(float2 v) : __x(__cuplug::to_fp4(v.x, v.y)) {}
    explicit __nv_fp4x2_e2m1(double2 v) : __x(__cuplug::to_fp4(v.x, v.y)) {}
    explicit __nv_fp4x2_e2m1(__half2 v) : __x(__cuplug::to_fp4((float)v.x, (float)v.y)) {}
    explicit __nv_fp4x2_e2m1(__nv_bfloat162 v) : __x(__cuplug::to_fp4((float)v.x, (float)v.y)) {}
    explicit operator float2() const { return make_float2(__cuplug::from_fp4(__x), __cuplug::from_fp4(__x >> 4)); }
    explicit operator __half2() const { return __float22half2_rn((float2)*this); }
};
struct __attribute__((aligned(2))) __nv_fp4x4_e2m1 {
    __nv_fp4x4_storage_t __x;
    __nv_fp4x4_e2m1() = default;
    template <class P> __nv_fp4x4_e2m1(P low, P high, int)
        : __x((__nv_fp4x4_storage_t)(__nv_fp4x2_e2m1(high).__x << 8 | __nv_fp4x2_e2m1(low).__x)) {}
    explicit __nv_fp4x4_e2m1(float4 v) : __nv_fp4x4_e2m1(make_float2(v.x, v.y), make_float2(v.z, v.w), 0) {}
    explicit __nv_fp4x4_e2m1(double4 v) : __nv_fp4x4_e2m1(make_double2(v.x, v.y), make_double2(v.z, v.w), 0) {}
    explicit __nv_fp4x4_e2m1(__half2 low, __half2 high) : __nv_fp4x4_e2m1(low, high, 0) {}
    explicit __nv_fp4x4_e2m1(__nv_bfloat162 low, __nv_bfloat162 high) : __nv_fp4x4_e2m1(low, high, 0) {}
    explicit operator float4() const {
        return make_float4(
            __cuplug::from_fp4(__x), __cuplug::from_fp4(__x >> 4), __cuplug::from_fp4(__x >> 8), __cuplug::from_fp4(__x >> 12));
    }
};
#endif
