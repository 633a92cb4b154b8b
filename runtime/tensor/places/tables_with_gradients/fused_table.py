"""The table of what networks compute along rows, by channels and over classes, each in one kernel.

Lines are those of ``scan_and_sort_table.py``, but their tensors may differ in shape: each line says which it takes. All
are contiguous. Numbers that come with them are floats or integers. Results are of the type that their tensor has; what
is computed, is computed in float32 for the half types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..choice import choose, constant
from .scan_and_sort_table import RowOperation


def _means(x: Any) -> Any:
    """Of rows: what NumPy's ``mean`` computes, in a third of the calls."""
    made = np.add.reduce(x, 1, keepdims=True)
    made /= constant(x.shape[1], x.dtype)
    return made


def _layer_norm(x: Any, *rest: Any) -> Any:
    *scaling, eps = rest
    middle = _means(x)
    away = x - middle
    scale = _means(away * away)
    scale += constant(eps, x.dtype)
    np.sqrt(scale, out=scale)
    np.reciprocal(scale, out=scale)
    made = away * scale
    if scaling:
        made *= scaling[0]
    if len(scaling) > 1:
        made += scaling[1]
    return made, middle, scale


def _layer_norm_gradient(g: Any, x: Any, middle: Any, scale: Any, *weight: Any) -> Any:
    normal = x - middle
    normal *= scale
    weighted = g * weight[0] if weight else g
    made = weighted - _means(weighted)
    normal *= _means(weighted * normal)
    made -= normal
    made *= scale
    return made


def _layer_norm_sums(g: Any, x: Any, middle: Any, scale: Any, parts: int) -> Any:
    made = np.zeros((parts, 2 * x.shape[1]), x.dtype)
    made[0, : x.shape[1]] = (g * ((x - middle) * scale)).sum(0)
    made[0, x.shape[1] :] = g.sum(0)
    return made


def _attention(scores: Any, factor: float, causal: int, queries: int) -> Any:
    made = scores * constant(factor, scores.dtype)
    if causal:
        keys = made.shape[1]
        behind = np.arange(keys) > np.arange(queries)[:, None]
        np.copyto(made.reshape(-1, queries, keys), constant(-np.inf, made.dtype), where=behind)
    made -= np.maximum.reduce(made, 1, keepdims=True)
    np.exp(made, out=made)
    made /= np.add.reduce(made, 1, keepdims=True)
    return made


def _cross_entropy(x: Any, target: Any, ignored: int, smoothing: float) -> Any:
    most = np.maximum.reduce(x, 1, keepdims=True)
    total = most + np.log(np.add.reduce(np.exp(x - most), 1, keepdims=True))
    counts = target != ignored
    chosen = np.where(counts, target, 0)
    if len(chosen) and (chosen.min() < 0 or chosen.max() >= x.shape[1]):
        wrong = chosen[(chosen < 0) | (chosen >= x.shape[1])]
        raise IndexError(f"Target {wrong[0]} is out of bounds: there are {x.shape[1]} classes")
    losses = total[:, 0] - x[np.arange(len(x)), chosen]
    if smoothing:
        losses = (1 - smoothing) * losses + smoothing * (total[:, 0] - x.mean(1))
    made = np.empty((2, len(x)), x.dtype)
    made[0], made[1] = np.where(counts, losses, x.dtype.type(0)), counts
    return made, total


def _cross_entropy_gradient(
    x: Any, target: Any, total: Any, factor: Any, ignored: int, smoothing: float, step: int
) -> Any:
    made = np.exp(x - total) - x.dtype.type(smoothing / x.shape[1])
    counts = target != ignored
    np.subtract.at(made, (np.arange(len(x)), np.where(counts, target, 0)), x.dtype.type(1 - smoothing))
    made *= np.where(counts, factor if step else factor[0], x.dtype.type(0))[:, None]
    return made


