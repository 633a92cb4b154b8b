"""CUDA C for the largest element of each window of images, and its gradient. Blocks work on one plane: no index that is
divided is wider than 32 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.layout import Layout
from ...places.place import Kernel
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_launching import Launching
from .cuda_softmax_and_norms import launcher, text_of
from .cuda_source import THREADS

_NUMBERS = ", ".join(f"long long {each}" for each in ["high", "wide", "down", "right", "top", "left", "dy", "dx"])

_LARGEST = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long height, long long width) {
    const unsigned i = blockIdx.y * 256 + threadIdx.x, many = (unsigned)(rows * columns);
    if (i >= many) return;
    const auto* plane = x + (long long)blockIdx.x * height * width;
    const int y0 = (int)(i / (unsigned)columns) * (int)down - (int)top;
    const int x0 = (int)(i % (unsigned)columns) * (int)right - (int)left;
    T best = -1 / T(0);  // of a window that lies beside the image, which has no place
    int place = -1;
    for (int r = 0; r < (int)high; ++r) {
        const int at = y0 + r * (int)dy;
        if (at < 0 || at >= (int)height) continue;
        for (int c = 0; c < (int)wide; ++c) {
            const int across = x0 + c * (int)dx;
            if (across < 0 || across >= (int)width) continue;
            const T here = in(plane[(long long)at * width + across]);
            if (place < 0 || here > best || here != here) { best = here; place = r * (int)wide + c; }
        }
    }
    const long long to = (long long)blockIdx.x * many + i;
    put(made[to], best);
    where[to] = (unsigned char)place;
}
"""

_GRADIENT = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long rows, long long columns) {
    const unsigned i = blockIdx.y * 256 + threadIdx.x, many = (unsigned)(height * width);
    if (i >= many) return;
    const long long start = (long long)blockIdx.x * rows * columns;
    const int y0 = (int)(i / (unsigned)width) + (int)top, x0 = (int)(i % (unsigned)width) + (int)left;
    T total = T(0);
    for (int r = 0; r < (int)high; ++r) {
        const int at = y0 - r * (int)dy, row = at / (int)down;
        if (at < 0 || row * (int)down != at || row >= (int)rows) continue;
        for (int c = 0; c < (int)wide; ++c) {
            const int across = x0 - c * (int)dx, column = across / (int)right;
            if (across < 0 || column * (int)right != across || column >= (int)columns) continue;
            const long long from = start + (long long)row * columns + column;
            if (where[from] == r * (int)wide + c) total += in(g[from]);
        }
    }
    put(made[(long long)blockIdx.x * many + i], total);
}
"""


_TEXTS = {
    "window_largest": ("made where x", ", long long rows, long long columns", _LARGEST),
    "window_largest_gradient": ("made g where", ", long long height, long long width", _GRADIENT),
}


def _kernel(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    names, lengths, body = _TEXTS[operation.name]
    source = text_of(outs, operands, names, _NUMBERS + lengths, body)
    planes, first, second = outs[0].shape
    grid = (planes, -(-first * second // THREADS), 1)
    return launcher(place, source, grid, (THREADS, 1, 1), "PPP" + "q" * 12, *operands[0].shape[1:])


WINDOW_KERNELS: dict[str, Callable[[Any, RowOperation, Sequence[Layout], Sequence[Layout]], Kernel]] = dict.fromkeys(
    _TEXTS, _kernel
)
