#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cuda_fp16.h
#else
#include "../half.h"

CUPLUG_SMALL(__half, __half2, float_to_half, half_to_float)
CUPLUG_SMALL_MIXED_ALL(__half)
CUPLUG_SMALL_RAW(__half, __half2, __half_raw, __half2_raw)
typedef __half half;
typedef __half2 half2;

inline __half __float2half(float x) { return __half(x); }
inline __half __double2half(double x) { return __half(x); }
inline float __half2float(__half x) { return (float)x; }
CUPLUG_SMALL_CONVERSIONS(__half, half)
inline __half __ushort_as_half(unsigned short x) { return __cuplug::bits<__half>(x); }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline __half2 __half2half2(__half x) { return __half2(x, x); }
inline __half2 __halves2half2(__half x, __half y) { return __half2(x, y); }
inline __half2 make_half2(__half x, __half y) { return __half2(x, y); }
inline __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
inline __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
inline __half2 __float22half2_rn(float2 v) { return __half2(__half(v.x), __half(v.y)); }
inline float2 __half22float2(__half2 v) { return make_float2((float)v.x, (float)v.y); }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
inline __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
inline __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
inline __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
inline __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }
#endif
