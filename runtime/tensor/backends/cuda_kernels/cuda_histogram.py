"""CUDA C that counts elements: each block in shared memory, which it adds to the results at its end."""

from __future__ import annotations

from ...core.dtypes import dtype
from .cuda_scan import loading
from .cuda_source import THREADS, header, store

PER_THREAD = 16
"""Elements that a thread reads at once."""

SHARED_BINS = 8192
"""The most bins that a block counts in shared memory."""

_PARTS = r"""    if (!(x >= T(low) && x <= T(high))) return bins;
    const long long bin = (long long)((x - T(low)) * T(bins) / T(high - low));
    return bin < bins ? bin : bins - 1;
"""


def histogram_source(functor: str, stored: dtype, alone: dtype | None = None) -> str:
    """``kernel(counts, source, count, bins, low, high)``: counts are of 64 bits, and 0 before, unless ``alone``.

    Args:
        functor: ``Values`` for elements that are numbers of bins themselves, ``Parts`` for equal parts of a range.
        stored: the elements' type.
        alone: for a single block and no more than ``SHARED_BINS``, which writes what it counted: the counts' type.
    """
    counted, written = "unsigned long long", "if (mine[i]) atomicAdd(&counts[i], (unsigned long long)mine[i]);"
    beyond = "atomicAdd(&counts[bin], 1ull);"
    if alone is not None:
        counted, beyond = alone.c_name, ";"
        written = f"counts[i] = {store(alone, 'mine[i]', 'unsigned')};"
    bin_of = _PARTS if functor == "Parts" else "    return (long long)x;\n"
    types = [stored, stored.computed, *([] if alone is None else [alone])]
    return f"""{header(types)}{loading(stored, stored.computed)}
// What is in none has the number behind the last bin.
__device__ __forceinline__ long long bin_of(T x, long long bins, double low, double high) {{
{bin_of}}}
enum {{ SHARED = {SHARED_BINS}, PER_THREAD = {PER_THREAD}, TILE = {THREADS} * PER_THREAD }};
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(
    {counted}* counts, const Stored* source, long long count, long long bins, double low, double high) {{
    __shared__ unsigned mine[SHARED];
    const bool shared = bins <= SHARED;
    if (shared) {{
        for (int i = threadIdx.x; i < bins; i += {THREADS}) mine[i] = 0;
        __syncthreads();
    }}
    for (long long tile = (long long)blockIdx.x * TILE; tile < count; tile += (long long)gridDim.x * TILE) {{
        const long long first = tile + threadIdx.x;
        Stored read[PER_THREAD];
        #pragma unroll
        for (int k = 0; k < PER_THREAD; ++k) if (first + k * {THREADS} < count) read[k] = source[first + k * {THREADS}];
        #pragma unroll
        for (int k = 0; k < PER_THREAD; ++k) {{
            if (first + k * {THREADS} >= count) break;
            const long long bin = bin_of(load(read[k]), bins, low, high);
            if (bin < 0 || bin >= bins) continue;
            if (shared) atomicAdd(&mine[bin], 1u);
            else {beyond}
        }}
    }}
    if (!shared) return;
    __syncthreads();
    for (int i = threadIdx.x; i < bins; i += {THREADS})
        {written}
}}
"""
