"""CUDA C for what moves elements along rows, searches in them, or normalises them."""

from __future__ import annotations

from ..core.dtypes import dtype
from .cuda_scan import loading
from .cuda_source import THREADS, header

__all__ = ["gather_source", "scatter_source", "search_source", "soft_source"]

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}

_INDEX = f"""    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= count) return;
"""


def gather_source(stored: dtype) -> str:
    """``kernel(out, source, index, length of a source's row, of an index's row, count)``. An index out of range
    traps."""
    kind = _WORDS[stored.itemsize]
    return f"""
extern "C" __global__ void kernel({kind}* out, const {kind}* source, const long long* index, long long length,
                                  long long picked, long long count) {{
{_INDEX}    const long long at = index[i];
    if (at < 0 || at >= length) __trap();
    out[i] = source[i / picked * length + at];
}}
"""


_COMBINE = r"""
template <class T> struct Add { static __device__ T of(T a, T b) { return T(a + b); } };
template <class T> struct Multiply { static __device__ T of(T a, T b) { return T(a * b); } };
template <class T> struct Larger { static __device__ T of(T a, T b) { return maximum(a, b); } };
template <class T> struct Smaller { static __device__ T of(T a, T b) { return minimum(a, b); } };

// An element is changed by exchanging the word that it lies in, as often as somebody else was quicker.
template <int size> struct Word { typedef unsigned type; };
template <> struct Word<8> { typedef unsigned long long type; };
__device__ __forceinline__ void combine(Stored* target, T value) {
    typedef Word<sizeof(Stored)>::type W;
    const unsigned long long address = (unsigned long long)target;
    const int inside = (int)(address % sizeof(W));
    W* const word = (W*)(address - inside);
    W seen = *(volatile W*)word;
    for (;;) {
        W made = seen;
        Stored* const mine = (Stored*)((char*)&made + inside);
        *mine = convert<Stored, T>(F<T>::of(load(*mine), value));
        const W before = atomicCAS(word, seen, made);
        if (before == seen) return;
        seen = before;
    }
}
"""
_ATOMIC = {"int32": "int", "int64": "unsigned long long", "float32": "float", "float64": "double"}
"""The types whose sums the hardware makes, and what it takes them for."""


def scatter_source(functor: str, stored: dtype) -> str:
    """``kernel(target, index, values, length of a target's row, of an index's row, count)``. An index out of range
    traps. What several threads write to one place is combined in any order; without a functor, one of them stays."""
    text = header([stored, stored.computed]) + loading(stored, stored.computed)
    if functor == "Write":
        act = "target[at] = values[i];"
    elif functor == "Add" and stored.name in _ATOMIC:
        kind = _ATOMIC[stored.name]
        act = f"atomicAdd(({kind}*)(target + at), ({kind})values[i]);"
    else:
        text += _COMBINE.replace("F<T>", f"{functor}<T>")
        act = "combine(target + at, load(values[i]));"
    return f"""{text}
extern "C" __global__ void kernel(Stored* target, const long long* index, const Stored* values, long long length,
                                  long long picked, long long count) {{
{_INDEX}    long long at = index[i];
    if (at < 0 || at >= length) __trap();
    at += i / picked * length;
    {act}
}}
"""


def search_source(stored: dtype, found: dtype) -> str:
    """``kernel(found, ordered, values, length of an ordered row, or 0 for one row, of a row of values, right, count)``.

    NaN belongs behind all numbers, where sorting puts it.
    """
    return f"""{header([stored, stored.computed])}{loading(stored, stored.computed)}
__device__ __forceinline__ bool less(T a, T b) {{ return a < b || (isnan_(b) && !isnan_(a)); }}
extern "C" __global__ void kernel({found.c_name}* found, const Stored* ordered, const Stored* values, long long step,
                                  long long length, long long looked, long long right, long long count) {{
{_INDEX}    const T x = load(values[i]);
    ordered += i / looked * step;
    long long low = 0, high = length;
    while (low < high) {{
        const long long half = (low + high) / 2;
        const T here = load(ordered[half]);
        if (right ? !less(x, here) : less(here, x)) low = half + 1;
        else high = half;
    }}
    found[i] = ({found.c_name})low;
}}
"""


