"""What all generated kernels begin with: types, conversions and the helpers that the table's expressions use.

The helpers compute what NumPy computes: a maximum passes NaN on, a remainder has the divisor's sign, a shift by the
width of the type or more gives 0, and an integer divided by zero gives 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.dtypes import dtype

THREADS = 256
"""Threads of a block in all kernels here."""

_HELPERS = r"""
template <class T> struct Kind { static const bool floating = false; };
template <> struct Kind<float> { static const bool floating = true; };
template <> struct Kind<double> { static const bool floating = true; };

// Conversions. From floats to integers by way of the widest one, so that what does not fit wraps around as on the CPU.
template <class R, class T> struct Convert {
    static __device__ R of(T x) { return static_cast<R>(x); }
};
#define FROM_FLOATING(R)                                                                                     \
    template <> struct Convert<R, float> { static __device__ R of(float x) { return (R)(long long)x; } };   \
    template <> struct Convert<R, double> { static __device__ R of(double x) { return (R)(long long)x; } };
FROM_FLOATING(unsigned char)
FROM_FLOATING(signed char)
FROM_FLOATING(short)
FROM_FLOATING(int)
FROM_FLOATING(unsigned short)
FROM_FLOATING(unsigned)
template <class R, class T> __device__ __forceinline__ R convert(T x) { return Convert<R, T>::of(x); }

__device__ __forceinline__ bool isnan_(float x) { return x != x; }
__device__ __forceinline__ bool isnan_(double x) { return x != x; }
template <class T> __device__ __forceinline__ bool isnan_(T) { return false; }
__device__ __forceinline__ bool isinf_(float x) { return x - x != x - x && x == x; }
__device__ __forceinline__ bool isinf_(double x) { return x - x != x - x && x == x; }
template <class T> __device__ __forceinline__ bool isinf_(T) { return false; }

template <class T> __device__ __forceinline__ T maximum(T a, T b) { return a > b || isnan_(a) ? a : b; }
template <class T> __device__ __forceinline__ T minimum(T a, T b) { return a < b || isnan_(a) ? a : b; }
template <class T> __device__ __forceinline__ T absolute(T a) { return a < T(0) ? T(-a) : a; }
__device__ __forceinline__ float absolute(float a) { return fabsf(a); }
__device__ __forceinline__ double absolute(double a) { return fabs(a); }
__device__ __forceinline__ bool absolute(bool a) { return a; }
template <class T> __device__ __forceinline__ T sign(T a) { return T(a > T(0)) - T(a < T(0)); }
__device__ __forceinline__ bool sign(bool a) { return a; }
template <class T> __device__ __forceinline__ bool signbit_(T a) { return a < T(0); }
__device__ __forceinline__ bool signbit_(float a) { return signbit(a); }
__device__ __forceinline__ bool signbit_(double a) { return signbit(a); }
template <class T> __device__ __forceinline__ T bitwise_not_(T a) { return T(~a); }
__device__ __forceinline__ bool bitwise_not_(bool a) { return !a; }

#define ROUNDING(NAME, FLOAT, DOUBLE)                                                     \
    template <class T> __device__ __forceinline__ T NAME(T a) { return a; }               \
    __device__ __forceinline__ float NAME(float a) { return FLOAT(a); }                   \
    __device__ __forceinline__ double NAME(double a) { return DOUBLE(a); }
ROUNDING(floor_, floorf, floor)
ROUNDING(ceil_, ceilf, ceil)
ROUNDING(trunc_, truncf, trunc)
ROUNDING(rint_, rintf, rint)

template <class T, bool floating = Kind<T>::floating> struct Division {
    static __device__ T truncated(T a, T b) { return b == T(0) ? T(0) : T(a / b); }
    static __device__ T remainder(T a, T b) { return b == T(0) ? T(0) : T(a % b); }
    static __device__ T floored(T a, T b) {
        if (b == T(0)) return T(0);
        T quotient = T(a / b);
        return T(quotient * b) != a && (a < T(0)) != (b < T(0)) ? T(quotient - 1) : quotient;
    }
    static __device__ T floor_remainder(T a, T b) {
        T rest = remainder(a, b);
        return rest != T(0) && (rest < T(0)) != (b < T(0)) ? T(rest + b) : rest;
    }
};
template <class T> struct Division<T, true> {
    static __device__ T truncated(T a, T b) { return trunc(a / b); }
    static __device__ T remainder(T a, T b) { return fmod(a, b); }
    static __device__ T floored(T a, T b) {
        if (b == T(0)) return a / b;
        T rest = fmod(a, b), quotient = (a - rest) / b;
        if (rest != T(0) && (b < T(0)) != (rest < T(0))) quotient -= T(1);
        if (quotient == T(0)) return copysign(T(0), a / b);
        T whole = floor(quotient);
        return quotient - whole > T(0.5) ? whole + T(1) : whole;
    }
    static __device__ T floor_remainder(T a, T b) {
        T rest = fmod(a, b);
        if (rest == T(0)) return copysign(T(0), b);
        return (rest < T(0)) != (b < T(0)) ? rest + b : rest;
    }
};
template <class T> __device__ __forceinline__ T trunc_divide(T a, T b) { return Division<T>::truncated(a, b); }
template <class T> __device__ __forceinline__ T trunc_remainder(T a, T b) { return Division<T>::remainder(a, b); }
template <class T> __device__ __forceinline__ T floor_divide(T a, T b) { return Division<T>::floored(a, b); }
template <class T> __device__ __forceinline__ T floor_remainder(T a, T b) { return Division<T>::floor_remainder(a, b); }

template <class T> __device__ __forceinline__ T power(T a, T b) {
    if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
    T result = T(1);
    for (; b > T(0); b = T(b >> 1)) {
        if (b & T(1)) result = T(result * a);
        a = T(a * a);
    }
    return result;
}
__device__ __forceinline__ float power(float a, float b) { return powf(a, b); }
__device__ __forceinline__ double power(double a, double b) { return pow(a, b); }

template <class T> __device__ __forceinline__ T shift_left(T a, T b) {
    return b >= T(0) && b < T(8 * sizeof(T)) ? T(a << b) : T(0);
}
template <class T> __device__ __forceinline__ T shift_right(T a, T b) {
    return b >= T(0) && b < T(8 * sizeof(T)) ? T(a >> b) : a < T(0) ? T(-1) : T(0);
}
"""


def header(types: Iterable[dtype]) -> str:
    """The beginning of a source whose tensors have these types."""
    names = {each.name for each in types}
    includes = ""
    if "float16" in names:
        includes += "#include <cuda_fp16.h>\n"
    if "bfloat16" in names:
        includes += "#include <cuda_bf16.h>\n"
    stores = "".join(
        f"template <class T> struct Convert<{name}, T> {{\n"
        f"    static __device__ {name} of(T x) {{ return {name}((float)x); }}\n}};\n"
        for kind, name in (("float16", "__half"), ("bfloat16", "__nv_bfloat16"))
        if kind in names
    )
    return includes + _HELPERS + stores


def store(target: dtype, value: str, kind: str) -> str:
    """``value``, of the C type ``kind``, converted to what a tensor of ``target`` holds."""
    return f"convert<{target.c_name}, {kind}>({value})"
