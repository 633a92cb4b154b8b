"""CUDA C for indexing: picking elements by tensors of indices, writing them so, and finding those that are not 0."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from struct import pack

from ...core.layout import Layout
from ...core.shapes import Shape
from .cuda_geometry import WALKS, Walk, merged
from .cuda_source import THREADS

_PER_THREAD = 4
PER_BLOCK = THREADS * _PER_THREAD
"""Words that a block of the kernel of ``picking`` moves."""


@dataclass(frozen=True)
class Picking:
    """How elements are taken from a tensor, or put to it, at indices of its first dimensions. Those that stay side by
    side are moved together, as words."""

    source: str
    """``kernel(out, in, indices..., count)``. An index out of range traps."""
    before: bytes
    """The parameters that stand before the others."""
    count: int
    """The words to move."""
    word: int
    """Bytes of a word. Addresses must be multiples of it."""


def picking(target: Layout, values: Layout, count: int, *, put: bool, widest: int = 16) -> Picking:
    """Take from a tensor with the layout ``target``, or put to it.

    Args:
        target: the layout of the indexed tensor.
        values: that of the elements taken or put, contiguous.
        count: how many dimensions are indexed, the first ones.
        put: whether elements are put.
        widest: the most bytes of a word.
    """
    itemsize = target.dtype.itemsize
    behind = [axis for axis in range(count, len(target.shape)) if target.shape[axis] != 1]
    shape, (inner,) = merged(
        tuple(target.shape[axis] for axis in behind), [tuple(target.strides[axis] for axis in behind)]
    )
    lengths, steps, outer = list(shape), list(inner), list(target.strides[:count])
    picks = values.numel // prod(lengths)
    together = 1
    if lengths and steps[-1] == 1:
        while together * 2 * itemsize <= widest and not any(
            each % (together * 2) for each in (lengths[-1], *steps[:-1], *outer)
        ):
            together *= 2
        lengths[-1] //= together
        steps[:-1] = [step // together for step in steps[:-1]]
        outer = [step // together for step in outer]
        if lengths[-1] == 1:
            del lengths[-1], steps[-1]
    # A linear index becomes the offset behind the indexed dimensions, and which of the indices it is.
    walk = Walk((picks, *lengths), [(0, *steps), (1, *(0 for _ in lengths))])
    return Picking(
        _picking_source(walk.c_type, itemsize * together, count, put),
        walk.packed + pack(f"@{2 * count}q", *target.shape[:count], *outer),
        values.numel // together,
        itemsize * together,
    )


_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long", 16: "uint4"}


def _picking_source(walk: str, word: int, count: int, put: bool) -> str:
    indices = "".join(f", const long long* index{k}" for k in range(count))
    lines = "\n".join(
        f"        {{ long long at = index{k}[place[1]]; if (at < 0) at += indexed.length[{k}]; "
        f"if (at < 0 || at >= indexed.length[{k}]) __trap(); offset[k] += at * indexed.step[{k}]; }}"
        for k in range(count)
    )
    kind = _WORDS[word]
    move = "target[offset[k]] = values[i]" if put else "values[i] = target[offset[k]]"
    pointers = f"{kind}* target, const {kind}* values" if put else f"{kind}* values, const {kind}* target"
    return f"""{WALKS}
struct Indexed {{ long long length[{count}], step[{count}]; }};
extern "C" __global__ void kernel(const {walk} walk, const Indexed indexed,
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


_TILE, _TILES = THREADS * 16, 4
SEARCHED = _TILE * _TILES
"""Elements in which a block of the kernels of ``position_source`` searches."""


def position_source(shape: Shape) -> tuple[str, bytes]:
    """Kernels that find the elements of a contiguous bool tensor which are True, in order. One after the other::

        count_true(flags, long long found[blocks], length)
        add_up(long long found[blocks + 1], blocks)     afterwards the last is the number of them all
        positions(walk, flags, found, out, length)      out: a row of indices for each dimension

    Or, for up to ``SEARCHED`` elements, ``only_block(walk, flags, out, length)``: the number of them all, then rows of
    ``length`` indices, of which the first ones count.

    ``flags`` lies at a multiple of 16 bytes. Blocks have 256 threads and search in ``SEARCHED`` elements; ``add_up`` is
    one block.

    Returns:
        The source, and the parameters that stand before the others of ``positions``.
    """
    ndim = len(shape)
    walk = Walk(shape, [tuple(int(axis == each) for each in range(ndim)) for axis in range(ndim)])
    text = _POSITIONS.replace("WALK", walk.c_type).replace("NDIM", str(ndim))
    return f"{WALKS}\nenum {{ TILE = {_TILE}, TILES = {_TILES} }};\n{text}", walk.packed


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
__device__ __forceinline__ long long tile_start(int tile) { return ((long long)blockIdx.x * TILES + tile) * TILE; }

extern "C" __global__ void __launch_bounds__(256) count_true(
    const unsigned char* flags, long long* found, long long length) {
    int mine = 0;
    #pragma unroll
    for (int tile = 0; tile < TILES; ++tile)
        mine += count_of(flags_at(flags, tile_start(tile) + threadIdx.x * 16, length));
    const long long all = sum_up_to_me(mine);
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

// A tile's places are put side by side in shared memory first, so that neighbouring threads write neighbours.
// Rows of coordinates begin `total` apart. Returns how far the block has written.
__device__ __forceinline__ long long write_positions(
    const WALK& walk, const unsigned char* flags, long long to, long long total, long long* out, long long length) {
    __shared__ unsigned short places[TILE];
    __shared__ int many;
    for (int tile = 0; tile < TILES; ++tile) {
        const long long start = tile_start(tile);
        if (start >= length) break;
        const Flags read = flags_at(flags, start + threadIdx.x * 16, length);
        const int mine = count_of(read);
        const int end = (int)sum_up_to_me(mine);
        int at = end - mine;
        #pragma unroll
        for (int k = 0; k < 16; ++k)
            if (read.word[k / 4] >> 8 * (k % 4) & 1) places[at++] = (unsigned short)(threadIdx.x * 16 + k);
        if (threadIdx.x == 255) many = end;
        __syncthreads();
        const int here = many;
        for (int i = threadIdx.x; i < here; i += 256) {
            long long coordinates[NDIM];
            walk.go(start + places[i], coordinates);
            #pragma unroll
            for (int d = 0; d < NDIM; ++d) out[d * total + to + i] = coordinates[d];
        }
        to += here;
        __syncthreads();
    }
    return to;
}
extern "C" __global__ void __launch_bounds__(256) positions(
    const WALK walk, const unsigned char* flags, const long long* found, long long blocks, long long* out,
    long long length) {
    write_positions(walk, flags, found[blockIdx.x], found[blocks], out, length);
}

// Where one block is enough.
extern "C" __global__ void __launch_bounds__(256) only_block(
    const WALK walk, const unsigned char* flags, long long* out, long long length) {
    const long long all = write_positions(walk, flags, 0, length, out + 1, length);
    if (threadIdx.x == 0) out[0] = all;
}
"""
