"""What sources for NVRTC may include although NVRTC has none of the host's headers."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from .stub_headers import STUBS

_OURS = {
    # NVRTC declares the functions itself.
    **dict.fromkeys(
        (
            *("assert.h", "cassert", "math.h", "stdio.h", "stdlib.h"),
            *("string.h", "time.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
        ),
        "#pragma once\n",
    ),
    "cuda.h": "#pragma once\ntypedef unsigned long long CUtexObject; typedef unsigned long long CUsurfObject;\n",
    "stdint.h": "#pragma once\n"
    "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;\n"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;\n"
    "typedef unsigned long long uint64_t; typedef uint64_t uintptr_t; typedef int64_t intptr_t;\n",
    "stddef.h": "#pragma once\ntypedef long ptrdiff_t;\n#ifndef NULL\n#define NULL 0\n#endif\n",
    "float.h": "#pragma once\n#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n"
    "#define FLT_EPSILON 1.192092896e-07f\n#define DBL_MAX 1.7976931348623157e+308\n"
    "#define DBL_MIN 2.2250738585072014e-308\n#define DBL_EPSILON 2.2204460492503131e-16\n",
    "limits.h": "#pragma once\n#define CHAR_BIT 8\n#define INT_MAX 2147483647\n#define INT_MIN (-INT_MAX - 1)\n"
    "#define UINT_MAX 4294967295u\n#define LLONG_MAX 9223372036854775807ll\n#define LLONG_MIN (-LLONG_MAX - 1)\n"
    "#define ULLONG_MAX 18446744073709551615ull\n#define SHRT_MAX 32767\n#define SHRT_MIN (-32768)\n",
}
_MATH = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma llrint llround log log10 log1p log2 logb "
    "lrint lround modf nearbyint nextafter pow remainder remquo rint round scalbln scalbn signbit sin sinh sqrt tan "
    "tanh tgamma trunc"
)
_OURS |= {
    name: f"#pragma once\nnamespace std {{ {' '.join(f'using ::{word};' for word in words.split())} }}\n"
    for name, words in {
        "cmath": _MATH,
        "cstdio": "printf",
        "cstdlib": "abs malloc free",
        "cstring": "memcpy memset",
    }.items()
}
_OURS |= {
    "cstdint": '#include "stdint.h"\n',
    "cstddef": '#include "stddef.h"\n',
    "cfloat": '#include "float.h"\n',
    "climits": '#include "limits.h"\n',
}
IMPLIED = "cuplug_implied.h"
_OURS[IMPLIED] = (
    # What nvcc's sources see without including it, from the host's headers.
    "#pragma once\ntypedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint;\n"
    "typedef unsigned long ulong;\n#define NAN (__int_as_float(0x7fffffff))\n"
    "#define INFINITY (__int_as_float(0x7f800000))\n#define HUGE_VALF INFINITY\n"
    "#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000ll))\n"
    "#define M_E 2.7182818284590452354\n#define M_PI 3.14159265358979323846\n#define M_PI_2 1.57079632679489661923\n"
    "#define M_PI_4 0.78539816339744830962\n#define M_1_PI 0.31830988618379067154\n"
    "#define M_2_PI 0.63661977236758134308\n#define M_LN2 0.69314718055994530942\n"
    "#define M_SQRT2 1.41421356237309504880\n#define M_SQRT1_2 0.70710678118654752440\n"
)
LIMITS = "cuplug_limits.h"
# Under a name of its own: what NVRTC has as <float.h> need not define all of it.
_OURS[LIMITS] = "".join(_OURS[name] for name in ("stdint.h", "limits.h", "float.h"))
MIXED = "cuplug_mixed.h"
_OF_ONE = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfcx erfinv exp exp2 expm1 fabs floor lgamma log "
    "log10 log1p log2 logb nearbyint normcdf rcbrt rint round sin sinh sqrt tan tanh tgamma trunc"
)
_OF_TWO = "atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder"
_OURS[MIXED] = (
    # As <cmath> has them, which nvcc includes: functions of integers, and of numbers of two kinds, are those of double.
    "#pragma once\nnamespace __cuplug {\ntemplate <class T> struct Kind { enum { value = 0 }; };\n"
    + "".join(
        f"template <> struct Kind<{name}> {{ enum {{ value = {kind} }}; }};\n"
        for kind, names in {
            1: "bool,char,signed char,unsigned char,short,unsigned short,int,unsigned,long,unsigned long,long long,"
            "unsigned long long",
            2: "float",
            3: "double",
        }.items()
        for name in names.split(",")
    )
    + "template <bool> struct If {};\ntemplate <> struct If<true> { typedef double type; };\n"
    "template <class T> struct One : If<Kind<T>::value == 1> {};\n"
    "template <class A, class B> struct Two : If<Kind<A>::value && Kind<B>::value &&\n"
    "    (Kind<A>::value == 1 || (int)Kind<A>::value != (int)Kind<B>::value)> {};\n}\n"
    + "".join(
        f"template <class T> inline __device__ typename __cuplug::One<T>::type {name}(T x) "
        f"{{ return {name}((double)x); }}\n"
        for name in _OF_ONE.split()
    )
    + "".join(
        f"template <class A, class B> inline __device__ typename __cuplug::Two<A, B>::type {name}(A x, B y) "
        f"{{ return {name}((double)x, (double)y); }}\n"
        for name in _OF_TWO.split()
    )
)
# Where CUDA's own versions are, which its other headers include, ours would be at odds with them.
for _name, _own in {"stdint.h": "cstdint", "stddef.h": "cstddef", "float.h": "cfloat", "limits.h": "climits"}.items():
    _OURS[_name] = (
        f"#pragma once\n#if __has_include(<cuda/std/{_own}>)\n#include <cuda/std/{_own}>\n#else\n{_OURS[_name]}#endif\n"
    )
# The standard's headers that CUDA has for devices, in a namespace of its own; some of its versions lack some.
_OURS |= {
    name: f"#pragma once\n#if __has_include(<cuda/std/{name}>)\n#include <cuda/std/{name}>\n"
    f"namespace std {{ using namespace cuda::std; }}\n#else\n{instead}\n#endif\n"
    for name, instead in {
        "algorithm": "namespace std { using ::min; using ::max; }",
        **dict.fromkeys(("array", "functional", "limits", "tuple", "type_traits", "utility"), ""),
    }.items()
}
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)


def headers_for(folders: Sequence[str], toolkit: Sequence[str] = ()) -> dict[str, str]:
    """Name and text of what NVRTC is given, before it looks for files.

    Args:
        folders: the program's own, whose files come before ours.
        toolkit: CUDA's. A header there that knows of NVRTC is not stood in for: ``curand_kernel.h`` needs the types
            of ``curand.h``.
    """
    headers = {**STUBS, "new": "#pragma once\n", **_OURS}
    kept = {name: text for name, text in headers.items() if not any((Path(root) / name).exists() for root in folders)}
    for name in (name for root in toolkit for name in _knowing_nvrtc(root)):
        kept.pop(name, None)
    return kept


@functools.cache
def _knowing_nvrtc(folder: str) -> list[str]:
    """Which of the headers that stubs stand for a folder has in a form for NVRTC."""
    paths = {name: Path(folder) / name for name in STUBS}
    return [name for name, at in paths.items() if at.exists() and "__CUDACC_RTC__" in at.read_text(errors="replace")]


def needs_host(source: str) -> bool:
    """Whether the source may hold code for the host."""
    return not STUBS.keys().isdisjoint(_INCLUDED.findall(source)) or re.search(r"\bmain\s*\(", source) is not None
