"""CUDA C for sorting rows, stably, by digits of 8 bits, the lowest first.

A row that fits a block's shared memory is sorted there, and is read and written once. Of longer ones each digit is a
pass: blocks count the digits of their chunk, the counts are added up, and blocks move a tile each to its places, equal
digits side by side. (Merrill and Grimshaw, "High performance and scalable radix sorting", 2011.) Places in a row
have 32 bits between passes. No block waits for another.
"""

from __future__ import annotations

from ..core.dtypes import dtype
from .cuda_radix import radix_header

__all__ = ["LONGEST_BLOCK_ROW", "long_row_source", "short_row_source", "tile_of"]


LONGEST_BLOCK_ROW = {1: 4096, 2: 4096, 4: 4096, 8: 2048}
"""The longest row that ``short_row_source`` sorts, by the bytes of an element."""


def short_row_source(stored: dtype, length: int) -> str:
    """``kernel(values, places, source, given, length, descending, kept)``, a block of 256 threads for each row, of
    which the first ``kept`` elements are written. ``given`` has their places, or is 0 where they are in order."""
    items = 1
    while items * 256 < length:
        items *= 2
    return f"{radix_header(stored, wide=False)}enum {{ ITEMS = {items}, TILE = 256 * ITEMS }};\n{_SHORT}"


def tile_of(stored: dtype, *, wide: bool) -> int:
    """How many elements a block of ``long_row_source`` moves at once: as many as its shared memory holds."""
    return 4096 if stored.itemsize <= 4 and not wide else 2048


def long_row_source(stored: dtype, *, wide: bool) -> str:
    """Kernels of 256 threads. ``spread(source, varying, count)`` tells which bits are not the same in all elements, in
    a word that is 0 before. Then for each digit, from the lowest on::

        count(BUFFERS, digit, descending, length, chunks, tiles of a chunk), a block for each chunk
        add_up(counts, varying, digit, chunks), 8 blocks for each row, if a row has several chunks
        move(BUFFERS, digit, descending, length, chunks, tiles of a chunk), a block for each tile

    BUFFERS are: source, values, places (64 bits), spare values, spare places, counts, befores, varying. ``counts`` has
    256 times (chunks + 1) places for each row, ``befores`` 256 for each tile. Digits that are the same everywhere are
    left out; varying may be 0.
    """
    tile = tile_of(stored, wide=wide)
    head = radix_header(stored, wide=wide) + f"enum {{ TILE = {tile}, ITEMS = TILE / 256 }};\n"
    return head + _LONG.replace("BUFFERS", _BUFFERS)


_SHORT = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(
    Bits* values, long long* places, const Bits* source, const long long* given, long long length,
    long long descending, long long kept) {
    __shared__ Bits keys[TILE];
    __shared__ unsigned short from[TILE];
    __shared__ unsigned tally[8 * 256], sums[8];
    const int many = (int)length, first = threadIdx.x / 32 * 32 * ITEMS + threadIdx.x % 32;
    const Bits flip = descending ? ALL : (Bits)0;
    const long long row = blockIdx.x * length;
    Bits key[ITEMS];
    unsigned short place[ITEMS];
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = first + k * 32;
        place[k] = (unsigned short)i;
        key[k] = i < many ? source[row + i] : (Bits)0;
    }
    for (int digit = 0; digit < DIGITS; ++digit) {
        // What lies behind the row has the last digit each time, and stays behind it.
        unsigned where[ITEMS], count, start;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) where[k] = place[k] < many ? digit_of(key[k], digit, flip) : 255u;
        rank<ITEMS>(where, tally, sums, count, start);
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            keys[where[k] & 0xffff] = key[k];
            from[where[k] & 0xffff] = place[k];
        }
        __syncthreads();
        if (digit == DIGITS - 1) break;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            key[k] = keys[first + k * 32];
            place[k] = from[first + k * 32];
        }
    }
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * 256 + threadIdx.x;
        if (i < kept) {
            values[blockIdx.x * kept + i] = keys[i];
            places[blockIdx.x * kept + i] = given ? given[row + from[i]] : from[i];
        }
    }
}
"""

_BUFFERS = (
    "const Bits* source, Bits* values, long long* places, Bits* spare_values, Place* spare_places, Place* counts, "
    "Place* befores, const unsigned long long* varying"
)

_LONG = r"""
extern "C" __global__ void __launch_bounds__(256) spread(
    const Bits* source, unsigned long long* varying, long long count) {
    const Bits one = order(source[0]);
    Bits differ = 0;
    for (long long i = (long long)blockIdx.x * 256 + threadIdx.x; i < count; i += (long long)gridDim.x * 256)
        differ |= order(source[i]) ^ one;
    unsigned long long all = differ;
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) all |= __shfl_xor_sync(~0u, all, step);
    if (threadIdx.x % 32 == 0 && all) atomicOr(varying, all);
}

