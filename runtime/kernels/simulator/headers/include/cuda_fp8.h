// Floating-point numbers of 8 bits: stored, and converted to and from others, rounded to nearest even (CUDA Math API,
// "FP8 Intrinsics"). E4M3 has no infinities and one NaN; E5M2 is the upper half of a __half.
#pragma once
#ifdef CUPLUG_SCAN
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#pragma cuplug_include cuda_fp8.h
#else

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace __cuplug {

inline unsigned char to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t form) {
    const bool wide = form == __NV_E5M2;
    const int mantissa = wide ? 2 : 3, bias = wide ? 15 : 7;
    const unsigned char sign = __builtin_signbit(x) ? 0x80 : 0;
    const double size = __builtin_fabs(x), greatest = wide ? 57344.0 : 448.0;
    const double above = wide ? 61440.0 : 464.0;  // half-way to what would come next: the even one of the two is that of E5M2
    if (size != size) return (unsigned char)(sign | (wide ? 0x7e | (bits<unsigned long long>(x) >> 50 & 3) : 0x7f));
    if (wide ? size >= above : size > above) {
        if (saturate == __NV_NOSAT) return (unsigned char)(sign | (wide ? 0x7c : 0x7f));
        return (unsigned char)(sign | (wide ? 0x7b : 0x7e));
    }
    if (size == 0) return sign;
    int exponent;
    __builtin_frexp(size < greatest ? size : greatest, &exponent);
    if (--exponent < 1 - bias) exponent = 1 - bias;
    const int steps = (int)__builtin_rint(__builtin_ldexp(size, mantissa - exponent));  // with the leading one, if any
    return (unsigned char)(sign | (((exponent + bias - 1) << mantissa) + steps));
}
inline float from_fp8(unsigned char x, __nv_fp8_interpretation_t form) {
    if (form == __NV_E5M2) return half_to_float((unsigned short)(x << 8));
    const int exponent = x >> 3 & 15, steps = x & 7;
    if (exponent == 15 && steps == 7) return bits<float>(0x7fc00000u);
    const float size = exponent ? __builtin_ldexpf((float)(8 + steps), exponent - 10) : __builtin_ldexpf((float)steps, -9);
    return x & 0x80 ? -size : size;
}
inline unsigned short to_fp8(double x, double y, __nv_saturation_t saturate, __nv_fp8_interpretation_t form) {
    return (unsigned short)(to_fp8(y, saturate, form) << 8 | to_fp8(x, saturate, form));
}

}  // namespace __cuplug

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8(x, s, form);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8(x, s, form);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8((float)(__half)x, s, form);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8((float)(__nv_bfloat16)x, s, form);
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 v, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8(v.x, v.y, s, form);
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8(v.x, v.y, s, form);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8((float)((__half2)v).x, (float)((__half2)v).y, s, form);
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t form) {
    return __cuplug::to_fp8((float)((__nv_bfloat162)v).x, (float)((__nv_bfloat162)v).y, s, form);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t form) {
    return __half(__cuplug::from_fp8(x, form));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t form) {
    return __half2(__half(__cuplug::from_fp8((unsigned char)x, form)), __half(__cuplug::from_fp8((unsigned char)(x >> 8), form)));
}
// E8M0: an exponent alone, from 2^-127 on, and NaN.
inline __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturate, cudaRoundMode rounding) {
    const unsigned u = __cuplug::bits<unsigned>(x) & 0x7fffffff;
    const bool up = rounding == cudaRoundPosInf && (u & 0x7fffff) && u > 0x400000 && u < 0x7f800000;
    const unsigned code = (u >> 23) + up;
    return (unsigned char)(code == 255 && saturate == __NV_SATFINITE && u <= 0x7f800000 ? 254 : code);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_e8m0(__nv_bfloat16_raw x, __nv_saturation_t saturate, cudaRoundMode rounding) {
    return __nv_cvt_float_to_e8m0((float)__nv_bfloat16(x), saturate, rounding);
}
inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return __nv_bfloat16_raw{(unsigned short)(x == 0 ? 0x40 : x == 255 ? 0x7fff : x << 7)};
}

