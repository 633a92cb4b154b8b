"""CUDA C for reductions: functors, and kernels that walk memory as it lies. No atomics: results repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from struct import pack

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...places.tables_with_gradients.reduction_table import Reduction
from .cuda_geometry import WALKS, Walk, merged
from .cuda_reduce_loops import BLOCK, COLUMNS, DENSE, FINISH, FINISH_FEW, ROWS, SHORT
from .cuda_source import header

_FUNCTORS = r"""
// A functor starts an accumulator, adds an element at a position, merges accumulators and makes the results of one.
// `n` is the number of elements, `p` the reduction's parameter.
#define ONE_VALUE(NAME, START, ADD, RESULT)                                                                \
    template <class T> struct NAME {                                                                       \
        typedef T Acc;                                                                                     \
        static __device__ __forceinline__ Acc start() { return START; }                                    \
        static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) { ADD; }            \
        static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) { ADD; }              \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {       \
            *out = convert<R, T>(RESULT);                                                                  \
        }                                                                                                  \
    };
ONE_VALUE(Sum, T(0), a = T(a + x), a)
ONE_VALUE(Product, T(1), a = T(a * x), a)
ONE_VALUE(Mean, T(0), a += x, T(a / T(n)))
template <class T> struct NumberSum : Sum<T> {
    typedef T Acc;
    static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) { a += isnan_(x) ? T(0) : x; }
};
template <class T> struct Numbers { T total; Index many; };
template <class T> struct NumberMean {
    typedef Numbers<T> Acc;
    static __device__ Acc start() { Acc a = {T(0), 0}; return a; }
    static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) {
        a.total += isnan_(x) ? T(0) : x;
        a.many += isnan_(x) ? 0 : 1;
    }
    static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) {
        a.total += x.total;
        a.many += x.many;
    }
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {
        *out = convert<R, T>(a.total / T(a.many));
    }
};

// The numbers that no number of the type is less, or greater than.
template <class T> __device__ __forceinline__ T least() {
    return T(-1) < T(0) ? T(1ull << (8 * sizeof(T) - 1)) : T(0);
}
template <class T> __device__ __forceinline__ T greatest() {
    return T(-1) < T(0) ? T((1ull << (8 * sizeof(T) - 1)) - 1) : T(-1);
}
#define INFINITE(T)                                                                                              \
    template <> __device__ __forceinline__ T least<T>() { return (T)__longlong_as_double(0xFFF0000000000000ll); }  \
    template <> __device__ __forceinline__ T greatest<T>() { return (T)__longlong_as_double(0x7FF0000000000000ll); }
INFINITE(float)
INFINITE(double)
ONE_VALUE(Maximum, least<T>(), a = maximum(a, x), a)
ONE_VALUE(Minimum, greatest<T>(), a = minimum(a, x), a)
template <class T> struct Bounds { T low, high; };
template <class T> struct Extremes {
    typedef Bounds<T> Acc;
    static __device__ Acc start() { Acc a = {greatest<T>(), least<T>()}; return a; }
    static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) {
        a.low = minimum(a.low, x);
        a.high = maximum(a.high, x);
    }
    static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) {
        a.low = minimum(a.low, x.low);
        a.high = maximum(a.high, x.high);
    }
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* low, R* high) {
        *low = convert<R, T>(a.low);
        *high = convert<R, T>(a.high);
    }
};

template <class T> struct Truth {
    typedef int Acc;
    static __device__ bool of(T x) { return x != T(0); }
};
#define TRUTH(NAME, START, OPERATOR)                                                                       \
    template <class T> struct NAME : Truth<T> {                                                            \
        typedef int Acc;                                                                                   \
        static __device__ Acc start() { return START; }                                                    \
        static __device__ void add(Acc& a, T x, long long i, double p) { a = a OPERATOR Truth<T>::of(x); } \
        static __device__ void merge(Acc& a, const Acc& x, double p) { a = a OPERATOR x; }                 \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {       \
            *out = R(a != 0);                                                                              \
        }                                                                                                  \
    };
TRUTH(Any, 0, ||)
TRUTH(All, 1, &&)

template <class T> struct Count {
    typedef long long Acc;
    static __device__ Acc start() { return 0; }
    static __device__ void add(Acc& a, T x, long long i, double p) { a += x != T(0); }
    static __device__ void merge(Acc& a, const Acc& x, double p) { a += x; }
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) { *out = R(a); }
};

