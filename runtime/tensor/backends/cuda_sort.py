"""CUDA C for sorting rows: tiles are sorted in shared memory, then merged pair by pair, as CUB's merge sort does.

Elements are ordered by value, NaN above all numbers, and equal ones by where they were: so it is stable, and all orders
are total.
"""

from __future__ import annotations

from ..core.dtypes import dtype
from .cuda_scan import loading
from .cuda_source import header

__all__ = ["SORTED", "sort_source"]

SORTED = 1024
"""Elements of a tile."""

_KERNELS = r"""
enum { TILE = 1024, THREADS = 256 };

// Whether the element x, which was at i, comes before y, which was at j. Behind the row's end all places are last.
__device__ __forceinline__ bool precedes(T x, long long i, T y, long long j, bool descending) {
    if (i < 0 || j < 0) return j < 0 && i >= 0;
    const bool first_nan = isnan_(x), second_nan = isnan_(y);
    if (first_nan || second_nan) {
        if (first_nan != second_nan) return second_nan != descending;
        return i < j;
    }
    if (x != y) return descending ? x > y : x < y;
    return i < j;
}

// Sorts tiles by a bitonic network.
extern "C" __global__ void __launch_bounds__(256) sort_tiles(
    Stored* values, long long* places, const Stored* source, long long length, long long tiles, long long descending) {
    __shared__ __align__(16) unsigned char memory[TILE * sizeof(Stored)];
    __shared__ int place[TILE];
    Stored* const value = (Stored*)memory;
    const long long row = blockIdx.x / tiles, start = blockIdx.x % tiles * TILE, at = row * length + start;
    for (int i = threadIdx.x; i < TILE; i += THREADS) {
        place[i] = start + i < length ? i : -1;
        if (place[i] >= 0) value[i] = source[at + i];
    }
    __syncthreads();
    for (int size = 2; size <= TILE; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            for (int k = threadIdx.x; k < TILE / 2; k += THREADS) {
                const int i = k / step * step * 2 + k % step, j = i + step;
                const bool upwards = (i & size) == 0;
                if (precedes(load(value[j]), place[j], load(value[i]), place[i], descending) == upwards) {
                    const Stored other = value[i];
                    value[i] = value[j];
                    value[j] = other;
                    const int mine = place[i];
                    place[i] = place[j];
                    place[j] = mine;
                }
            }
            __syncthreads();
        }
    }
    for (int i = threadIdx.x; i < TILE; i += THREADS) {
        if (place[i] < 0) continue;
        values[at + i] = value[i];
        places[at + i] = start + place[i];
    }
}

// Merges pairs of sorted runs: each element finds how many of the other run come before it.
extern "C" __global__ void __launch_bounds__(256) merge(
    Stored* values, long long* places, const Stored* from, const long long* from_places, long long length,
    long long width, long long descending, long long count) {
    const long long index = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (index >= count) return;
    const long long row = index / length, i = index % length, start = row * length;
    const long long pair = i / (2 * width) * (2 * width), middle = pair + width;
    const bool left = i < middle;
    const T x = load(from[index]);
    const long long mine = from_places[index];
    const long long first = left ? middle : pair, end = left ? middle + width : middle;
    long long low = first < length ? first : length, high = end < length ? end : length;
    const long long begin = low;
    while (low < high) {
        const long long half = (low + high) / 2;
        if (precedes(load(from[start + half]), from_places[start + half], x, mine, descending)) low = half + 1;
        else high = half;
    }
    const long long to = start + (left ? i : pair + (i - middle)) + (low - begin);
    values[to] = from[index];
    places[to] = mine;
}
"""


def sort_source(stored: dtype) -> str:
    """The kernels ``sort_tiles`` (values, places, source, length, tiles, descending), a block for each tile, and
    ``merge`` (values, places, from, from places, length, width of a sorted run, descending, count), of 256 threads."""
    return header([stored, stored.computed]) + loading(stored, stored.computed) + _KERNELS
