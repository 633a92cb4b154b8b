"""CUDA C for the triangles of matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.layout import Layout
from ...core.tensor import Tensor
from ...places.place import Kernel
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_launching import Launching
from .cuda_source import THREADS

_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
_PER_THREAD = 4


def _triangle(place: Launching, _: RowOperation, outs: Sequence[Layout], __: Sequence[Layout]) -> Kernel:
    (out,), count, columns = outs, outs[0].numel, outs[0].shape[1]
    launch = place.bound(
        place.function(_source(out.dtype.itemsize)),
        (-(-count // (THREADS * _PER_THREAD)), 1, 1),
        (THREADS, 1, 1),
        "PPIIIqq",
    )

    def kernel(out: Tensor, x: Tensor, rows: int, diagonal: int, upper: int) -> None:
        addresses = out._address, x._address
        launch(place.runtime.current, *addresses, count, rows, columns, diagonal, upper)

    return kernel


def _source(itemsize: int) -> str:
    """``kernel(out, x, count, rows, columns, diagonal, upper)``: ``count`` elements, fewer than 2**31."""
    return f"""typedef {_WORDS[itemsize]} W;
extern "C" __global__ void __launch_bounds__({THREADS})
kernel(W* out, const W* x, unsigned count, unsigned rows, unsigned columns, long long diagonal, long long upper) {{
    unsigned i = blockIdx.x * {THREADS * _PER_THREAD}u + threadIdx.x;
    #pragma unroll
    for (int part = 0; part < {_PER_THREAD}; ++part, i += {THREADS})
        if (i < count) {{
            const unsigned row = i / columns;
            const long long right = (long long)(i - row * columns) - (long long)(row % rows);
            out[i] = (upper ? right >= diagonal : right <= diagonal) ? x[i] : W(0);
        }}
}}
"""


TRIANGLE_KERNELS: dict[str, Callable[[Any, RowOperation, Sequence[Layout], Sequence[Layout]], Kernel]] = {
    "triangle": _triangle,
}
