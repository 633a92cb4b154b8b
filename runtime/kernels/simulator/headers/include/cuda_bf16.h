#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cuda_bf16.h
#else
#include "../half.h"

CUPLUG_SMALL(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, float_to_bfloat, bfloat_to_float)
namespace __cuplug { template <> constexpr bool is_half<__nv_bfloat16> = true; }
CUPLUG_SMALL_MIXED_ALL(__nv_bfloat16)
CUPLUG_SMALL_CONVERSIONS(__nv_bfloat16, bfloat16)
CUPLUG_SMALL_NAMED(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#endif