#define CUPLUG_FP8(name, form)                                                                                          \
    struct __attribute__((aligned(1))) __nv_fp8_##name {                                                                \
        __nv_fp8_storage_t __x;                                                                                         \
        __nv_fp8_##name() = default;                                                                                    \
        explicit __nv_fp8_##name(float x) : __x(__cuplug::to_fp8(x, __NV_SATFINITE, form)) {}                           \
        explicit __nv_fp8_##name(double x) : __x(__cuplug::to_fp8(x, __NV_SATFINITE, form)) {}                          \
        explicit __nv_fp8_##name(__half x) : __nv_fp8_##name((float)x) {}                                               \
        explicit __nv_fp8_##name(__nv_bfloat16 x) : __nv_fp8_##name((float)x) {}                                        \
        template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0>                               \
        explicit __nv_fp8_##name(T x) : __nv_fp8_##name((float)x) {}                                                    \
        explicit operator float() const { return __cuplug::from_fp8(__x, form); }                                       \
        explicit operator double() const { return __cuplug::from_fp8(__x, form); }                                      \
        explicit operator __half() const { return __half((float)*this); }                                               \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }                                 \
        explicit operator bool() const { return (__x & 0x7f) != 0; }                                                    \
        template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0>                               \
        explicit operator T() const { return __cuplug::saturated<T>((float)*this); }                                    \
    };                                                                                                                  \
    struct __attribute__((aligned(2))) __nv_fp8x2_##name {                                                              \
        __nv_fp8x2_storage_t __x;                                                                                       \
        __nv_fp8x2_##name() = default;                                                                                  \
        explicit __nv_fp8x2_##name(float2 v) : __x(__cuplug::to_fp8(v.x, v.y, __NV_SATFINITE, form)) {}                 \
        explicit __nv_fp8x2_##name(double2 v) : __x(__cuplug::to_fp8(v.x, v.y, __NV_SATFINITE, form)) {}                \
        explicit __nv_fp8x2_##name(__half2 v) : __x(__cuplug::to_fp8((float)v.x, (float)v.y, __NV_SATFINITE, form)) {}  \
        explicit __nv_fp8x2_##name(__nv_bfloat162 v)                                                                    \
            : __x(__cuplug::to_fp8((float)v.x, (float)v.y, __NV_SATFINITE, form)) {}                                    \
        explicit operator float2() const {                                                                              \
            return make_float2(__cuplug::from_fp8((unsigned char)__x, form), __cuplug::from_fp8((unsigned char)(__x >> 8), form)); \
        }                                                                                                               \
        explicit operator __half2() const { return __float22half2_rn((float2)*this); }                                  \
    };                                                                                                                  \
    struct __attribute__((aligned(4))) __nv_fp8x4_##name {                                                              \
        __nv_fp8x4_storage_t __x;                                                                                       \
        __nv_fp8x4_##name() = default;                                                                                  \
        template <class P> __nv_fp8x4_##name(P low, P high, int)                                                        \
            : __x((unsigned)__nv_fp8x2_##name(high).__x << 16 | __nv_fp8x2_##name(low).__x) {}                          \
        explicit __nv_fp8x4_##name(float4 v) : __nv_fp8x4_##name(make_float2(v.x, v.y), make_float2(v.z, v.w), 0) {}    \
        explicit __nv_fp8x4_##name(double4 v) : __nv_fp8x4_##name(make_double2(v.x, v.y), make_double2(v.z, v.w), 0) {} \
        explicit __nv_fp8x4_##name(__half2 low, __half2 high) : __nv_fp8x4_##name(low, high, 0) {}                      \
        explicit __nv_fp8x4_##name(__nv_bfloat162 low, __nv_bfloat162 high) : __nv_fp8x4_##name(low, high, 0) {}        \
        explicit operator float4() const {                                                                              \
            return make_float4(                                                                                         \
                __cuplug::from_fp8((unsigned char)__x, form), __cuplug::from_fp8((unsigned char)(__x >> 8), form),      \
                __cuplug::from_fp8((unsigned char)(__x >> 16), form), __cuplug::from_fp8((unsigned char)(__x >> 24), form)); \
        }                                                                                                               \
    };
namespace __cuplug {
// Towards zero, no further than the type goes; NaN becomes zero.
template <class T> inline T saturated(float x) {
    const bool is_signed = (T)-1 < (T)0;
    const T least = is_signed ? (T)((T)1 << (sizeof(T) * 8 - 1)) : (T)0, greatest = (T)~least;
    if (x != x) return 0;
    return x <= (float)least ? least : x >= (float)greatest ? greatest : (T)x;
}
}  // namespace __cuplug
CUPLUG_FP8(e4m3, __NV_E4M3)
CUPLUG_FP8(e5m2, __NV_E5M2)
#undef CUPLUG_FP8
#endif
