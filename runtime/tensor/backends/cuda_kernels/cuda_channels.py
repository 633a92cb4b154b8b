"""CUDA C for batch normalisation: sums by channel, and what they make of each element, forward and back.

Images are (n, channels, positions). Blocks have 32 threads across positions and 8 across images: no thread divides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.layout import Layout
from ...places.place import Kernel
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_launching import Launching
from .cuda_softmax_and_norms import launcher, text_of

_ACROSS = 1024
"""Positions of one block, where every element is written."""

_SUMS = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long many, long long channels,
                                                         long long positions) {
    __shared__ T shared[2][256];
    const long long c = blockIdx.x;
    $BEFORE
    T first = T(0), second = T(0);
    for (long long n = (long long)blockIdx.y * 8 + threadIdx.y; n < many; n += 8 * gridDim.y) {
        const long long row = (n * channels + c) * positions;
        for (long long i = threadIdx.x; i < positions; i += 32) { $ADD }
    }
    const int me = threadIdx.y * 32 + threadIdx.x;
    shared[0][me] = first;
    shared[1][me] = second;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (me < half) { shared[0][me] += shared[0][me + half]; shared[1][me] += shared[1][me + half]; }
        __syncthreads();
    }
    if (me < 2) put(made[(c * gridDim.y + blockIdx.y) * 2 + me], shared[me][0]);
}
"""

_EACH = r"""
extern "C" __global__ void __launch_bounds__(256) kernel(PARAMETERS, long long many, long long channels,
                                                         long long positions) {
    const long long image = (long long)blockIdx.x * 8 + threadIdx.y;
    if (image >= many * channels) return;
    const long long c = image % channels, row = image * positions;
    $BEFORE
    const long long start = (long long)blockIdx.y * 1024, end = start + 1024 < positions ? start + 1024 : positions;
    for (long long i = start + threadIdx.x; i < end; i += 32) $PUT
}
"""


def _sums(place: Launching, made: Layout, operands: Sequence[Layout], names: str, before: str, add: str) -> Kernel:
    many, channels, positions = operands[-1 if len(operands) == 1 else 1].shape
    text = _SUMS.replace("$BEFORE", before).replace("$ADD", add)
    source = text_of([made], operands, f"made {names}", "long long parts", text)
    letters = "P" * (1 + len(operands)) + "qqqq"
    grid = (channels, made.shape[1], 1)
    return launcher(place, source, grid, (32, 8, 1), letters, many, channels, positions)


def _moments(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    before = "const T start = in(x[c * positions]);"
    add = "const T away = in(x[row + i]) - start; first += away; second += away * away;"
    return _sums(place, outs[0], operands, "x", before, add)


def _gradient_sums(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    before = "const T middle = in(mean[c]), factor = in(scale[c]);"
    add = "const T here = in(g[row + i]); first += here * ((in(x[row + i]) - middle) * factor); second += here;"
    return _sums(place, outs[0], operands, "g x mean scale", before, add)


def _totals(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    channels, parts, _two = operands[0].shape
    body = r"""
extern "C" __global__ void __launch_bounds__(128) kernel(PARAMETERS, long long channels, long long parts) {
    const long long c = (long long)blockIdx.x * 128 + threadIdx.x;
    if (c >= channels) return;
    T first = T(0), second = T(0);
    for (long long k = 0; k < parts; ++k) {
        first += in(sums[(c * parts + k) * 2]);
        second += in(sums[(c * parts + k) * 2 + 1]);
    }
    put(total[2 * c], first);
    put(total[2 * c + 1], second);
    put(weight[c], first);
    put(bias[c], second);
}
"""
    source = text_of(outs, operands, "total weight bias sums", "", body)
    return launcher(place, source, (-(-channels // 128), 1, 1), (128, 1, 1), "PPPPqq", channels, parts)


def _statistics(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    channels, parts, _two = operands[0].shape
    many, _channels, positions = operands[1].shape
    body = r"""
extern "C" __global__ void __launch_bounds__(128) kernel(PARAMETERS, long long channels, long long parts,
                                                         long long positions, long long count) {
    const long long c = (long long)blockIdx.x * 128 + threadIdx.x;
    if (c >= channels) return;
    T first = T(0), second = T(0);
    for (long long k = 0; k < parts; ++k) {
        first += in(moments[(c * parts + k) * 2]);
        second += in(moments[(c * parts + k) * 2 + 1]);
    }
    first /= T(count);
    T variance = second / T(count) - first * first;
    if (variance < T(0)) variance = T(0);
    const T middle = in(x[c * positions]) + first, part = T(momentum);
    put(mean[c], middle);
    put(scale[c], T(1) / sqrt(variance + T(eps)));
    put(new_mean[c], (T(1) - part) * in(running_mean[c]) + part * middle);
    put(new_var[c], (T(1) - part) * in(running_var[c]) + part * (T(count) / T(count - 1)) * variance);
}
"""
    names = "mean scale new_mean new_var moments x running_mean running_var"
    source = text_of(outs, operands, names, "double eps, double momentum", body)
    after = channels, parts, positions, many * positions
    return launcher(place, source, (-(-channels // 128), 1, 1), (128, 1, 1), "P" * 8 + "ddqqqq", *after)


def _each(
    place: Launching, outs: Sequence[Layout], operands: Sequence[Layout], names: str, before: str, put: str
) -> Kernel:
    many, channels, positions = outs[0].shape
    text = _EACH.replace("$BEFORE", before).replace("$PUT", put)
    source = text_of(outs, operands, f"made {names}", "", text)
    letters = "P" * (1 + len(operands)) + "qqq"
    grid = (-(-(many * channels) // 8), -(-positions // _ACROSS), 1)
    return launcher(place, source, grid, (32, 8, 1), letters, many, channels, positions)


def _norm(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    scaled = len(operands) > 3
    before = "const T middle = in(mean[c]), by = in(scale[c])" + (" * in(w[c]), more = in(b[c]);" if scaled else ";")
    put = f"put(made[row + i], (in(x[row + i]) - middle) * by{' + more' if scaled else ''});"
    return _each(place, outs, operands, "x mean scale w b" if scaled else "x mean scale", before, put)


def _gradient(place: Launching, _: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    weighted = len(operands) > 5
    before = f"""const T count = T(many * positions), middle = in(mean[c]), by = in(scale[c]);
    const T along = in(sums[2 * c]) / count * by, plain = in(sums[2 * c + 1]) / count;
    const T factor = by{" * in(w[c])" if weighted else ""};"""
    put = "put(made[row + i], (in(g[row + i]) - plain - (in(x[row + i]) - middle) * along) * factor);"
    return _each(place, outs, operands, f"g x mean scale sums{' w' if weighted else ''}", before, put)


CHANNEL_KERNELS: dict[str, Callable[[Any, RowOperation, Sequence[Layout], Sequence[Layout]], Kernel]] = {
    "channel_moments": _moments,
    "channel_statistics": _statistics,
    "channel_norm": _norm,
    "channel_sums": _gradient_sums,
    "channel_totals": _totals,
    "channel_gradient": _gradient,
}
