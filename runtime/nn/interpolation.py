"""Rows, images and volumes in another size: each length by itself."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2
from numbers import Real
from typing import Any

from ..tensor.core.dtypes import float32, int32, int64, uint8
from ..tensor.core.needed_tensors import layout_of
from ..tensor.core.printed_names import entitle
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ShapeError
from ..tensor.ops.copying.copying import in_order_of
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.from_values import tensor
from ..tensor.ops.reductions.reductions import mean
from .adaptive_pooling import check_images, covering

__all__ = ["interpolate", "upsample"]

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_CUBIC = {"bicubic": 2}
_ANY = ("nearest", "nearest-exact", "area")


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """(n, channels, ...) in another size.

    Args:
        input: rows, images or volumes.
        size: the lengths wanted, or one number for all.
        scale_factor: instead by how much they become larger, one number or several.
        mode: ``nearest``, ``nearest-exact`` or ``area``; ``linear`` for rows, ``bilinear`` or ``bicubic`` for images,
            ``trilinear`` for volumes.
        align_corners: for the last four: whether the centres of the corners stay, instead of their outer edges.
        recompute_scale_factor: whether places are computed from the sizes, though a factor is given.
        antialias: False; filters that take more elements where images become smaller are not here.

    Raises:
        ValueError: there is no such mode for so many dimensions, or not one of size and factor; or ``antialias`` is
            wanted.
        TypeError: the mode is ``area``, and the elements are no floating-point numbers.
    """
    if antialias:
        raise ArgumentError("antialias=True is not part of cuplug; use mode='area', or avg_pool2d before")
    own, count = tuple(layout_of(input).shape[2:]), input.ndim - 2
    if not 1 <= count <= 3 or (mode not in _ANY and {**_LINEAR, **_CUBIC}.get(mode) != count):
        raise ArgumentError(f"interpolate: there is no mode {mode!r} for an input of {input.ndim} dimensions")
    if align_corners is not None and mode in _ANY:
        raise ArgumentError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if (size is None) == (scale_factor is None):
        raise ArgumentError(
            "either size or scale_factor should be defined"
            if size is None
            else "only one of size or scale_factor should be defined"
        )
    if size is None:
        factors = _for_all(scale_factor, count)
        wanted: Sequence[int] = [floor(length * factor) for length, factor in zip(own, factors, strict=True)]
        scales = [1 / factor for factor in factors]
    else:
        wanted, scales = _for_all(size, count), []
    if size is not None or recompute_scale_factor or mode == "area":
        scales = [length / asked if asked else 0.0 for length, asked in zip(own, wanted, strict=True)]
    (_check_area if mode == "area" else _check_lengths)(input, own, wanted)
    wide = input.dtype.is_half and not mode.startswith("nearest")
    made = input.to(float32) if wide else input
    for axis in range(count + 1, 1, -1):
        made = _resized(made, axis, wanted[axis - 2], scales[axis - 2], mode, bool(align_corners))
    made = in_order_of(made.to(input.dtype) if wide else made, input)
    if made._layout.tracked:
        kind = "".join(part.capitalize() for part in mode.split("-"))
        entitle(f"{'AdaptiveAvgPool' if mode == 'area' else f'Upsample{kind}'}{count}DBackward0", made, (input,))
    return made


upsample = interpolate
"""The old name of ``interpolate``."""


def _check_lengths(input: Tensor, own: Sequence[int], wanted: Sequence[int]) -> None:
    """Refuse an input without elements, unless only samples are missing, and results of no length."""
    if min(*own, *wanted) < 1:
        names = "DHW"[-len(own) :]
        before, after = (
            ", ".join(f"{name}: {length}" for name, length in zip(names, each, strict=True)) for each in (own, wanted)
        )
        raise ShapeError(
            f"Input and output sizes should be greater than 0, but got input ({before}) "
            f"{'and ' if len(own) == 1 else ''}output ({after})"
        )
    if not input.shape[1]:
        raise ShapeError(
            f"Non-empty {input.ndim}D data tensor expected but got a tensor with sizes {list(input.shape)}"
        )


def _check_area(input: Tensor, own: Sequence[int], wanted: Sequence[int]) -> None:
    """Refuse what adaptive pools of means refuse: results may have no length, and all but volumes no channels."""
    name = f"adaptive_avg_pool{len(own)}d"
    check_images(name, input, len(own), -4 if len(own) == 3 else -len(own))
    if min(wanted) < 0:
        raise ArgumentError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {tuple(wanted)}"
        )


def _for_all(given: Any, count: int) -> Sequence[Any]:
    return (given,) * count if isinstance(given, Real) else tuple(given)


def _resized(made: Tensor, axis: int, asked: int, scale: float, mode: str, corners: bool) -> Tensor:
    length = made.shape[axis]
    if mode == "area":
        parts = [
            mean(made.narrow(axis, each.start, each.stop - each.start), axis, True) for each in covering(length, asked)
        ]
        return cat(parts, axis) if parts else made.narrow(axis, 0, 0)
    if mode in _ANY:
        middle = 0.5 if mode == "nearest-exact" else 0.0
        return _chosen(made, axis, [min(floor((n + middle) * scale), length - 1) for n in range(asked)])
    if corners:
        scale = (length - 1) / (asked - 1) if asked > 1 else 0.0
    places = [n * scale if corners else (n + 0.5) * scale - 0.5 for n in range(asked)]
    if mode in _CUBIC:
        return _weighed(made, axis, places, _cubic)
    return _weighed(made, axis, [max(each, 0.0) for each in places], lambda t: (1 - t, t))


def _weighed(made: Tensor, axis: int, places: Sequence[float], weights: Any) -> Tensor:
    """For each place the sum of the elements around it, as many to its left as to its right, by ``weights`` of how far
    it lies from the nearest on its left."""
    low = [floor(each) for each in places]
    by = [weights(place - first) for place, first in zip(places, low, strict=True)]
    shape = [1] * made.ndim
    shape[axis] = len(places)
    total, count, last = None, len(by[0]), made.shape[axis] - 1
    source = made
    if made.dtype is uint8:  # with whole numbers for weights, and rounded in each direction, as PyTorch
        bits = 14 - floor(log2(max(map(max, by))))
        by = [[floor(each * 2**bits + 0.5) for each in weights] for weights in by]
        made = made.to(int32)
    for number in range(count):
        positions = [min(max(first + number + 1 - count // 2, 0), last) for first in low]
        factor = tensor([each[number] for each in by], dtype=made.dtype, device=made.device).view(shape)
        part = _chosen(made, axis, positions) * factor
        total = part if total is None else total + part
    assert total is not None
    if source.dtype is uint8:
        rounded: Tensor = ((total + 2 ** (bits - 1)) >> bits).clamp(0, 255).to(uint8)
        return rounded
    return total


def _cubic(t: float) -> tuple[float, ...]:
    """The convolution of Keys with a = -0.75, at distances of 1 + t, t, 1 - t and 2 - t."""
    a = -0.75
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (t, 1 - t)]
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (1 + t, 2 - t)]
    return far[0], near[0], near[1], far[1]


def _chosen(made: Tensor, axis: int, positions: Sequence[int]) -> Tensor:
    return made.index_select(axis, tensor(positions, dtype=int64, device=made.device))