template <class T> struct Norm {
    typedef T Acc;
    static __device__ Acc start() { return T(0); }
    static __device__ void add(Acc& a, T x, long long i, double p) {
        T size = absolute(x);
        if (p == 2) a += x * x;
        else if (p == 1) a += size;
        else if (isinf_(p)) a = maximum(a, size);
        else a += pow(size, T(p));
    }
    static __device__ void merge(Acc& a, const Acc& x, double p) { if (isinf_(p)) a = maximum(a, x); else a += x; }
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {
        *out = convert<R, T>(p == 2 ? T(sqrt(a)) : p == 1 || isinf_(p) ? a : T(pow(a, T(1 / p))));
    }
};

// Mean and squared distances from it, merged by the formula of Chan, Golub and LeVeque (1979).
template <class T> struct Moments { T count, mean, squares; };
__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }  // how a mean moves: as it may
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
template <class T> struct Spread {
    template <class A> static __device__ __forceinline__ void add(A& a, T x) {
        a.count += T(1);
        T away = x - a.mean;
        a.mean += quotient(away, a.count);
        a.squares += away * (x - a.mean);
    }
    template <class A> static __device__ __forceinline__ void merge(A& a, const A& x) {
        T count = a.count + x.count;
        if (x.count == T(0)) return;
        T away = x.mean - a.mean, share = x.count / count;
        a.mean += away * share;
        a.squares += x.squares + away * away * a.count * share;
        a.count = count;
    }
    static __device__ T variance(T squares, double n, double p) { return T(squares / T(n > p ? n - p : 0.0)); }
};
#define SPREAD(NAME, OF)                                                                                            \
    template <class T> struct NAME {                                                                                \
        typedef Moments<T> Acc;                                                                                     \
        static __device__ Acc start() { Acc a = {T(0), T(0), T(0)}; return a; }                                     \
        static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) { Spread<T>::add(a, x); }    \
        static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) { Spread<T>::merge(a, x); }    \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {                \
            *out = convert<R, T>(T(OF(Spread<T>::variance(a.squares, n, p))));                                      \
        }                                                                                                           \
    };                                                                                                              \
    template <class T> struct NAME##AndMean {                                                                       \
        typedef MomentsAndTotal<T> Acc;                                                                             \
        static __device__ Acc start() { Acc a = {T(0), T(0), T(0), T(0)}; return a; }                               \
        static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) {                            \
            Spread<T>::add(a, x);                                                                                   \
            a.total += x;                                                                                           \
        }                                                                                                           \
        static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) {                              \
            Spread<T>::merge(a, x);                                                                                 \
            a.total += x.total;                                                                                     \
        }                                                                                                           \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out, R* mean) {       \
            *out = convert<R, T>(T(OF(Spread<T>::variance(a.squares, n, p))));                                      \
            *mean = convert<R, T>(T(a.total / T(n)));                                                               \
        }                                                                                                           \
    };
// The total besides: beside an infinity, moments have no mean.
template <class T> struct MomentsAndTotal { T count, mean, squares, total; };
SPREAD(Variance, )
SPREAD(Deviation, sqrt)

// The extreme element and where it is. NaN is more extreme than anything; the first of equals counts.
template <class T> struct ValueAt { T value; Index index; };
template <class T, bool largest> struct Extreme {
    typedef ValueAt<T> Acc;
    static __device__ Acc start() { Acc a = {T(0), -1}; return a; }
    static __device__ __forceinline__ bool beats(T x, T value) {
        return (largest ? x > value : x < value) || (isnan_(x) && !isnan_(value));
    }
    // A thread comes to its elements in their order: of equals it keeps the first by itself.
    static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) {
        if (a.index < 0 || beats(x, a.value)) { a.value = x; a.index = (Index)i; }
    }
    static __device__ __forceinline__ void merge(Acc& a, const Acc& x, double p) {
        if (x.index < 0) return;
        if (a.index < 0 || beats(x.value, a.value) || (x.index < a.index && !beats(a.value, x.value))) a = x;
    }
};
#define EXTREME(NAME, LARGEST)                                                                                    \
    template <class T> struct Arg##NAME : Extreme<T, LARGEST> {                                                   \
        typedef ValueAt<T> Acc;                                                                                     \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) { *out = a.index; } \
    };                                                                                                            \
    template <class T> struct NAME##AndIndex : Extreme<T, LARGEST> {                                              \
        typedef ValueAt<T> Acc;                                                                                     \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out, long long* at) { \
            *out = convert<R, T>(a.value);                                                                        \
            *at = a.index;                                                                                        \
        }                                                                                                         \
    };
