// CUDA C++ for the host: everything that a kernel's source may use without including anything.
//
// Sources are read twice. First only for the preprocessor (CUPLUG_SCAN): CUDA's own keywords stay as they are, so that
// translate.py finds kernels, shared variables and symbols in what is left. Then the translated text is compiled, behind
// those of rounding.h, simd.h and dpx.h that it uses.
#pragma once

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUPLUG_SIM__ 1
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 8
#define __CUDA_API_VERSION 12080
#define CUDART_VERSION 12080
#define CUDA_VERSION 12080
#define __CUDA_FP16_TYPES_EXIST__ 1

#ifndef CUPLUG_SCAN
#define __global__ __attribute__((always_inline, visibility("hidden")))
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#ifdef CUPLUG_RECURSIVE
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __inline_hint__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#ifndef __inline__
#define __inline__ inline
#endif
#if defined(__clang__) || __GNUC__ < 10  // clang takes no const float for a constant, and nvcc does
#define CUPLUG_CONSTANT
#else
#define CUPLUG_CONSTANT __constinit
#endif
#define __nv_pure__
#define __device_builtin__
#define __builtin_assume(...) ((__VA_ARGS__) ? (void)0 : __builtin_unreachable())
#define __assume(...) __builtin_assume(__VA_ARGS__)
#endif

#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : __cuplug::failed_assertion(#__VA_ARGS__, __FILE__, __LINE__, __func__))
#endif

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VAL (__builtin_huge_val())
#define HUGE_VALF (__builtin_huge_valf())
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#ifndef NULL
#define NULL __null
#endif
// What <float.h>, <limits.h> and <stddef.h> give, since the compiler's own are safe to include.
#include <float.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CUPLUG_RACES
#define CUPLUG_RACES 0
#endif
#include "abi.h"
#include "vectors.h"
#include "threads.h"
#include "atomics.h"
#include "ordered_atomics.h"
#include "mathematics.h"
#include "intrinsics.h"
#include "memory.h"
// What nvcc's sources see without including it: cuda_runtime.h includes these.
#ifndef CUPLUG_SCAN
#include <cmath>
#include <cstdlib>
#include <cstring>
#endif
#include "textures.h"
#include "lockstep.h"
#include "entry.h"
#include "shifts.h"
#include "integers.h"
