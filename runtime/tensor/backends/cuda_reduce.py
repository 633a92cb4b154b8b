"""CUDA C for reductions: functors, and kernels that walk memory as it lies. No atomics: results repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from struct import pack

from ..core.dtypes import dtype
from ..core.layout import Layout
from ..core.shapes import Shape
from ..places.reduction_table import Reduction
from .cuda_geometry import WALKS, Walk, merged
from .cuda_source import header

__all__ = ["ReductionSource", "plan"]

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
template <class T> struct ValueAt { T value; long long index; };
template <class T, bool largest> struct Extreme {
    typedef ValueAt<T> Acc;
    static __device__ Acc start() { Acc a = {T(0), -1}; return a; }
    static __device__ __forceinline__ bool beats(T x, T value) {
        return (largest ? x > value : x < value) || (isnan_(x) && !isnan_(value));
    }
    // A thread comes to its elements in their order: of equals it keeps the first by itself.
    static __device__ __forceinline__ void add(Acc& a, T x, long long i, double p) {
        if (a.index < 0 || beats(x, a.value)) { a.value = x; a.index = i; }
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
_FEW_SPLITS = 32
"""Partial results that one thread merges."""


@dataclass(frozen=True)
class ReductionSource:
    """A source with the kernels ``reduce`` (out..., source, partial, parameter) and ``finish`` (out..., partial,
    parameter), each with ``before`` in front, and how to launch the first."""

    source: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    splits: int
    """Partial results of each output, which ``finish`` merges; with 1 there is nothing left to do."""
    finish_blocks: int
    """Blocks of 128 threads for ``finish``."""
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
    # Measured on an H200 with 256 MiB of float32: one sum is fastest by 4 blocks for each multiprocessor.
    wanted = processors * 16 // blocks if columns else -(-processors * (4 if dense else 8) // blocks)
    splits = max(1, min(wanted, length // rows_per_block, _MOST_SPLITS))
    over, within = Walk(out_shape, [out_steps]), Walk(in_shape, [in_steps])
    return ReductionSource(
        _source(
            reduction,
            computed,
            outs,
            operand.dtype,
            (over, within),
            _COLUMNS if columns else _DENSE if dense else _ROWS,
            _FINISH_FEW if splits <= _FEW_SPLITS else _FINISH,
        ),
        (blocks, splits, 1),
        (32, _WARP_ROWS, 1) if columns else (_INNER, 1, 1),
        splits,
        -(-outputs // 128) if splits <= _FEW_SPLITS else outputs,
        24,
        outputs,
        over.packed + within.packed + pack("@3q", outputs, length, splits),
    )


def _source(
    reduction: Reduction,
    computed: dtype,
    outs: Sequence[Layout],
    stored: dtype,
    walks: tuple[Walk, Walk],
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
    text = header([stored, computed, *(out.dtype for out in outs)]) + WALKS + _FUNCTORS
    text += f"typedef {computed.c_name} T;\ntypedef {reduction.cuda}<T> F;\ntypedef F::Acc Acc;\n"
    text += f"typedef {over.c_type} Over;\ntypedef {within.c_type} Within;\ntypedef {stored.c_name} Stored;\n"
    text += f"__device__ __forceinline__ T load(Stored x) {{ return {loaded}; }}\n"
    result = f"F::result(a, (double)length, p, {written})"
    end = f"if (splits == 1) {result}; else partial[o * splits + blockIdx.y] = a;"
    before = "const Over over, const Within within, long long outputs, long long length, long long splits"
    parameters = f"({before}, {results}, const Stored* source, Acc* partial, double p)"
    text += _BLOCK + reduce.replace("PARAMETERS", parameters).replace("END", end)
    parameters = f"({before}, {results}, Acc* partial, double p)"
    return text + finish.replace("PARAMETERS", parameters).replace("END", f"{result};")


_BLOCK = r"""
__device__ __forceinline__ void element(Acc& a, const Stored* source, const Within& within, long long i, double p) {
    long long offset[1];
    within.go(i, offset);
    F::add(a, load(source[offset[0]]), i, p);
}
template <class W> __device__ __forceinline__ long long row_of(const W& over, long long o) {
    long long at[1];
    over.go(o, at);
    return at[0];
}
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
_ROWS = r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = blockIdx.x, row = row_of(over, o);
    const long long share = (length + splits - 1) / splits;
    const long long first = blockIdx.y * share, last = first + share < length ? first + share : length;
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    long long i = first + threadIdx.x;
    for (; i + 3 * 256 < last; i += 4 * 256) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) element(many[k], source + row, within, i + k * 256, p);
    }
    for (; i < last; i += 256) element(many[0], source + row, within, i, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 256, p);
    if (threadIdx.x == 0) { END }
}
"""

# The same for elements that lie side by side: read in vectors of 16 bytes, but for those before the first such address.
_DENSE = r"""
struct __align__(16) Vector { Stored at[16 / sizeof(Stored)]; };
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const int width = 16 / sizeof(Stored);
    const long long o = blockIdx.x, share = (length + splits - 1) / splits;
    const long long first = blockIdx.y * share < length ? blockIdx.y * share : length;
    const long long last = first + share < length ? first + share : length;
    const Stored* row = source + row_of(over, o);
    long long start = first + (long long)((16 - ((unsigned long long)(row + first) & 15)) & 15) / (int)sizeof(Stored);
    if (start > last) start = last;
    const long long vectors = (last - start) / width;
    const Vector* from = reinterpret_cast<const Vector*>(row + start);
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    for (long long i = first + threadIdx.x; i < start; i += 256) F::add(many[0], load(row[i]), i, p);
    long long j = threadIdx.x;
    for (; j + 3 * 256 < vectors; j += 4 * 256) {
        Vector read[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) read[k] = from[j + k * 256];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            #pragma unroll
            for (int v = 0; v < width; ++v) F::add(many[k], load(read[k].at[v]), start + (j + k * 256) * width + v, p);
        }
    }
    for (; j < vectors; j += 256) {
        const Vector read = from[j];
        #pragma unroll
        for (int v = 0; v < width; ++v) F::add(many[v % 4], load(read.at[v]), start + j * width + v, p);
    }
    for (long long i = start + vectors * width + threadIdx.x; i < last; i += 256) F::add(many[1], load(row[i]), i, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 256, p);
    if (threadIdx.x == 0) { END }
}
"""

# Neighbouring threads make neighbouring outputs, for memory in which these lie side by side.
_COLUMNS = r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = (long long)blockIdx.x * 32 + threadIdx.x;
    const long long share = (length + splits - 1) / splits;
    const long long first = blockIdx.y * share, last = first + share < length ? first + share : length;
    Acc a = F::start();
    if (o < outputs) {
        const long long row = row_of(over, o);
        #pragma unroll 8
        for (long long i = first + threadIdx.y; i < last; i += 8) element(a, source + row, within, i, p);
    }
    merge_block((Acc*)memory, a, threadIdx.y * 32 + threadIdx.x, 32, 8, p);
    if (threadIdx.y == 0 && o < outputs) { END }
}
"""

_FINISH = r"""
extern "C" __global__ void __launch_bounds__(128) finish PARAMETERS {
    __shared__ __align__(16) unsigned char memory[128 * sizeof(Acc)];
    const long long o = blockIdx.x;
    Acc a = F::start();
    for (int i = threadIdx.x; i < splits; i += 128) F::merge(a, partial[o * splits + i], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 128, p);
    if (threadIdx.x == 0) { END }
}
"""

# The same with one thread for each output.
_FINISH_FEW = r"""
extern "C" __global__ void __launch_bounds__(128) finish PARAMETERS {
    const long long o = (long long)blockIdx.x * 128 + threadIdx.x;
    if (o >= outputs) return;
    Acc a = F::start();
    for (int i = 0; i < splits; ++i) F::merge(a, partial[o * splits + i], p);
    END
}
"""
