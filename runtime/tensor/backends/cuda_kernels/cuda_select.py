"""CUDA C that finds the first of each row without sorting it: the digits of the last one wanted, the highest first.

Each digit is a reading in which blocks count the digits of those elements that are like the one wanted so far. Two more
find how many elements of each chunk come before it, or are equal to it, and put these side by side in their order.
"""

from __future__ import annotations

from ...core.dtypes import dtype
from .cuda_radix import radix_header


def select_source(stored: dtype, *, wide: bool) -> str:
    """Kernels of 256 threads, a block for each chunk of each row. ROW is: source, descending, length, chunks, elements
    of a chunk, how many are wanted, counts (256 times the bytes of an element for each row, 0 before). One after the
    other::

        count(ROW, digit), for each digit, the highest first
        survey(ROW, found), two numbers for each block
        pick(ROW, found, values, places, alone), of as many elements for each row as are wanted, or of the last alone
    """
    return radix_header(stored, wide=wide) + _KERNELS.replace("ROW", _ROW)


_ROW = (
    "const Bits* source, long long descending, long long length, long long chunks, long long share, long long wanted, "
    "Place* counts"
)

_KERNELS = r"""
enum { ITEMS = 16 / (sizeof(Bits) < 4 ? 2 : sizeof(Bits) / 2), TILE = 256 * ITEMS };

// The order of the element that is the last wanted, as far as its digits above one are known, and of how many like it
// it is the last.
struct Last { Bits order; Place many; };
__device__ __forceinline__ Last find_last(const Place* counts, int digit, Place wanted) {
    __shared__ Place sums[8], before_it;
    __shared__ unsigned its_digit;
    Last last = {0, wanted};
    for (int d = DIGITS - 1; d > digit; --d) {
        const Place mine = counts[d * 256 + threadIdx.x], before = before_me(mine, sums);
        if (before < last.many && last.many <= before + mine) {
            its_digit = threadIdx.x;
            before_it = before;
        }
        __syncthreads();
        last.order = (Bits)(last.order | (Bits)((Bits)its_digit << (8 * d)));
        last.many -= before_it;
        __syncthreads();
    }
    return last;
}

extern "C" __global__ void __launch_bounds__(256) count(ROW, long long digit) {
    __shared__ unsigned found[256];
    const long long row = blockIdx.x / chunks, begin = blockIdx.x % chunks * share;
    const long long end = begin + share < length ? begin + share : length;
    counts += row * DIGITS * 256;
    const Bits flip = descending ? ALL : (Bits)0, like = find_last(counts, (int)digit, (Place)wanted).order;
    const Bits above = digit == DIGITS - 1 ? (Bits)0 : (Bits)(ALL << (8 * (digit + 1)));
    const Bits* from = source + row * length;
    found[threadIdx.x] = 0;
    __syncthreads();
    long long i = begin + threadIdx.x;
    for (; i + (ITEMS - 1) * 256 < end; i += TILE) {
        Bits key[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) key[k] = from[i + k * 256];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const Bits one = (Bits)(order(key[k]) ^ flip);
            if (((one ^ like) & above) == 0) atomicAdd(&found[(unsigned)(one >> (8 * digit)) & 255u], 1u);
        }
    }
    for (; i < end; i += 256) {
        const Bits one = (Bits)(order(from[i]) ^ flip);
        if (((one ^ like) & above) == 0) atomicAdd(&found[(unsigned)(one >> (8 * digit)) & 255u], 1u);
    }
    __syncthreads();
    const unsigned mine = found[threadIdx.x];
    if (mine) atomicAdd(&counts[digit * 256 + threadIdx.x], (Place)mine);
}

extern "C" __global__ void __launch_bounds__(256) survey(ROW, Place* found) {
    __shared__ Place sums[8];
    const long long row = blockIdx.x / chunks, begin = blockIdx.x % chunks * share;
    const long long end = begin + share < length ? begin + share : length;
    const Bits flip = descending ? ALL : (Bits)0;
    const Bits last = find_last(counts + row * DIGITS * 256, -1, (Place)wanted).order;
    const Bits* from = source + row * length;
    Place less = 0, equal = 0;
    long long i = begin + threadIdx.x;
    for (; i + (ITEMS - 1) * 256 < end; i += TILE) {
        Bits key[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) key[k] = from[i + k * 256];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const Bits one = (Bits)(order(key[k]) ^ flip);
            less += one < last;
            equal += one == last;
        }
    }
    for (; i < end; i += 256) {
        const Bits one = (Bits)(order(from[i]) ^ flip);
        less += one < last;
        equal += one == last;
    }
    const Place less_before = before_me(less, sums), equal_before = before_me(equal, sums);
    if (threadIdx.x == 255) {
        found[blockIdx.x * 2] = less_before + less;
        found[blockIdx.x * 2 + 1] = equal_before + equal;
    }
}

// The sum over all threads of the block.
__device__ __forceinline__ Place sum_of_block(Place mine, Place* sums, Place* all) {
    const Place before = before_me(mine, sums);
    if (threadIdx.x == 255) *all = before + mine;
    __syncthreads();
    return *all;
}

extern "C" __global__ void __launch_bounds__(256) pick(
    ROW, const Place* found, Bits* values, long long* places, long long alone) {
    __shared__ Place sums[8], totals[2];
    __shared__ unsigned in_warp[2][8];
    const int me = threadIdx.x, lane = me % 32, warp = me / 32;
    const long long row = blockIdx.x / chunks, chunk = blockIdx.x % chunks, begin = chunk * share;
    const long long end = begin + share < length ? begin + share : length;
    const Bits flip = descending ? ALL : (Bits)0;
    const Last last = find_last(counts + row * DIGITS * 256, -1, (Place)wanted);
    const Bits* from = source + row * length;
    values += row * (alone ? 1 : wanted);
    places += row * (alone ? 1 : wanted);
    Place less = 0, equal = 0;
    for (long long i = me; i < chunk; i += 256) {
        less += found[(row * chunks + i) * 2];
        equal += found[(row * chunks + i) * 2 + 1];
    }
    // Where the next one that comes before the last goes, and the next equal one, of which `last.many` are wanted.
    Place to = sum_of_block(less, sums, &totals[0]), alike = sum_of_block(equal, sums, &totals[1]);
    const Place behind = (Place)wanted - last.many;
    for (long long tile = begin; tile < end; tile += TILE) {
        const long long first = tile + warp * 32 * ITEMS + lane;
        Bits key[ITEMS];
        bool any = false;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) key[k] = first + k * 32 < end ? from[first + k * 32] : (Bits)0;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const Bits one = (Bits)(order(key[k]) ^ flip);
            any |= first + k * 32 < end && (one == last.order || (one < last.order && !alone));
        }
        if (!__syncthreads_or(any)) continue;
        unsigned lesser = 0, equals = 0;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const Bits one = (Bits)(order(key[k]) ^ flip);
            lesser += __popc(__ballot_sync(~0u, first + k * 32 < end && one < last.order));
            equals += __popc(__ballot_sync(~0u, first + k * 32 < end && one == last.order));
        }
        if (lane == 0) {
            in_warp[0][warp] = lesser;
            in_warp[1][warp] = equals;
        }
        __syncthreads();
        Place less_at = to, equal_at = alike;
        for (int other = 0; other < 8; ++other) {
            if (other < warp) {
                less_at += in_warp[0][other];
                equal_at += in_warp[1][other];
            }
            to += in_warp[0][other];
            alike += in_warp[1][other];
        }
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            const Bits one = (Bits)(order(key[k]) ^ flip);
            const bool before = first + k * 32 < end && one < last.order;
            const bool same = first + k * 32 < end && one == last.order;
            const unsigned befores = __ballot_sync(~0u, before), sames = __ballot_sync(~0u, same);
            const unsigned below = (1u << lane) - 1;
            const Place of_equal = equal_at + __popc(sames & below);
            if (alone ? same && of_equal + 1 == last.many : before || (same && of_equal < last.many)) {
                const Place at = alone ? 0 : before ? less_at + __popc(befores & below) : behind + of_equal;
                values[at] = key[k];
                places[at] = first + k * 32;
            }
            less_at += __popc(befores);
            equal_at += __popc(sames);
        }
        __syncthreads();
    }
}
"""
