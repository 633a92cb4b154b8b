"""CUDA C that sorts by digits: the order of elements as unsigned numbers, and the ranks of a tile's elements by 8 bits.

Kernels move the bits of elements as they are; only ``order`` knows their type. It makes equal numbers equal, both zeros
and all NaN, and puts NaN above all others, so that a sort that is stable in its digits is the total order wanted.
"""

from __future__ import annotations

from ...core.dtypes import dtype

_BITS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
_INFINITY = {"float16": 0x7C00, "bfloat16": 0x7F80, "float32": 0x7F800000, "float64": 0x7FF0000000000000}

_FLOATING = """    const Bits size = (Bits)(x & ~SIGN);
    const Bits turned = (Bits)(x ^ ((Bits)-(Bits)(x >> (8 * sizeof(Bits) - 1)) | SIGN));  // all bits of negative ones
    const Bits made = size == 0 ? SIGN : turned;
    return size > (Bits)INFINITY_BITSull ? ALL : made;"""


def radix_header(stored: dtype, *, wide: bool) -> str:
    """The types ``Bits``, of an element, and ``Place``, of where it is in its row; ``order``, ``digit_of``,
    ``before_me`` and ``rank``, for blocks of 8 warps or more.

    Args:
        stored: the elements' type.
        wide: whether places need 64 bits.
    """
    if stored.kind == "f":
        order = _FLOATING.replace("INFINITY_BITS", str(_INFINITY[stored.name]))
    else:
        order = "    return (Bits)(x ^ SIGN);" if stored.kind == "i" else "    return x;"
    sizes = f"enum {{ DIGITS = {stored.itemsize} }};\n"
    place = "unsigned long long" if wide else "unsigned"
    types = f"typedef {_BITS[stored.itemsize]} Bits;\ntypedef {place} Place;\n"
    return f"{types}{sizes}{_BEGIN}{order}\n}}\n{_RANKS}"


_BEGIN = r"""
#define ALL ((Bits)~(Bits)0)
#define SIGN ((Bits)((Bits)1 << (8 * sizeof(Bits) - 1)))

// Unsigned numbers in the order of the elements whose bits are x.
__device__ __forceinline__ Bits order(Bits x) {
"""

_RANKS = r"""
// `flip` is ALL for the largest first, else 0.
__device__ __forceinline__ unsigned digit_of(Bits x, int digit, Bits flip) {
    return (unsigned)((order(x) ^ flip) >> (8 * digit)) & 255u;
}

// The sum over the block's threads before this one, which all must ask for.
template <int WARPS = 8, class S> __device__ __forceinline__ S before_me(S mine, S* sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    S sum = mine;
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const S other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    S before = sum - mine;
    #pragma unroll
    for (int other = 0; other < WARPS - 1; ++other) if (other < warp) before += sums[other];
    __syncthreads();
    return before;
}

// Where the tile's elements belong by one digit, equal ones in their order. A warp holds 32 * ITEMS neighbours, and of
// these its lanes hold neighbours. `where` is an item's digit, and becomes digit << 16 | rank. Thread d learns how many
// digits d there are, and how many smaller ones. `tally` has room for WARPS * 256.
template <int ITEMS, int WARPS = 8> __device__ __forceinline__ void rank(
    unsigned (&where)[ITEMS], unsigned* tally, unsigned* sums, unsigned& count, unsigned& start) {
    const int me = threadIdx.x, lane = me % 32;
    unsigned* const mine = tally + me / 32 * 256;
    #pragma unroll
    for (int i = 0; i < 256; i += 32) mine[i + lane] = 0;
    __syncwarp();
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const unsigned digit = where[k];
        unsigned peers = ~0u;
        #pragma unroll
        for (int bit = 0; bit < 8; ++bit) {
            const int set = (int)(digit << (31 - bit)) >> 31;  // all bits, or none
            peers &= ~(__ballot_sync(~0u, set < 0) ^ (unsigned)set);
        }
        const unsigned earlier = __popc(peers & ((1u << lane) - 1)), before = mine[digit];
        __syncwarp();
        mine[digit] = before + __popc(peers);  // peers write the same
        __syncwarp();
        where[k] = digit << 16 | (before + earlier);
    }
    __syncthreads();
    count = 0;
    if (WARPS == 8 || me < 256) {
        #pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) count += tally[warp * 256 + me];
    }
    start = before_me<WARPS>(count, sums);
    if (WARPS == 8 || me < 256) {
        unsigned next = start;
        #pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) {
            const unsigned found = tally[warp * 256 + me];
            tally[warp * 256 + me] = next;
            next += found;
        }
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) where[k] += mine[where[k] >> 16];
}
"""
