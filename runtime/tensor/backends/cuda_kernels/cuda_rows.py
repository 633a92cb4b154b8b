"""CUDA C for what moves elements along rows, searches in them, or normalises them."""

from __future__ import annotations

from ...core.dtypes import dtype
from .cuda_geometry import WALKS, Walk
from .cuda_scan import loading
from .cuda_source import THREADS, header

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}

PER_BLOCK = 4 * THREADS
"""Elements that a block of gathering, scattering or searching has: 4 for each thread, so that many readings wait."""

_EACH = f"""    const long long first = (long long)blockIdx.x * {PER_BLOCK} + threadIdx.x;
#define EACH _Pragma("unroll") for (int k = 0; k < 4; ++k) if (first + k * {THREADS} < count)
#define I (first + k * {THREADS})
"""
_FIND = """    long long at[4];
    EACH at[k] = index[I];
    EACH {
        if (at[k] < 0 || at[k] >= length) __trap();
        long long row[1];
        walk.go(I, row);
        at[k] += row[0];
    }
"""


def gather_source(walk: Walk, stored: dtype) -> str:
    """``kernel(out, source, index, length of a source's row, count)``. ``walk`` says where the row of each element of
    the index begins in the source. An index out of range traps."""
    kind = _WORDS[stored.itemsize]
    return f"""{WALKS}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    const {walk.c_type} walk, {kind}* out, const {kind}* source, const long long* index, long long length,
    long long count) {{
{_EACH}{_FIND}    {kind} read[4];
    EACH read[k] = source[at[k]];
    EACH out[I] = read[k];
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


def scatter_source(walk: Walk, functor: str, stored: dtype) -> str:
    """``kernel(target, index, values, length of a target's row, count)``. ``walk`` says where the row of each element
    of the index begins in the target. An index out of range traps. What several threads write to one place is combined
    in any order; without a functor, one of them stays."""
    text, act = _combining(functor, stored)
    return f"""{text}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    const {walk.c_type} walk, Stored* target, const long long* index, const Stored* values, long long length,
    long long count) {{
{_EACH}    Stored value[4];
    EACH value[k] = values[I];
{_FIND}    EACH {{ {act} }}
}}
"""


def scatter_along_source(walk: Walk, functor: str, stored: dtype, wide: dtype) -> str:
    """``kernel(target, index, values, length, step, count)``: as ``scatter_source``, of tensors that are no rows.
    ``walk`` says where each element lies in the index, of the type ``wide``, and in the values, and from where in the
    target the index counts, in steps of ``step`` elements."""
    text, act = _combining(functor, stored)
    return f"""{text}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    const {walk.c_type} walk, Stored* target, const {wide.c_name}* index, const Stored* values, long long length,
    long long step, long long count) {{
{_EACH}    Stored value[4];
    long long at[4], found[4];
    EACH {{
        long long each[3];
        walk.go(I, each);
        at[k] = each[0];
        found[k] = index[each[1]];
        value[k] = values[each[2]];
    }}
    EACH {{
        if (found[k] < 0 || found[k] >= length) __trap();
        at[k] += found[k] * step;
    }}
    EACH {{ {act} }}
}}
"""


def _combining(functor: str, stored: dtype) -> tuple[str, str]:
    """What stands before a kernel that scatters, and the statement for the element ``k`` of a thread."""
    text = header([stored, stored.computed]) + WALKS + loading(stored, stored.computed)
    if functor == "Write":
        return text, "target[at[k]] = value[k];"
    if functor == "Add" and stored.name in _ATOMIC:
        kind = _ATOMIC[stored.name]
        return text, f"atomicAdd(({kind}*)(target + at[k]), ({kind})value[k]);"
    return text + _COMBINE.replace("F<T>", f"{functor}<T>"), "combine(target + at[k], load(value[k]));"


def search_source(walk: Walk, stored: dtype, found: dtype, *, wide: bool) -> str:
    """``kernel(found, ordered, values, length of an ordered row, right, count)``. ``walk`` says where the ordered row
    of each value begins; ``wide``: whether such a row needs 64 bits. Found is where, or of bool whether the value is
    there.

    NaN belongs behind all numbers, where sorting puts it.
    """
    place = "unsigned long long" if wide else "unsigned"
    answer = "low < length && load(within[low]) == x" if found.kind == "b" else "low"
    return f"""{header([stored, stored.computed])}{WALKS}{loading(stored, stored.computed)}
