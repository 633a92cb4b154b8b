#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cuda_fp16.h
#else
#include "../half.h"

CUPLUG_SMALL(__half, __half2, __half_raw, __half2_raw, float_to_half, half_to_float)
namespace __cuplug { template <> constexpr bool is_half<__half> = true; }
CUPLUG_SMALL_MIXED_ALL(__half)
CUPLUG_SMALL_CONVERSIONS(__half, half)
CUPLUG_SMALL_NAMED(__half, __half2, half, half2)
typedef __half half;
typedef __half2 half2;
#endif
