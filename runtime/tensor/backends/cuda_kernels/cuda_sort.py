"""CUDA C for sorting rows that fit a block's shared memory, stably, by digits of 8 bits, the lowest first: each is read
and written once."""

from __future__ import annotations

from ...core.dtypes import dtype
from .cuda_radix import radix_header

LONGEST_BLOCK_ROW = {1: 4096, 2: 4096, 4: 4096, 8: 2048}
"""The longest row that a block sorts, by the bytes of an element."""


def short_row_source(stored: dtype, length: int) -> str:
    """``kernel(values, places, source, given, length, descending, kept, begin)``, a block of 256 threads for each row,
    of which ``kept`` elements are written, in order from number ``begin`` on: -1 is the middle one, or the first NaN;
    -2 the middle one of those that are not NaN. ``given`` has their places, or is 0 where they are in order."""
    return _beginning(stored, length) + _SHORT.replace("SORTED", _SORTED)


def short_distinct_source(stored: dtype, length: int) -> str:
    """``kernel(values, found, source, length)``, a block of 256 threads: the distinct elements in order, and in
    ``found`` how many there are. Each NaN is one."""
    return _beginning(stored, length) + _DISTINCT.replace("SORTED", _SORTED)


def _beginning(stored: dtype, length: int) -> str:
    items = 1
    while items * 256 < length:
        items *= 2
    nan = "order(x) == ALL" if stored.kind == "f" else "false"
    return (
        f"{radix_header(stored, wide=False)}enum {{ ITEMS = {items}, TILE = 256 * ITEMS }};\n"
        f"__device__ __forceinline__ bool is_nan(Bits x) {{ return {nan}; }}\n"
    )


_SORTED = r"""
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
"""
"""A row's elements in order in ``keys``, and where each was in ``from``."""

_SHORT = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(
    Bits* values, long long* places, const Bits* source, const long long* given, long long length,
    long long descending, long long kept, long long begin) {
SORTED
    int skipped = (int)begin;
    if (begin < 0) {
        int numbers = 0, end = many;  // NaN comes last: how many do not
        while (numbers < end) {
            const int half = (numbers + end) / 2;
            if (is_nan(keys[half])) end = half;
            else numbers = half + 1;
        }
        skipped = begin == -1 && numbers < many ? numbers : numbers ? (numbers - 1) / 2 : 0;
    }
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int from_row = k * 256 + threadIdx.x, i = from_row - skipped;
        if (i >= 0 && i < kept) {
            values[blockIdx.x * kept + i] = keys[from_row];
            places[blockIdx.x * kept + i] = given ? given[row + from[from_row]] : from[from_row];
        }
    }
}
"""

_DISTINCT = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(
    Bits* values, long long* found, const Bits* source, long long length) {
    const long long descending = 0;
SORTED
    const int begin = threadIdx.x * ITEMS;
    unsigned fresh = 0, count = 0;
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        const int i = begin + k;
        if (i < many && (!i || is_nan(keys[i]) || order(keys[i]) != order(keys[i - 1]))) {
            fresh |= 1u << k;
            ++count;
        }
    }
    unsigned next = before_me(count, sums);
    #pragma unroll
    for (int k = 0; k < ITEMS; ++k) if (fresh >> k & 1u) values[next++] = keys[begin + k];
    if (threadIdx.x == 255) *found = next;
}
"""