def _channel_moments(x: Any, parts: int) -> Any:
    first = x[0, :, 0]
    away = x - first[:, None]
    made = np.zeros((x.shape[1], parts, 2), x.dtype)
    made[:, 0, 0], made[:, 0, 1] = away.sum((0, 2)), (away * away).sum((0, 2))
    return made


def _channel_statistics(moments: Any, x: Any, running_mean: Any, running_var: Any, eps: float, momentum: float) -> Any:
    first = x[0, :, 0]
    count = x.shape[0] * x.shape[2]
    away, squares = (moments.sum(1) / count).T
    variance = np.maximum(squares - away * away, 0)
    mean = first + away
    new_mean = (1 - momentum) * running_mean + momentum * mean
    new_var = (1 - momentum) * running_var + momentum * count / (count - 1) * variance
    return mean, 1 / np.sqrt(variance + eps), new_mean, new_var


def _channel_norm(x: Any, mean: Any, scale: Any, *scaling: Any) -> Any:
    made = (x - mean[:, None]) * scale[:, None]
    if scaling:
        made *= scaling[0][:, None]
        made += scaling[1][:, None]
    return made


def _channel_sums(g: Any, x: Any, mean: Any, scale: Any, parts: int) -> Any:
    made = np.zeros((x.shape[1], parts, 2), mean.dtype)
    made[:, 0, 0] = (g * ((x - mean[:, None]) * scale[:, None])).sum((0, 2))
    made[:, 0, 1] = g.sum((0, 2))
    return made


def _channel_totals(sums: Any) -> tuple[Any, Any, Any]:
    total = sums.sum(1)
    return total, total[:, 0], total[:, 1]


def _channel_gradient(g: Any, x: Any, mean: Any, scale: Any, sums: Any, *weight: Any) -> Any:
    count = x.shape[0] * x.shape[2]
    normal = (x - mean[:, None]) * scale[:, None]
    by_normal, plain = (sums / count).T
    factor = scale * weight[0] if weight else scale
    return (g - plain[:, None] - normal * by_normal[:, None]) * factor[:, None]


def _spans(count: int, step: int, apart: int, size: int) -> list[slice]:
    """For each element of a window, where it comes along a dimension."""
    return [slice(n * apart, n * apart + step * (count - 1) + 1, step) for n in range(size)]


def _window_largest(x: Any, *numbers: int) -> tuple[Any, Any]:
    high, wide, down, right, top, left, dy, dx, rows, columns = numbers
    planes, height, width = x.shape
    last_row, last_column = (rows - 1) * down + (high - 1) * dy, (columns - 1) * right + (wide - 1) * dx
    if not top and not left and last_row < height and last_column < width:
        return _largest_inside(x, _spans(rows, down, dy, high), _spans(columns, right, dx, wide))
    room = max(rows * down + dy * high, height + top), max(columns * right + dx * wide, width + left)
    source = np.full((planes, *room), -np.inf, x.dtype)
    source[:, top : top + height, left : left + width] = x
    # Of equals the first one in the image counts, also where all are minus infinity. A window that lies beside the
    # image has no largest element: minus infinity, and no place.
    first_row = _first_inside(rows, down, dy, high, top, height)
    first_column = _first_inside(columns, right, dx, wide, left, width)
    first = np.minimum(first_row[:, None] * wide + first_column, 255).astype(np.uint8)
    best, place = np.full((planes, rows, columns), -np.inf, x.dtype), np.tile(first, (planes, 1, 1))
    for r, below in enumerate(_spans(rows, down, dy, high)):
        for c, across in enumerate(_spans(columns, right, dx, wide)):
            _take_larger(best, place, source[:, below, across], r * wide + c)
    return best, place