def soft_source(functor: str, stored: dtype, out: dtype, lanes: int) -> str:
    """``kernel(out, source, rows, length)``: ``lanes`` threads (32 or 256) for a row, 256 for a block."""
    log = functor == "LogSoftmax"
    if lanes == 32:
        return _short_rows(log, stored, out)
    result = "load(row[i]) - most - total" if log else "exp(load(row[i]) - most) / total"
    return f"""{header([stored, out, stored.computed])}{loading(stored, stored.computed)}{_among(lanes)}
extern "C" __global__ void __launch_bounds__(256) kernel({out.c_name}* out, const Stored* source, long long rows,
                                                         long long length) {{
    __shared__ T shared[256];
    const long long r = (long long)blockIdx.x * ROWS + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    const bool mine = r < rows;
    const Stored* row = source + r * length;
    // One reading for both: what was added up so far shrinks when a larger element comes.
    T most = -INFINITY, total = T(0);
    if (mine) for (long long i = lane; i < length; i += LANES) {{
        const T x = load(row[i]);
        if (x > most) {{ total = total * exp(most - x) + T(1); most = x; }}
        else total += x == most && isinf_(x) && x < T(0) ? T(0) : exp(x - most);
    }}
    const T largest = among_lanes<true>(most, shared);
    total = among_lanes<false>(most == largest ? total : total * exp(most - largest), shared);
    most = largest;
    {"total = log(total);" if log else ""}
    if (mine) for (long long i = lane; i < length; i += LANES)
        out[r * length + i] = convert<{out.c_name}, T>({result});
}}
"""


def _among(lanes: int) -> str:
    return f"""
enum {{ LANES = {lanes}, ROWS = 256 / LANES }};
template <bool largest> __device__ __forceinline__ T among_lanes(T mine, T* shared) {{
    const int me = threadIdx.x, lane = me % LANES;
    shared[me] = mine;
    __syncthreads();
    for (int half = LANES / 2; half > 0; half /= 2) {{
        if (lane < half) shared[me] = largest ? maximum(shared[me], shared[me + half]) : shared[me] + shared[me + half];
        __syncthreads();
    }}
    const T all = shared[me - lane];
    __syncthreads();
    return all;
}}
"""


def _short_rows(log: bool, stored: dtype, out: dtype) -> str:
    """The same for rows of 1024 elements at most, which 32 threads keep in registers."""
    result = "kept[k] - most - total" if log else "kept[k] / total"
    return f"""{header([stored, out, stored.computed])}{loading(stored, stored.computed)}{_among(32)}
extern "C" __global__ void __launch_bounds__(256) kernel({out.c_name}* out, const Stored* source, long long rows,
                                                         long long length) {{
    __shared__ T shared[256];
    const long long r = (long long)blockIdx.x * ROWS + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES, count = r < rows ? (int)length : 0;
    const Stored* row = source + r * length;
    T kept[32], most = -INFINITY, total = T(0);
    #pragma unroll
    for (int k = 0; k < 32; ++k) {{
        kept[k] = lane + k * LANES < count ? load(row[lane + k * LANES]) : -INFINITY;
        most = maximum(most, kept[k]);
    }}
    most = among_lanes<true>(most, shared);
    #pragma unroll
    for (int k = 0; k < 32; ++k) {{
        if (lane + k * LANES >= count) continue;
        const T power = exp(kept[k] - most);
        total += power;
        {"" if log else "kept[k] = power;"}
    }}
    total = among_lanes<false>(total, shared);
    {"total = log(total);" if log else ""}
    #pragma unroll
    for (int k = 0; k < 32; ++k)
        if (lane + k * LANES < count) out[r * length + lane + k * LANES] = convert<{out.c_name}, T>({result});
}}
"""
