"""CUDA C for sorting rows that fit a block's shared memory, stably, by digits of 8 bits, the lowest first: each is read
and written once."""

from __future__ import annotations

from ..core.dtypes import dtype
from .cuda_radix import radix_header

__all__ = ["LONGEST_BLOCK_ROW", "short_row_source"]


LONGEST_BLOCK_ROW = {1: 4096, 2: 4096, 4: 4096, 8: 2048}
"""The longest row that ``short_row_source`` sorts, by the bytes of an element."""


def short_row_source(stored: dtype, length: int) -> str:
    """``kernel(values, places, source, given, length, descending, kept)``, a block of 256 threads for each row, of
    which the first ``kept`` elements are written. ``given`` has their places, or is 0 where they are in order."""
    items = 1
    while items * 256 < length:
        items *= 2
    return f"{radix_header(stored, wide=False)}enum {{ ITEMS = {items}, TILE = 256 * ITEMS }};\n{_SHORT}"


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
