"""CUDA C for scans along rows: by chunks whose totals are added up first, so that long rows keep many blocks busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_source import header

_ITEMS = 8
TILE = 256 * _ITEMS
"""Elements that a block scans at once."""

_FUNCTORS = r"""
// `of` makes an accumulator of an element, `join` one of two that follow each other, `write` stores results.
#define TOTAL(NAME, START, JOIN)                                                                              \
    template <class T> struct NAME {                                                                          \
        typedef T Acc;                                                                                        \
        static __device__ __forceinline__ Acc start() { return START; }                                       \
        static __device__ __forceinline__ Acc of(T x, long long i) { return x; }                              \
        static __device__ __forceinline__ Acc join(const Acc& a, const Acc& b) { return JOIN; }               \
        template <class R> static __device__ __forceinline__ void write(const Acc& a, R* out, long long at) { \
            out[at] = convert<R, T>(a);                                                                       \
        }                                                                                                     \
    };
TOTAL(Sum, T(0), T(a + b))
TOTAL(Product, T(1), T(a * b))
// The logarithm of a sum of exponentials as the largest exponent, and the sum of what remains: one exponential each.
template <class T> struct Powers { T most, total; };
// Quick, since it is added to 1 at least: what is far below 1 counts little, and its error less.
__device__ __forceinline__ float decay(float x) { return __expf(x); }
__device__ __forceinline__ double decay(double x) { return exp(x); }
template <class T> struct LogSumExp {
    typedef Powers<T> Acc;
    static __device__ __forceinline__ Acc start() { Acc a = {T(-INFINITY), T(0)}; return a; }
    static __device__ __forceinline__ Acc of(T x, long long i) { Acc a = {x, T(1)}; return a; }
    static __device__ __forceinline__ Acc join(const Acc& a, const Acc& b) {
        const bool first = a.most > b.most || isnan_(a.most);
        const T high = first ? a.most : b.most, low = first ? b.most : a.most;
        const T shrink = low == high ? T(1) : decay(low - high);
        Acc both = {high, first ? a.total + b.total * shrink : b.total + a.total * shrink};
        return both;
    }
    template <class R> static __device__ __forceinline__ void write(const Acc& a, R* out, long long at) {
        out[at] = convert<R, T>(a.most + log(a.total));
    }
};

// The extreme element so far: of equals the last one, and NaN before anything.
template <class T> struct At { T value; long long index; };
template <class T, bool largest> struct Extreme {
    typedef At<T> Acc;
    static __device__ __forceinline__ Acc start() { Acc a = {T(0), -1}; return a; }
    static __device__ __forceinline__ Acc of(T x, long long i) { Acc a = {x, i}; return a; }
    static __device__ __forceinline__ Acc join(const Acc& a, const Acc& b) {
        if (b.index < 0) return a;
        if (a.index < 0 || isnan_(b.value) || (largest ? b.value >= a.value : b.value <= a.value)) return b;
        return a;
    }
    template <class R>
    static __device__ __forceinline__ void write(const Acc& a, R* out, long long* index, long long at) {
        out[at] = convert<R, T>(a.value);
        index[at] = a.index;
    }
};
template <class T> struct Largest : Extreme<T, true> {};
template <class T> struct Smallest : Extreme<T, false> {};
"""

_KERNELS = r"""
enum { ITEMS = 8, TILE = 256 * ITEMS };

// Tiles go through shared memory, so that neighbouring threads read and write neighbours; gaps keep banks apart.
enum { STAGED = TILE + TILE / 32 };
__device__ __forceinline__ int staged(int i) { return i + i / 32; }
__device__ __forceinline__ void fetch(Acc* stage, const Stored* source, long long first, long long length) {
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * 256 + threadIdx.x;
        stage[staged(i)] = first + i < length ? F::of(load(source[first + i]), first + i) : F::start();
    }
    __syncthreads();
}

template <class A> __device__ __forceinline__ A from_before(const A& mine, int step) {
    return A(__shfl_up_sync(~0u, mine, step));
}
template <class A> __device__ __forceinline__ Powers<A> from_before(const Powers<A>& mine, int step) {
    Powers<A> other = {A(__shfl_up_sync(~0u, mine.most, step)), A(__shfl_up_sync(~0u, mine.total, step))};
    return other;
}
template <class A> __device__ __forceinline__ At<A> from_before(const At<A>& mine, int step) {
    At<A> other = {A(__shfl_up_sync(~0u, mine.value, step)), __shfl_up_sync(~0u, mine.index, step)};
    return other;
}

