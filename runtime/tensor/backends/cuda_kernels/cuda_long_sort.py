"""CUDA C for sorting long rows, stably, by digits of 8 bits, the lowest first, each read and written once.

All digits of a row are counted in one reading. For each digit blocks then move a tile each to its places, equal digits
side by side; how many of its digits lie before a tile, they learn from the tiles before it. (Adinets and Merrill,
"Onesweep", 2022.) A block waits only for tiles that were taken before its own, by blocks that are at work.

Between passes an element of up to 4 bytes and its place lie side by side.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.dtypes import dtype
from .cuda_radix import radix_header


class Sweep(NamedTuple):
    """A source with these kernels, one after the other::

        survey(source, counts, length, chunks, elements of a chunk), a block of 256 threads for each chunk
        prepare(counts, turns, descending, length), a block of 256 threads for each row
        move(source, values, places, spare, spare places, counts, turns, tickets, digit, descending, length),
            for each digit, from the lowest on, a block for each tile

    ``counts`` has 256 numbers for each digit of each row, 0 before; ``turns`` a word of 32 bits for each row;
    ``tickets`` 256 words for each tile and 256 more, 0 before each ``move``.
    """

    source: str
    threads: int
    """Of a block of ``move``."""
    tile: int
    """Elements that a block moves."""
    word_bytes: int
    """Of a count, and of a ticket."""
    spare_bytes: int
    """For each element, of ``spare``."""
    spare_places_bytes: int
    """For each element, of ``spare_places``."""


def sweep(stored: dtype, *, length: int) -> Sweep:
    """How to sort rows of ``length`` elements."""
    wide = length >= 2**30  # of a word with a count two bits say what it means
    beside = stored.itemsize <= 4 and not wide
    # Of a block that moves elements, of each of them, and of a multiprocessor: what was quickest on an H200.
    threads, items, blocks = 256, 18 if beside else 10, 3
    source = radix_header(stored, wide=wide) + (
        f"enum {{ THREADS = {threads}, ITEMS = {items}, TILE = THREADS * ITEMS, "
        f"WARPS = THREADS / 32 }};\n"
        f"#define RESIDENT __launch_bounds__({threads}, {blocks})\n{_ELEMENTS[beside]}{_KERNELS}"
    )
    word = 8 if wide else 4
    return Sweep(source, threads, threads * items, word, *((8, 0) if beside else (stored.itemsize, word)))


# How elements and their places lie between passes.
_ELEMENTS = {
    True: r"""
struct __align__(8) Element { unsigned bits, place; };
struct Way {
    Element* at;
    __device__ __forceinline__ Element get(Place i) const { return at[i]; }
    __device__ __forceinline__ void put(Place i, Element x) const { at[i] = x; }
};
__device__ __forceinline__ Way results_of(Bits* values, long long* places, long long row) {
    const Way way = {(Element*)places + row};
    return way;
}
__device__ __forceinline__ Way spare_of(Bits* spare, Place* spare_places, long long row) {
    const Way way = {(Element*)spare + row};
    return way;
}
""",
    False: r"""
struct Element { Bits bits; Place place; };
struct Way {
    Bits* at;
    Place* places;
    __device__ __forceinline__ Element get(Place i) const { const Element x = {at[i], places[i]}; return x; }
    __device__ __forceinline__ void put(Place i, Element x) const { at[i] = x.bits; places[i] = x.place; }
};
__device__ __forceinline__ Way results_of(Bits* values, long long* places, long long row) {
    const Way way = {values + row, (Place*)places + row};
    return way;
}
__device__ __forceinline__ Way spare_of(Bits* spare, Place* spare_places, long long row) {
    const Way way = {spare + row, spare_places + row};
    return way;
}
""",
}

_KERNELS = r"""
__device__ __forceinline__ long long tiles_of(long long length) { return (length + TILE - 1) / TILE; }

// How many of each digit a row has.
extern "C" __global__ void __launch_bounds__(256) survey(
    const Bits* source, Place* counts, long long length, long long chunks, long long share) {
    __shared__ unsigned found[DIGITS][256];
    const int me = threadIdx.x;
    const long long row = blockIdx.x / chunks, begin = blockIdx.x % chunks * share;
    const long long end = begin + share < length ? begin + share : length;
    const Bits* const from = source + row * length;
    #pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit) found[digit][me] = 0;
    __syncthreads();
    for (long long i = begin + me; i < end; i += 8 * 256) {
        Bits key[8];
        #pragma unroll
        for (int k = 0; k < 8; ++k) key[k] = i + k * 256 < end ? from[i + k * 256] : (Bits)0;
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (i + k * 256 >= end) break;
            #pragma unroll
            for (int digit = 0; digit < DIGITS; ++digit) atomicAdd(&found[digit][digit_of(key[k], digit, 0)], 1u);
        }
    }
    __syncthreads();
    #pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit)
        if (found[digit][me]) atomicAdd(&counts[(row * DIGITS + digit) * 256 + me], (Place)found[digit][me]);
}

