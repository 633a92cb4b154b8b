"""CUDA C for reductions: functors, and two kernels that walk memory as it lies. No atomics: results are reproducible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..dtypes import dtype
from ..layout import Layout, Shape
from ..reductions import Reduction
from .cuda_geometry import merged, walk
from .cuda_source import header

__all__ = ["Plan", "plan"]

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
template <class T> struct Variance {
    typedef Moments<T> Acc;
    static __device__ Acc start() { Acc a = {T(0), T(0), T(0)}; return a; }
    static __device__ void add(Acc& a, T x, long long i, double p) {
        a.count += T(1);
        T away = x - a.mean;
        a.mean += away / a.count;
        a.squares += away * (x - a.mean);
    }
    static __device__ void merge(Acc& a, const Acc& x, double p) {
        T count = a.count + x.count;
        if (x.count == T(0)) return;
        T away = x.mean - a.mean, share = x.count / count;
        a.mean += away * share;
        a.squares += x.squares + away * away * a.count * share;
        a.count = count;
    }
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {
        *out = convert<R, T>(T(a.squares / T(n > p ? n - p : 0.0)));
    }
};
template <class T> struct Deviation : Variance<T> {
    typedef Moments<T> Acc;
    template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {
        *out = convert<R, T>(T(sqrt(a.squares / T(n > p ? n - p : 0.0))));
    }
};

// The extreme element and where it is. NaN is more extreme than anything; the first of equals counts.
template <class T> struct Place { T value; long long index; };
template <class T, bool largest> struct Extreme {
    typedef Place<T> Acc;
    static __device__ Acc start() { Acc a = {T(0), -1}; return a; }
    static __device__ void take(Acc& a, T x, long long i) {
        bool better = a.index < 0;
        if (!better && isnan_(x) != isnan_(a.value)) better = isnan_(x);
        else if (!better && (largest ? x > a.value : x < a.value)) better = true;
        else if (!better && (x == a.value || isnan_(x))) better = i < a.index;
        if (better) { a.value = x; a.index = i; }
    }
    static __device__ void add(Acc& a, T x, long long i, double p) { take(a, x, i); }
    static __device__ void merge(Acc& a, const Acc& x, double p) { if (x.index >= 0) take(a, x.value, x.index); }
};
#define EXTREME(NAME, LARGEST)                                                                                    \
    template <class T> struct NAME : Extreme<T, LARGEST> {                                                        \
        typedef Place<T> Acc;                                                                                     \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) {              \
            *out = convert<R, T>(a.value);                                                                        \
        }                                                                                                         \
    };                                                                                                            \
    template <class T> struct Arg##NAME : Extreme<T, LARGEST> {                                                   \
        typedef Place<T> Acc;                                                                                     \
        template <class R> static __device__ void result(const Acc& a, double n, double p, R* out) { *out = a.index; } \
    };                                                                                                            \
    template <class T> struct NAME##AndIndex : Extreme<T, LARGEST> {                                              \
        typedef Place<T> Acc;                                                                                     \
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


@dataclass(frozen=True)
class Plan:
    """A source with the kernels ``reduce`` (out..., source, partial, parameter) and ``finish`` (out..., partial,
    parameter), the grid and block of the first, and how many partial results it leaves for the second to merge."""

    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    splits: int
    partial_bytes: int
    """Of one partial result, an upper bound."""
    outputs: int


def plan(
    reduction: Reduction, computed: dtype, outs: Sequence[Layout], operand: Layout, axes: Shape, *, processors: int
) -> Plan:
    """How to reduce ``axes``. ``processors``: multiprocessors of the device, enough blocks for which are wanted."""
    shape, strides = operand.shape, operand.strides
    kept = [axis for axis in range(len(shape)) if axis not in axes and shape[axis] != 1]
    gone = [axis for axis in axes if shape[axis] != 1]
    out_shape, (out_steps,) = merged(tuple(shape[a] for a in kept), [tuple(strides[a] for a in kept)])
    in_shape, (in_steps,) = merged(tuple(shape[a] for a in gone), [tuple(strides[a] for a in gone)])
    outputs, length = prod(out_shape), prod(in_shape)
    columns = bool(out_shape) and abs(out_steps[-1]) == 1 and not (in_steps and abs(in_steps[-1]) == 1)
    wanted = processors * 8
    if columns:
        blocks = -(-outputs // 32)
        rows_per_block = _WARP_ROWS * 8
    else:
        blocks = outputs
        rows_per_block = _INNER * _PER_THREAD
    splits = max(1, min(-(-wanted // blocks), length // rows_per_block, _MOST_SPLITS))
    text = _source(reduction, computed, outs, operand, (out_shape, out_steps), (in_shape, in_steps), splits, columns)
    grid = (blocks, splits, 1)
    return Plan(text, grid, (32, _WARP_ROWS, 1) if columns else (_INNER, 1, 1), splits, 24, outputs)


def _source(
    reduction: Reduction,
    computed: dtype,
    outs: Sequence[Layout],
    operand: Layout,
    kept: tuple[Shape, Shape],
    gone: tuple[Shape, Shape],
    splits: int,
    columns: bool,
) -> str:
    stored = operand.dtype
    results = ", ".join(f"{out.dtype.c_name}* out{k}" for k, out in enumerate(outs))
    written = ", ".join(f"out{k} + o" for k in range(len(outs)))
    length, outputs = prod(gone[0]), prod(kept[0])
    integer = "unsigned" if length < 2**31 else "unsigned long long"
    loaded = "(float)(source[at + inner])" if stored.is_half else "source[at + inner]"
    kind = "float" if stored.is_half else stored.c_name
    if kind != computed.c_name:
        loaded = f"convert<T, {kind}>({loaded})"
    text = header([stored, computed, *(out.dtype for out in outs)]) + _FUNCTORS
    text += f"typedef {computed.c_name} T;\ntypedef {reduction.cuda}<T> F;\ntypedef F::Acc Acc;\n"
    text += f"const long long LENGTH = {length}LL, OUTPUTS = {outputs}LL, SPLITS = {splits};\n"
    text += (
        f"__device__ __forceinline__ void element(Acc& a, const {stored.c_name}* source, long long at, long long i,\n"
        f"                                        double p) {{\n    "
        + walk("i", gone[0], [gone[1]], ["inner"], integer)
        + f"\n    F::add(a, {loaded}, i, p);\n}}\n"
    )
    text += "__device__ __forceinline__ long long row_of(long long o) {\n    "
    text += walk("o", kept[0], [kept[1]], ["at"], "unsigned long long") + "\n    return at;\n}\n"
    finish = f"F::result(a, (double)LENGTH, p, {written})"
    end = f"if (SPLITS == 1) {finish}; else partial[o * SPLITS + blockIdx.y] = a;"
    parameters = f"({results}, const {stored.c_name}* source, Acc* partial, double p)"
    text += (_COLUMNS if columns else _ROWS).replace("PARAMETERS", parameters).replace("END", end)
    text += _FINISH.replace("PARAMETERS", f"({results}, Acc* partial, double p)").replace("END", f"{finish};")
    return text


_BLOCK = r"""
__device__ __forceinline__ void merge_block(Acc* shared, Acc& a, int me, int step, int many, double p) {
    shared[me] = a;
    __syncthreads();
    for (int half = many / 2; half > 0; half /= 2) {
        if (me / step < half) F::merge(shared[me], shared[me + half * step], p);
        __syncthreads();
    }
    a = shared[me];
}
"""

# One block for each output and split. Four accumulators keep four loads in flight.
_ROWS = (
    _BLOCK
    + r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = blockIdx.x, at = row_of(o);
    const long long share = (LENGTH + SPLITS - 1) / SPLITS;
    const long long first = blockIdx.y * share, last = first + share < LENGTH ? first + share : LENGTH;
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    long long i = first + threadIdx.x;
    for (; i + 3 * 256 < last; i += 4 * 256) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) element(many[k], source, at, i + k * 256, p);
    }
    for (; i < last; i += 256) element(many[0], source, at, i, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 256, p);
    if (threadIdx.x == 0) { END }
}
"""
)

# Neighbouring threads make neighbouring outputs, for memory in which these lie side by side.
_COLUMNS = (
    _BLOCK
    + r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = (long long)blockIdx.x * 32 + threadIdx.x;
    const long long share = (LENGTH + SPLITS - 1) / SPLITS;
    const long long first = blockIdx.y * share, last = first + share < LENGTH ? first + share : LENGTH;
    Acc a = F::start();
    if (o < OUTPUTS) {
        const long long at = row_of(o);
        #pragma unroll 4
        for (long long i = first + threadIdx.y; i < last; i += 8) element(a, source, at, i, p);
    }
    merge_block((Acc*)memory, a, threadIdx.y * 32 + threadIdx.x, 32, 8, p);
    if (threadIdx.y == 0 && o < OUTPUTS) { END }
}
"""
)

_FINISH = r"""
extern "C" __global__ void __launch_bounds__(128) finish PARAMETERS {
    __shared__ __align__(16) unsigned char memory[128 * sizeof(Acc)];
    const long long o = blockIdx.x;
    Acc a = F::start();
    for (int i = threadIdx.x; i < SPLITS; i += 128) F::merge(a, partial[o * SPLITS + i], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 128, p);
    if (threadIdx.x == 0) { END }
}
"""