// Of the digits that vary, which is this one: all blocks find the same.
struct Turn { bool taken, first, last, to_spare; };
__device__ __forceinline__ Turn turn_of(int digit, const unsigned long long* varying) {
    const unsigned long long bits = varying ? *varying : ~0ull;
    int before = 0, behind = 0;
    #pragma unroll
    for (int d = 0; d < DIGITS; ++d) {
        const bool taken = (bits >> 8 * d & 255) != 0;
        before += taken && d < digit;
        behind += taken && d > digit;
    }
    Turn turn;
    // The first one is taken if none varies, since somebody must write the results.
    turn.taken = (bits >> 8 * digit & 255) != 0 || (digit == 0 && behind == 0);
    turn.first = before == 0;
    turn.last = behind == 0;
    turn.to_spare = behind % 2 == 1;
    return turn;
}

__device__ __forceinline__ long long tiles_of(long long length) { return (length + TILE - 1) / TILE; }

// How many of each digit are in a chunk, and in it before each of its tiles.
extern "C" __global__ void __launch_bounds__(256) count(
    BUFFERS, long long digit, long long descending, long long length, long long chunks, long long tiles) {
    __shared__ unsigned found[256];
    const Turn turn = turn_of((int)digit, varying);
    if (!turn.taken) return;
    const int me = threadIdx.x;
    const long long row = blockIdx.x / chunks, chunk = blockIdx.x % chunks, begin = chunk * tiles * TILE;
    const long long end = begin + tiles * TILE < length ? begin + tiles * TILE : length;
    const Bits flip = descending ? ALL : (Bits)0;
    const Bits* from = (turn.first ? source : turn.to_spare ? values : spare_values) + row * length;
    Place* before = befores + (row * tiles_of(length) + chunk * tiles) * 256 + me;
    found[me] = 0;
    __syncthreads();
    for (long long tile = begin; tile < end; tile += TILE, before += 256) {
        const int many = end - tile < TILE ? (int)(end - tile) : TILE;
        Bits key[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) key[k] = me + k * 256 < many ? from[tile + me + k * 256] : (Bits)0;
        *before = found[me];
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (me + k * 256 < many) atomicAdd(&found[digit_of(key[k], (int)digit, flip)], 1u);
        __syncthreads();
    }
    counts[(row * (chunks + 1) + chunk) * 256 + me] = found[me];
}

// Each count becomes that of the chunks before it; behind them stands that of all. A lane of 8 warps has a digit.
extern "C" __global__ void __launch_bounds__(256) add_up(
    Place* counts, const unsigned long long* varying, long long digit, long long chunks) {
    __shared__ Place sums[8][32];
    if (!turn_of((int)digit, varying).taken) return;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long share = (chunks + 7) / 8, first = warp * share;
    const long long last = first + share < chunks ? first + share : chunks;
    Place* const mine = counts + blockIdx.x / 8 * (chunks + 1) * 256 + blockIdx.x % 8 * 32 + lane;
    Place sum = 0;
    #pragma unroll 8
    for (long long i = first; i < last; ++i) sum += mine[i * 256];
    sums[warp][lane] = sum;
    __syncthreads();
    Place before = 0;
    for (int other = 0; other < warp; ++other) before += sums[other][lane];
    #pragma unroll 8
    for (long long i = first; i < last; ++i) {
        const Place here = mine[i * 256];
        mine[i * 256] = before;
        before += here;
    }
    if (warp == 7) mine[chunks * 256] = before;
}