EXTREME(Maximum, true)
EXTREME(Minimum, false)
"""

_INNER, _WARP_ROWS = 256, 8
_PER_THREAD = 16
_MOST_SPLITS = 1024
_DENSE_BLOCKS = 4
"""Blocks for each multiprocessor that sum up what lies side by side. Measured on an H200 with 256 MiB of float32."""
_FEW_SPLITS = 32
"""Partial results that one thread merges."""
_WARP_LENGTH = 4096
"""Elements of a row up to which one warp reduces it."""


@dataclass(frozen=True)
class ReductionSource:
    """A source with the kernels ``reduce`` (out..., source, partial, parameter) and ``finish`` (out..., partial,
    parameter), each with ``before`` in front, and how to launch the first."""

    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    splits: int
    """Partial results of each output, which ``finish`` merges; with 1 there is nothing left to do."""
    finish_grid: tuple[int, int, int]
    finish_block: tuple[int, int, int]
    """Blocks, and threads of a block, for ``finish``."""
    partial_bytes: int
    """Of one partial result, an upper bound."""
    outputs: int
    before: bytes


def plan(
    reduction: Reduction, computed: dtype, outs: Sequence[Layout], operand: Layout, axes: Shape, *, processors: int
) -> ReductionSource:
    """How to reduce ``axes``. ``processors``: multiprocessors of the device, enough blocks for which are wanted."""
    shape, strides = operand.shape, operand.strides
    kept = [axis for axis in range(len(shape)) if axis not in axes and shape[axis] != 1]
    gone = [axis for axis in axes if shape[axis] != 1]
    out_shape, (out_steps,) = merged(tuple(shape[a] for a in kept), [tuple(strides[a] for a in kept)])
    in_shape, (in_steps,) = merged(tuple(shape[a] for a in gone), [tuple(strides[a] for a in gone)])
    outputs, length = prod(out_shape), prod(in_shape)
    columns = bool(out_shape) and abs(out_steps[-1]) == 1 and not (in_steps and abs(in_steps[-1]) == 1)
    if columns:
        blocks, rows_per_block = -(-outputs // 32), _WARP_ROWS * 8
    else:
        blocks, rows_per_block = outputs, _INNER * _PER_THREAD
    dense = in_steps == (1,) and not columns
    # Many rows that a warp reads in a few steps: a block has one for each of its warps.
    short = dense and length <= _WARP_LENGTH and outputs >= processors * 32
    if short:
        blocks, rows_per_block = -(-outputs // 8), length + 1
    wanted = processors * 16 // blocks if columns else -(-processors * (_DENSE_BLOCKS if dense else 8) // blocks)
    splits = max(1, min(wanted, length // rows_per_block, _MOST_SPLITS))
    few = splits <= _FEW_SPLITS
    over, within = Walk(out_shape, [out_steps]), Walk(in_shape, [in_steps])
    return ReductionSource(
        _source(
            reduction,
            computed,
            outs,
            operand.dtype,
            (over, within),
            length,
            COLUMNS if columns else SHORT if short else DENSE if dense else ROWS,
            FINISH_FEW if few else FINISH,
        ),
        (blocks, splits, 1),
        (32, _WARP_ROWS, 1) if columns else (_INNER, 1, 1),
        splits,
        (-(-outputs // 128) if few else outputs, 1, 1),
        (128 if few else 512, 1, 1),
        32,
        outputs,
        over.packed + within.packed + pack("@3q", outputs, length, splits),
    )


def _source(
    reduction: Reduction,
    computed: dtype,
    outs: Sequence[Layout],
    stored: dtype,
    walks: tuple[Walk, Walk],
    length: int,
    reduce: str,
    finish: str,
) -> str:
    over, within = walks
    results = ", ".join(f"{out.dtype.c_name}* out{k}" for k, out in enumerate(outs))
    written = ", ".join(f"out{k} + o" for k in range(len(outs)))
    loaded = "(float)x" if stored.is_half else "x"
    kind = "float" if stored.is_half else stored.c_name
    if kind != computed.c_name:
        loaded = f"convert<T, {kind}>({loaded})"
    text = header([stored, computed, *(out.dtype for out in outs)]) + WALKS
    text += f"typedef {'long long' if length >= 2**31 else 'int'} Index;\n" + _FUNCTORS
    text += f"typedef {computed.c_name} T;\ntypedef {reduction.cuda}<T> F;\ntypedef F::Acc Acc;\n"
    text += f"typedef {over.c_type} Over;\ntypedef {within.c_type} Within;\ntypedef {stored.c_name} Stored;\n"
    text += f"__device__ __forceinline__ T load(Stored x) {{ return {loaded}; }}\n"
    result = f"F::result(a, (double)length, p, {written})"
    end = f"if (splits == 1) {result}; else partial[o * splits + blockIdx.y] = a;"
    before = "const Over over, const Within within, long long outputs, long long length, long long splits"
    parameters = f"({before}, {results}, const Stored* source, Acc* partial, double p)"
    text += BLOCK + reduce.replace("PARAMETERS", parameters).replace("END", end)
    parameters = f"({before}, {results}, Acc* partial, double p)"
    return text + finish.replace("PARAMETERS", parameters).replace("END", f"{result};")