// The accumulator of all threads before this one; `all` becomes that of the whole block. `shared` has room for 8.
__device__ __forceinline__ Acc before_me(const Acc& mine, Acc* shared, Acc& all) {
    const int lane = threadIdx.x % 32, me = threadIdx.x / 32;
    Acc sum = mine;
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const Acc other = from_before(sum, step);
        if (lane >= step) sum = F::join(other, sum);
    }
    if (lane == 31) shared[me] = sum;
    __syncthreads();
    Acc before = F::start();
    all = F::start();
    #pragma unroll
    for (int warp = 0; warp < 8; ++warp) {
        if (warp == me) before = all;
        all = F::join(all, shared[warp]);
    }
    const Acc within = from_before(sum, 1);
    __syncthreads();
    return lane ? F::join(before, within) : before;
}

// A block adds up the tiles of a chunk.
extern "C" __global__ void __launch_bounds__(256) totals(
    const Stored* source, Acc* total, long long length, long long chunks, long long tiles) {
    __shared__ __align__(16) unsigned char memory[8 * sizeof(Acc)], staging[STAGED * sizeof(Acc)];
    Acc* const stage = (Acc*)staging;
    const long long row = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
    Acc sum = F::start();
    for (long long tile = chunk * tiles; tile < (chunk + 1) * tiles && tile * TILE < length; ++tile) {
        fetch(stage, source + row * length, tile * TILE, length);
        Acc mine = F::start(), all;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) mine = F::join(mine, stage[staged(threadIdx.x * ITEMS + k)]);
        before_me(mine, (Acc*)memory, all);
        sum = F::join(sum, all);
    }
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
}

// Each total becomes that of the chunks before it, by one block for each row.
extern "C" __global__ void __launch_bounds__(256) add_up(Acc* total, long long chunks) {
    __shared__ __align__(16) unsigned char memory[8 * sizeof(Acc)];
    total += blockIdx.x * chunks;
    Acc carry = F::start();
    for (long long start = 0; start < chunks; start += 256) {
        const long long i = start + threadIdx.x;
        Acc all;
        const Acc before = before_me(i < chunks ? total[i] : F::start(), (Acc*)memory, all);
        if (i < chunks) total[i] = F::join(carry, before);
        carry = F::join(carry, all);
    }
}

// A block makes the tiles of a chunk, one after the other. Without totals a row is one chunk.
extern "C" __global__ void __launch_bounds__(256) scan(
    OUTS, const Stored* source, const Acc* total, long long length, long long chunks, long long tiles) {
    __shared__ __align__(16) unsigned char memory[8 * sizeof(Acc)], staging[STAGED * sizeof(Acc)];
    Acc* const stage = (Acc*)staging;
    const long long row = blockIdx.x / chunks, chunk = blockIdx.x % chunks;
    Acc carry = total ? total[blockIdx.x] : F::start();
    for (long long tile = chunk * tiles; tile < (chunk + 1) * tiles && tile * TILE < length; ++tile) {
        const long long first = tile * TILE;
        fetch(stage, source + row * length, first, length);
        Acc made[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            made[k] = stage[staged(threadIdx.x * ITEMS + k)];
            if (k) made[k] = F::join(made[k - 1], made[k]);
        }
        Acc all;
        const Acc before = F::join(carry, before_me(made[ITEMS - 1], (Acc*)memory, all));
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) stage[staged(threadIdx.x * ITEMS + k)] = F::join(before, made[k]);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const int i = k * 256 + threadIdx.x;
            if (first + i < length) F::write(stage[staged(i)], WRITTEN, row * length + first + i);
        }
        __syncthreads();
        carry = F::join(carry, all);
    }
}
"""


@dataclass(frozen=True)
class ScanSource:
    """A source with the kernels ``totals`` (source, totals, length, chunks of a row, tiles of a chunk), ``add_up``
    (totals, chunks) and ``scan`` (outs, source, totals, length, chunks, tiles), all of blocks of 256 threads."""

    source: str
    acc_bytes: int
    """Of one total, an upper bound."""


def scan_source(operation: RowOperation, outs: Sequence[Layout], operand: Layout) -> ScanSource:
    """The kernels for a line of the table, for tensors of these types."""
    stored, computed = operand.dtype, operand.dtype.computed
    parameters = ", ".join(f"{out.dtype.c_name}* out{k}" for k, out in enumerate(outs))
    text = header([stored, computed, *(out.dtype for out in outs)]) + _FUNCTORS
    text += loading(stored, computed)
    text += f"typedef {operation.cuda}<T> F;\ntypedef F::Acc Acc;\n"
    written = ", ".join(f"out{k}" for k in range(len(outs)))
    text += _KERNELS.replace("OUTS", parameters).replace("WRITTEN", written)
    return ScanSource(text, 16)


def loading(stored: dtype, computed: dtype) -> str:
    """The types ``Stored`` and ``T``, and ``load``, which makes the second of the first."""
    value = "(float)x" if stored.is_half else "x"
    return (
        f"typedef {stored.c_name} Stored;\ntypedef {computed.c_name} T;\n"
        f"__device__ __forceinline__ T load(Stored x) {{ return T({value}); }}\n"
    )
