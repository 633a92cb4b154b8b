"""CUDA C for indexing: picking elements by tensors of indices, writing them so, and finding those that are not 0."""

from __future__ import annotations

from struct import pack

from ..layout import Layout, Shape
from .cuda_geometry import WALKS, Walk, merged
from .cuda_source import THREADS

__all__ = ["PER_BLOCK", "SEARCHED", "picking_source", "position_source"]

_PER_THREAD = 4
PER_BLOCK = THREADS * _PER_THREAD
"""Elements that a block of the kernel of ``picking_source`` moves."""


def picking_source(target: Layout, values: Layout, count: int, *, put: bool) -> tuple[str, bytes]:
    """A kernel ``kernel(out, in, indices..., count)`` that takes from, or puts to, a tensor with the layout ``target``,
    whose first ``count`` dimensions are indexed; ``values`` is contiguous. An index out of range traps.

    Returns:
        The source, and the parameters that stand before the others.
    """
    inner = [(length, step) for length, step in zip(target.shape, target.strides, strict=True)][count:]
    inner = [(length, step) for length, step in inner if length != 1]
    lengths, steps = tuple(length for length, _ in inner), tuple(step for _, step in inner)
    picks = values.numel
    for length in lengths:
        picks //= length
    # A linear index becomes the offset behind the indexed dimensions, and which of the indices it is.
    walk = Walk(*merged((picks, *lengths), [(0, *steps), (1, *(0 for _ in lengths))]))
    indices = "".join(f", const long long* index{k}" for k in range(count))
    lines = "\n".join(
        f"        {{ long long at = index{k}[place[1]]; if (at < 0) at += indexed.length[{k}]; "
        f"if (at < 0 || at >= indexed.length[{k}]) __trap(); offset[k] += at * indexed.step[{k}]; }}"
        for k in range(count)
    )
    # Elements are moved, not looked at: only their size matters.
    kind = _WORDS[target.dtype.itemsize]
    move = "target[offset[k]] = values[i]" if put else "values[i] = target[offset[k]]"
    pointers = f"{kind}* target, const {kind}* values" if put else f"{kind}* values, const {kind}* target"
    source = f"""{WALKS}
struct Indexed {{ long long length[{count}], step[{count}]; }};
extern "C" __global__ void kernel(const {walk.c_type} walk, const Indexed indexed,
                                  {pointers}{indices}, long long count) {{
    const long long first = (long long)blockIdx.x * {PER_BLOCK} + threadIdx.x;
    long long offset[{_PER_THREAD}];
    #pragma unroll
    for (int k = 0; k < {_PER_THREAD}; ++k) {{
        const long long i = first + k * {THREADS};
        if (i >= count) break;
        long long place[2];
        walk.go(i, place);
        offset[k] = place[0];
{lines}
    }}
    #pragma unroll
    for (int k = 0; k < {_PER_THREAD}; ++k) {{
        const long long i = first + k * {THREADS};
        if (i < count) {move};
    }}
}}
"""
    return source, walk.packed + pack(f"@{2 * count}q", *target.shape[:count], *target.strides[:count])


_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}

SEARCHED = THREADS * 16
"""Elements in which a block of the kernels of ``position_source`` searches."""


def position_source(shape: Shape) -> tuple[str, bytes]:
    """Kernels that find the elements of a contiguous bool tensor which are True, in order. One after the other::

        count_true(flags, long long found[blocks], length)
        add_up(long long found[blocks + 1], blocks)     afterwards the last is the number of them all
        positions(walk, flags, found, out, length)      out: a row of indices for each dimension

    ``flags`` lies at a multiple of 16 bytes. Blocks have 256 threads and search in ``SEARCHED`` elements; ``add_up`` is
    one block.

    Returns:
        The source, and the parameters that stand before the others of ``positions``.
    """
    ndim = len(shape)
    walk = Walk(shape, [tuple(int(axis == each) for each in range(ndim)) for axis in range(ndim)])
    return f"{WALKS}\n{_POSITIONS.replace('WALK', walk.c_type).replace('NDIM', str(ndim))}", walk.packed


_POSITIONS = r"""
struct Flags { unsigned word[4]; };
// 16 flags, a byte each, from a place on. Those behind the end are 0.
__device__ __forceinline__ Flags flags_at(const unsigned char* flags, long long place, long long length) {
    Flags read = {{0, 0, 0, 0}};
    if (place + 16 <= length) {
        const uint4 all = *(const uint4*)(flags + place);
        read.word[0] = all.x; read.word[1] = all.y; read.word[2] = all.z; read.word[3] = all.w;
    } else {
        for (int k = 0; place + k < length; ++k) read.word[k / 4] |= (unsigned)flags[place + k] << 8 * (k % 4);
    }
    return read;
}
__device__ __forceinline__ int count_of(const Flags& read) {
    return __popc(read.word[0]) + __popc(read.word[1]) + __popc(read.word[2]) + __popc(read.word[3]);
}
// The sum over the block's threads up to this one, which all 256 must ask for.
__device__ __forceinline__ long long sum_up_to_me(long long mine) {
    __shared__ long long sums[256];
    sums[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        const long long before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
        __syncthreads();
    }
    return sums[threadIdx.x];
}
__device__ __forceinline__ long long my_place() { return ((long long)blockIdx.x * 256 + threadIdx.x) * 16; }

extern "C" __global__ void __launch_bounds__(256) count_true(
    const unsigned char* flags, long long* found, long long length) {
    const long long all = sum_up_to_me(count_of(flags_at(flags, my_place(), length)));
    if (threadIdx.x == 255) found[blockIdx.x] = all;
}

// Each number becomes the sum of those before it.
extern "C" __global__ void __launch_bounds__(256) add_up(long long* found, long long blocks) {
    const long long share = (blocks + 255) / 256, first = threadIdx.x * share;
    const long long last = first + share < blocks ? first + share : blocks;
    long long mine = 0;
    for (long long i = first; i < last; ++i) mine += found[i];
    const long long all = sum_up_to_me(mine);
    long long before = all - mine;
    for (long long i = first; i < last; ++i) { const long long here = found[i]; found[i] = before; before += here; }
    if (threadIdx.x == 255) found[blocks] = all;
}

extern "C" __global__ void __launch_bounds__(256) positions(
    const WALK walk, const unsigned char* flags, const long long* found, long long blocks, long long* out,
    long long length) {
    const long long place = my_place(), total = found[blocks];
    const Flags read = flags_at(flags, place, length);
    const int mine = count_of(read);
    long long to = found[blockIdx.x] + sum_up_to_me(mine) - mine;
    if (!mine) return;
    #pragma unroll
    for (int k = 0; k < 16; ++k) {
        if (read.word[k / 4] >> 8 * (k % 4) & 1) {
            long long at[NDIM];
            walk.go(place + k, at);
            #pragma unroll
            for (int d = 0; d < NDIM; ++d) out[d * total + to] = at[d];
            ++to;
        }
    }
}
"""
