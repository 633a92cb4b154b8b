"""Products of matrices by kernels of our own: of types that cuBLAS has not, and of small matrices, for which a call of
cuBLAS takes longer than the work."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...places.place import Kernel
from .cuda_launching import Launching
from .cuda_source import header, store

_MOST_RESULTS, _LONGEST_INNER = 1 << 14, 128
"""How large a product of two matrices is small."""
_MOST_READ, _LONGEST_VECTOR = 1 << 17, 1 << 14
"""How many elements a product of a matrix and a vector reads of the matrix, and of the vector, to be small."""


def small_product(place: Launching, out: Layout, a: Layout, b: Layout) -> Kernel | None:
    """The product of small matrices of floating-point numbers, or of a small matrix and a vector; None of others."""
    count, rows, columns = out.shape
    inner = a.shape[2]
    if rows == 1 or columns == 1:
        if inner > _LONGEST_VECTOR or out.numel * inner > _MOST_READ or count > _MOST_GRID:
            return None
        threads = 32 if inner <= 128 else 128 if inner <= 1024 else 512
        return _kernel(place, _row_source(out.dtype), (rows * columns, 1, count), (threads, 1, 1), out, a, b)
    if out.numel > _MOST_RESULTS or inner > _LONGEST_INNER:
        return None
    return product_by_kernel(place, out, a, b)


_MOST_GRID = 65535


def product_by_kernel(place: Launching, out: Layout, a: Layout, b: Layout) -> Kernel:
    """The product of batches of matrices of any type."""
    count, rows, columns = out.shape
    return _kernel(place, _tile_source(out.dtype), (-(-columns // 16), -(-rows // 16), count), (16, 16, 1), out, a, b)


def _kernel(place: Launching, source: str, grid: Any, block: Any, out: Layout, a: Layout, b: Layout) -> Kernel:
    before = Struct("@9q").pack(*out.shape[1:], a.shape[2], *a.strides, *b.strides)
    launch: Callable[..., None] = place.bound(place.function(source), grid, block, "PPP", before)
    runtime, size = place.runtime, out.dtype.itemsize

    def kernel(out: Any, a: Any, b: Any) -> None:
        launch(
            runtime.current,
            out._storage.address + out._offset * size,
            a._storage.address + a._offset * size,
            b._storage.address + b._offset * size,
        )

    kernel.by_address = True  # type: ignore[attr-defined]
    return kernel


_PARAMETERS = """long long rows, long long columns, long long inner, long long a0, long long a1, long long a2,
    long long b0, long long b1, long long b2"""


def _tile_source(out: dtype) -> str:
    """A kernel ``kernel(rows, columns, inner, steps of a, steps of b, out, a, b)`` for batches of matrices of any type,
    by tiles of 16 times 16."""
    kind = out.c_name
    computed = out.computed.c_name
    return f"""{header([out])}
typedef {computed} T;
extern "C" __global__ void __launch_bounds__(256) kernel(
    {_PARAMETERS}, {kind}* out, const {kind}* a, const {kind}* b) {{
    __shared__ T left[16][17], right[16][17];
    const long long row = (long long)blockIdx.y * 16 + threadIdx.y, column = (long long)blockIdx.x * 16 + threadIdx.x;
    a += blockIdx.z * a0;
    b += blockIdx.z * b0;
    T total = T(0);
    for (long long start = 0; start < inner; start += 16) {{
        const long long x = start + threadIdx.x, y = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < rows && x < inner ? (T)a[row * a1 + x * a2] : T(0);
        right[threadIdx.y][threadIdx.x] = y < inner && column < columns ? (T)b[y * b1 + column * b2] : T(0);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) total = T(total + left[threadIdx.y][k] * right[k][threadIdx.x]);
        __syncthreads();
    }}
    if (row < rows && column < columns)
        out[(blockIdx.z * rows + row) * columns + column] = {store(out, "total", computed)};
}}
"""


def _row_source(out: dtype) -> str:
    """A kernel with the same parameters for floating-point types, by a block for each result."""
    kind = out.c_name
    computed = out.computed.c_name
    return f"""{header([out])}
typedef {computed} T;
__device__ __forceinline__ T of_warp(T total) {{
    #pragma unroll
    for (int away = 16; away > 0; away /= 2) total += __shfl_down_sync(0xffffffffu, total, away);
    return total;
}}
extern "C" __global__ void __launch_bounds__(512) kernel(
    {_PARAMETERS}, {kind}* out, const {kind}* a, const {kind}* b) {{
    __shared__ T parts[16];
    const long long place = blockIdx.x;
    a += blockIdx.z * a0 + place / columns * a1;
    b += blockIdx.z * b0 + place % columns * b2;
    T total = T(0);
    #pragma unroll 4
    for (long long k = threadIdx.x; k < inner; k += blockDim.x) total += (T)a[k * a2] * (T)b[k * b1];
    total = of_warp(total);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    total = of_warp(threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0));
    if (threadIdx.x == 0) out[blockIdx.z * rows * columns + place] = {store(out, "total", computed)};
}}
"""