__device__ __forceinline__ bool less(T a, T b) {{ return a < b || (isnan_(b) && !isnan_(a)); }}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    const {walk.c_type} walk, {found.c_name}* found, const Stored* ordered, const Stored* values, long long length,
    long long right, long long count) {{
{_EACH}    Stored value[4];
    EACH value[k] = values[I];
    EACH {{
        const T x = load(value[k]);
        long long row[1];
        walk.go(I, row);
        const Stored* within = ordered + row[0];
        {place} low = 0, high = ({place})length;
        while (low < high) {{
            const {place} half = (low + high) / 2;
            const T here = load(within[half]);
            if (right ? !less(x, here) : less(here, x)) low = half + 1;
            else high = half;
        }}
        found[I] = ({found.c_name})({answer});
    }}
}}
"""


def soft_source(functor: str, stored: dtype, lanes: int) -> str:
    """``kernel(out, source, rows, length)``: ``lanes`` threads (32 or 256) for a row, ``soft_threads`` for a block. A
    row is read twice."""
    log = functor == "LogSoftmax"
    result = "load(row[i]) - most - total" if log else "exp(load(row[i]) - most) / total"
    return f"""{header([stored, stored.computed])}{loading(stored, stored.computed)}{_among(lanes)}
extern "C" __global__ void __launch_bounds__(THREADS) kernel(Stored* out, const Stored* source, long long rows,
                                                             long long length) {{
    __shared__ T shared[8];
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
        out[r * length + i] = convert<Stored, T>({result});
}}
"""


def _among(lanes: int) -> str:
    return f"""
enum {{ THREADS = {soft_threads(lanes)}, LANES = {lanes}, ROWS = THREADS / LANES, WARPS = LANES / 32 }};
template <bool largest> __device__ __forceinline__ T both(T a, T b) {{ return largest ? maximum(a, b) : a + b; }}
template <bool largest> __device__ __forceinline__ T among_lanes(T mine, T* shared) {{
    #pragma unroll
    for (int half = 16; half > 0; half /= 2) mine = both<largest>(mine, __shfl_xor_sync(~0u, mine, half));
    if (LANES == 32) return mine;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = mine;
    __syncthreads();
    T all = shared[0];
    #pragma unroll
    for (int warp = 1; warp < WARPS; ++warp) all = both<largest>(all, shared[warp]);
    __syncthreads();
    return all;
}}
"""


def soft_threads(lanes: int) -> int:
    """Threads of a block where so many make a row: few where a warp does, so that blocks end and begin one by one."""
    return 128 if lanes == 32 else lanes


KEPT = 32
"""The most elements of a row that a thread keeps."""


def kept_soft_source(functor: str, stored: dtype, lanes: int, items: int, together: int, *, whole: bool) -> str:
    """The same for rows of ``lanes * items`` elements at most, which are read once and kept in registers.

    Args:
        functor: ``Softmax`` or ``LogSoftmax``.
        stored: the elements' type.
        lanes: threads for a row.
        items: elements of a thread, a multiple of ``together``.
        together: how many are read and written at once; a row's length is a multiple, and all addresses are of as many.
        whole: whether a row has exactly so many elements.
    """
    log = functor == "LogSoftmax"
    result = "kept[g * V + v] - most - total" if log else "divided(kept[g * V + v], total, inverse)"
    there = "true" if whole else "i < (int)length"
    return f"""{header([stored, stored.computed])}{loading(stored, stored.computed)}{_among(lanes)}
enum {{ V = {together}, GROUPS = {items} / V }};
struct __align__({together * stored.itemsize}) Pack {{ Stored at[V]; }};
// A quotient, all but exact: the product with the inverse, moved by what it misses. The divisor is 1 at least, or NaN.
__device__ __forceinline__ T divided(T a, T b, T inverse) {{
    const T near = a * inverse;
    return near + (a - near * b) * inverse;
}}
extern "C" __global__ void __launch_bounds__(THREADS) kernel(Stored* out, const Stored* source, long long rows,
                                                             long long length) {{
    __shared__ T shared[8];
    const long long r = (long long)blockIdx.x * ROWS + threadIdx.x / LANES;
    if (r >= rows) return;  // all lanes of the row
    const int first = threadIdx.x % LANES * V;
    const Stored* row = source + r * length;
    Stored* to = out + r * length;
    T kept[GROUPS * V], most = -INFINITY, total = T(0);
    Pack read[GROUPS];
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {{
        const int i = first + g * LANES * V;
        if ({there}) read[g] = *reinterpret_cast<const Pack*>(row + i);
    }}
    // NaN need not be the largest: the total will be NaN.
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {{
        const int i = first + g * LANES * V;
        #pragma unroll
        for (int v = 0; v < V; ++v) {{
            kept[g * V + v] = {there} ? load(read[g].at[v]) : -INFINITY;
            most = fmax(most, kept[g * V + v]);
        }}
    }}
    most = among_lanes<true>(most, shared);
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {{
        const int i = first + g * LANES * V;
        #pragma unroll
        for (int v = 0; v < V; ++v) {{
            const T power = exp(kept[g * V + v] - most);
            total += {there} ? power : T(0);
            {"" if log else "kept[g * V + v] = power;"}
        }}
    }}
    total = among_lanes<false>(total, shared);
    {"total = log(total);" if log else "const T inverse = T(1) / total;"}
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g) {{
        const int i = first + g * LANES * V;
        Pack made;
        #pragma unroll
        for (int v = 0; v < V; ++v) made.at[v] = convert<Stored, T>({result});
        if ({there}) *reinterpret_cast<Pack*>(to + i) = made;
    }}
}}
"""