struct Room {
    Bits keys[TILE];
    Place from[TILE], to[256], place_sums[8];
    unsigned tally[8 * 256], sums[8];
};
struct Ways {
    const Bits* read;
    const Place* read_places;
    Bits* write;
    Place* write_places;
    long long* results;
    Bits flip;
    int digit;
    bool first, last;
};

// A tile's elements to their places in the row. `next` is where this thread's digit goes.
template <bool WHOLE> __device__ __forceinline__ void move_tile(
    Room& room, const Ways& ways, long long tile, int many, Place next) {
    const int me = threadIdx.x, first = me / 32 * 32 * ITEMS + me % 32;
    unsigned where[ITEMS], count, start;
    {
        const Bits* const read = ways.read + tile + first;
        Bits key[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) key[k] = WHOLE || first + k * 32 < many ? read[k * 32] : (Bits)0;
        // What lies behind the row has the last digit, and comes last.
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            where[k] = WHOLE || first + k * 32 < many ? digit_of(key[k], ways.digit, ways.flip) : 255u;
        rank<ITEMS>(where, room.tally, room.sums, count, start);
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) room.keys[where[k] & 0xffff] = key[k];
    }
    room.to[me] = next - start;
    if (ways.first) {
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) room.from[where[k] & 0xffff] = (Place)(tile + first + k * 32);
    } else {
        const Place* const read = ways.read_places + tile + first;
        Place place[ITEMS];
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) place[k] = WHOLE || first + k * 32 < many ? read[k * 32] : (Place)0;
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) room.from[where[k] & 0xffff] = place[k];
    }
    __syncthreads();
    Place at[ITEMS];
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * 256 + me;
        const Bits moved = room.keys[i];
        at[k] = room.to[digit_of(moved, ways.digit, ways.flip)] + (Place)i;
        if (WHOLE || i < many) ways.write[at[k]] = moved;
    }
    if (ways.last) {
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (WHOLE || k * 256 + me < many) ways.results[at[k]] = (long long)room.from[k * 256 + me];
    } else {
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            if (WHOLE || k * 256 + me < many) ways.write_places[at[k]] = room.from[k * 256 + me];
    }
}

// Blocks of neighbouring tiles run at about the same time: what one of them writes only a part of is still in the cache
// when the next one writes the rest. (On an H200 a pass whose parts were all whole took half as long as others.)
extern "C" __global__ void __launch_bounds__(256, 4) move(
    BUFFERS, long long digit, long long descending, long long length, long long chunks, long long tiles) {
    __shared__ Room room;
    const Turn turn = turn_of((int)digit, varying);
    if (!turn.taken) return;
    const long long row = blockIdx.x / tiles_of(length), tile = blockIdx.x % tiles_of(length), chunk = tile / tiles;
    // What lies in the results between two passes are places of the spare's type.
    Place* const short_places = (Place*)places;
    const Ways ways = {
        (turn.first ? source : turn.to_spare ? values : spare_values) + row * length,
        (turn.to_spare ? short_places : spare_places) + row * length,
        (turn.to_spare ? spare_values : values) + row * length,
        (turn.to_spare ? spare_places : short_places) + row * length,
        places + row * length,
        descending ? ALL : (Bits)0,
        (int)digit,
        turn.first,
        turn.last,
    };
    const Place* counted = counts + row * (chunks + 1) * 256 + threadIdx.x;
    Place next = befores[blockIdx.x * 256ll + threadIdx.x];
    if (chunks > 1) next += counted[chunk * 256];
    next += before_me(counted[chunks > 1 ? chunks * 256 : 0], room.place_sums);
    const long long behind = length - tile * TILE;
    if (behind >= TILE) move_tile<true>(room, ways, tile * TILE, TILE, next);
    else move_tile<false>(room, ways, tile * TILE, (int)behind, next);
}
"""