def _first_inside(count: int, step: int, apart: int, size: int, before: int, length: int) -> Any:
    """Along a dimension, which element of each window is the first one in the image; where none is, a large number."""
    start = np.arange(count) * step - before
    first = np.maximum(-(start // apart), 0)
    return np.where((first < size) & (start + first * apart < length), first, 255)


def _take_larger(best: Any, place: Any, here: Any, number: int) -> None:
    """Put elements of the windows, whose number is above those before, where they are larger than the largest so far,
    or NaN."""
    better = here > best
    better |= np.isnan(here)
    np.maximum(best, here, out=best)
    np.maximum(place, better.view(np.uint8) * constant(number, place.dtype), out=place)


def _largest_inside(x: Any, down: list[slice], across: list[slice]) -> tuple[Any, Any]:
    """The same of windows that reach beyond no edge, in half the time."""
    best = x[:, down[0], across[0]].copy()
    place = np.zeros(best.shape, np.uint8)
    for number in range(1, len(down) * len(across)):
        _take_larger(best, place, x[:, down[number // len(across)], across[number % len(across)]], number)
    return best, place


def _window_largest_gradient(g: Any, where: Any, *numbers: int) -> Any:
    high, wide, down, right, top, left, dy, dx, height, width = numbers
    planes, rows, columns = g.shape
    room = max(rows * down + dy * high, height + top), max(columns * right + dx * wide, width + left)
    made = np.zeros((planes, *room), g.dtype)
    for r, below in enumerate(_spans(rows, down, dy, high)):
        for c, across in enumerate(_spans(columns, right, dx, wide)):
            made[:, below, across] += choose(where == r * wide + c, g, constant(0, g.dtype))
    return made[:, top : top + height, left : left + width]


def _windows_together(columns: Any, *numbers: int) -> Any:
    high, wide, down, right, top, left, dy, dx, rows, steps, room_down, room_right, height, width, row = numbers
    count, channels = columns.shape[:2]
    own = ..., slice(top, top + height), slice(left, left + width)
    offsets = [(y * dy, x * dx) for y in range(high) for x in range(wide)]
    if row == steps:
        parts = columns.reshape(count, channels, len(offsets), rows, steps)
        made = np.zeros((count, channels, room_down, room_right), columns.dtype)
        for number, (y, x) in enumerate(offsets):
            there = made[:, :, y : y + down * (rows - 1) + 1 : down, x : x + right * (steps - 1) + 1 : right]
            there += parts[:, :, number]
        return made[own]
    # There is an image for each remainder of positions by the stride, in which all rows of a window's element are one
    # piece. Behind the last row is room for the zeros that are shifted beyond it.
    length, all_rows = rows * row, -(-room_down // down)
    parts = columns.reshape(count, channels, len(offsets), length)
    apart = np.empty((count, channels, down, right, all_rows * row + offsets[-1][1] // right), columns.dtype)
    # Where each of these images has an element of the window at its start, that is written, and not added to zeros.
    written = len([1 for y, x in offsets if y < down and x < right]) == down * right
    if not written:
        apart[...] = 0
    for number, (y, x) in enumerate(offsets):
        start = y // down * row + x // right
        there = apart[:, :, y % down, x % right]
        if written and not start:
            there[..., :length] = parts[:, :, number]
            there[..., length:] = 0
        else:
            there[..., start : start + length] += parts[:, :, number]
    if down == right == 1:
        return apart[:, :, 0, 0, : all_rows * row].reshape(count, channels, all_rows, row)[own]
    made = np.empty((count, channels, all_rows * down, row * right), columns.dtype)
    for y in range(down):
        for x in range(right):
            found = apart[:, :, y, x, : all_rows * row]
            made[:, :, y::down, x::right] = found.reshape(count, channels, all_rows, row)
    return made[own]


def _triangle(x: Any, rows: int, diagonal: int, upper: int) -> Any:
    right = np.arange(x.shape[1]) - (np.arange(len(x)) % rows)[:, None]
    return choose(right >= diagonal if upper else right <= diagonal, x, constant(0, x.dtype))


# fmt: off
_TABLE = (
    # x (rows, n), then a weight and a bias of n elements, or only a weight, or neither: the rows less their mean, by
    # the root of their variance; with the means and the factors (rows, 1).
    RowOperation("layer_norm", "layer_norm", _layer_norm, parameters=1, gradient=()),
    # g, x (rows, n), means and factors (rows, 1), the weight if there is one: the gradient of x.
    RowOperation("layer_norm_gradient", "layer_norm_gradient", _layer_norm_gradient, gradient=()),
    # g, x (rows, n), means and factors: the gradients of weight and bias (parts, 2 * n), still to be added up.
    RowOperation("layer_norm_sums", "layer_norm_sums", _layer_norm_sums, parameters=1, gradient=()),
    # g, y (rows, n), and a factor: the gradient of what the softmax y was made of, times that.
    RowOperation("softmax_gradient", "soft_gradient",
                 lambda g, y, factor: y * (g - (g * y).sum(1, keepdims=True)) * y.dtype.type(factor), parameters=1,
                 gradient=()),
    RowOperation("log_softmax_gradient", "soft_gradient", lambda g, y: g - np.exp(y) * g.sum(1, keepdims=True),
                 gradient=()),
    # scores (rows, keys), a factor, whether a query sees no key behind it, and how many queries there are.
    RowOperation("attention", "attention", _attention, parameters=3, gradient=()),
    # x (rows, classes), classes (rows), which does not count, smoothing: the losses and counts (2, rows), and the
    # logarithms of the sums of exponentials (rows, 1).
    RowOperation("cross_entropy", "cross_entropy", _cross_entropy, parameters=2, gradient=()),
    # x, classes, these logarithms, the losses' gradients: one, or one for each row if the last number is 1.
    RowOperation("cross_entropy_gradient", "cross_entropy_gradient", _cross_entropy_gradient, parameters=3,
                 gradient=()),
    # x (n, channels, positions): sums of differences from the channel's first element, and of their squares (channels,
    # parts, 2), still to be added up.
    RowOperation("channel_moments", "channel_moments", _channel_moments, parameters=1, gradient=()),
    # These, x, running mean and variance, eps and momentum: mean, factor, new running mean and variance (channels).
    RowOperation("channel_statistics", "channel_statistics", _channel_statistics, parameters=2, gradient=()),
    # x, mean, factor, and weight and bias, or neither.
    RowOperation("channel_norm", "channel_norm", _channel_norm, gradient=()),
    # g, x, mean, factor: the gradients of weight and bias (channels, parts, 2), still to be added up.
    RowOperation("channel_sums", "channel_sums", _channel_sums, parameters=1, gradient=()),
    # These: added up (channels, 2), and the gradients of weight and bias as tensors of their own.
    RowOperation("channel_totals", "channel_totals", _channel_totals, gradient=()),
    # g, x, mean, factor, these added up (channels, 2), the weight if there is one: the gradient of x.
    RowOperation("channel_gradient", "channel_gradient", _channel_gradient, gradient=()),
    # x (planes, height, width), and a window's size, stride, padding, dilation and number of positions, each down and
    # across: the largest elements (planes, rows, columns) and where in the window they are (uint8).
    RowOperation("window_largest", "window_largest", _window_largest, parameters=10, gradient=()),
    # g (planes, rows, columns), these places, the same of the window, height and width: the gradient of x.
    RowOperation("window_largest_gradient", "window_largest_gradient", _window_largest_gradient, parameters=10,
                 gradient=()),
    # columns (n, channels, elements of a window, positions), a window's size, stride, padding, dilation and number of
    # positions, the room that they need, the image's height and width, and how long a row of positions is, of which the
    # last are 0: the sums of what windows have at each element of the images (n, channels, height, width). There is no
    # kernel for it.
    RowOperation("windows_together", "", _windows_together, parameters=15, gradient=()),
    # x (matrices * rows, columns), of any type, how many rows a matrix has, a diagonal, and whether what is above it
    # stays, or what is below; it stays itself.
    RowOperation("triangle", "triangle", _triangle, parameters=3, gradient=()),
)
# fmt: on

FUSED = {line.name: line for line in _TABLE}