// Each count becomes where the first such digit goes; a bit of the turns says of each digit whether it varies. A digit
// that is the same everywhere needs no pass, but one there must be: somebody writes the results.
extern "C" __global__ void __launch_bounds__(256) prepare(
    Place* counts, unsigned* turns, long long descending, long long length) {
    __shared__ Place sums[8];
    const int me = threadIdx.x, mine = descending ? 255 - me : me;
    unsigned vary = 0;
    #pragma unroll
    for (int digit = 0; digit < DIGITS; ++digit) {
        Place* const counted = counts + ((long long)blockIdx.x * DIGITS + digit) * 256;
        const Place here = counted[mine];
        if (!__syncthreads_or(here == (Place)length)) vary |= 1u << digit;
        counted[me] = before_me(here, sums);
    }
    if (me == 0) turns[blockIdx.x] = vary ? vary : 1u;
}

// A word of a tile and a digit: nothing yet, how many are in the tile, or where those of the next tile go.
enum { MEANING = 8 * sizeof(Place) - 2 };
#define HERE ((Place)1 << MEANING)
#define BEHIND ((Place)2 << MEANING)
#define COUNTED (HERE - 1)

struct Room {
    union {
        Element elements[TILE];
        unsigned tally[WARPS * 256];
    };
    Place to[256];
    unsigned sums[WARPS], ticket;
};

struct Task {
    const Bits* source;
    Way from, into;
    Bits* values;
    long long* places;
    volatile Place* word;  // of this thread's digit, which goes from `begins` on
    Place begins, tile;
    Bits flip;
    int many, digit;
    bool alone, first, last;  // without tiles before it; in the first pass, in the last
};

template <bool WHOLE> __device__ __forceinline__ void move_tile(Room& room, const Task& task) {
    const int me = threadIdx.x, first = me / 32 * 32 * ITEMS + me % 32, many = task.many, digit = task.digit;
    const Bits flip = task.flip;
    Element moved[ITEMS];
    if (task.first) {
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k) {
            moved[k].bits = WHOLE || first + k * 32 < many ? task.source[task.tile + first + k * 32] : (Bits)0;
            moved[k].place = task.tile + first + k * 32;
        }
    } else {
        const Element none = {0, 0};
        #pragma unroll
        for (int k = 0; k < ITEMS; ++k)
            moved[k] = WHOLE || first + k * 32 < many ? task.from.get(task.tile + first + k * 32) : none;
    }
    // What lies behind the row has the last digit, and comes last.
    unsigned where[ITEMS], count, start;
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k)
        where[k] = WHOLE || first + k * 32 < many ? digit_of((Bits)moved[k].bits, digit, flip) : 255u;
    rank<ITEMS, WARPS>(where, room.tally, room.sums, count, start);
    if (me < 256) *task.word = task.alone ? BEHIND | (task.begins + count) : HERE | (Place)count;
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) room.elements[where[k] & 0xffff] = moved[k];
    if (me < 256) {
        Place before = task.begins;
        if (!task.alone) {
            before = 0;
            for (const volatile Place* other = task.word - 256;; other -= 256) {
                Place said;
                do said = *other; while (said >> MEANING == 0);
                before += said & COUNTED;
                if (said >> MEANING == 2) break;
            }
            *task.word = BEHIND | (before + count);
        }
        room.to[me] = before - start;
    }
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = k * THREADS + me;
        const Element one = room.elements[i];
        const Place at = room.to[digit_of((Bits)one.bits, digit, flip)] + (Place)i;
        if (WHOLE || i < many) {
            if (task.last) {
                task.values[at] = (Bits)one.bits;
                task.places[at] = (long long)one.place;
            } else task.into.put(at, one);
        }
    }
}

extern "C" __global__ void RESIDENT move(
    const Bits* source, Bits* values, long long* places, Bits* spare, Place* spare_places, const Place* counts,
    const unsigned* turns, Place* tickets, long long digit, long long descending, long long length) {
    __shared__ Room room;
    const int me = threadIdx.x;
    // Tiles are taken in their order, whatever that of blocks is.
    if (me == 0) room.ticket = (unsigned)atomicAdd(tickets, (Place)1);
    __syncthreads();
    const long long ticket = room.ticket, row = ticket / tiles_of(length), tile = ticket % tiles_of(length);
    const unsigned turn = turns[row], behind = turn >> digit >> 1;
    if (!(turn >> digit & 1)) return;
    const bool first = !(turn & ((1u << digit) - 1)), to_spare = __popc(behind) % 2 == 1;
    const long long begin = row * length, left = length - tile * TILE;
    const Way results = results_of(values, places, begin), others = spare_of(spare, spare_places, begin);
    const Task task = {
        source + begin,
        to_spare ? results : others,
        to_spare ? others : results,
        values + begin,
        places + begin,
        tickets + (ticket + 1) * 256 + me,
        me < 256 ? counts[(row * DIGITS + digit) * 256 + me] : (Place)0,
        (Place)(tile * TILE),
        descending ? ALL : (Bits)0,
        left < TILE ? (int)left : TILE,
        (int)digit,
        tile == 0,
        first,
        behind == 0,
    };
    if (left >= TILE) move_tile<true>(room, task);
    else move_tile<false>(room, task);
}
"""
