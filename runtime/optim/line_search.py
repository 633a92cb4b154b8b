"""A line search for the strong conditions of Wolfe, by cubic interpolation (Nocedal and Wright, *Numerical
Optimization*, algorithms 3.5 and 3.6), with the safeguards of minFunc that torch's has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..tensor.core.tensor import Tensor

_DECREASE, _CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """What was found at one length along the direction."""

    length: float
    loss: float
    gradient: Tensor
    slope: float
    """The gradient along the direction."""


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, length: float, longest: float, least: float, most: int
) -> tuple[Point, int]:
    """The point where the loss has fallen enough, and its slope is flat enough.

    Args:
        evaluate: what stands at a length.
        start: what stands at length 0.
        length: where to look first.
        longest: the largest element of the direction.
        least: what elements differ by less counts as one.
        most: how many points to look at after the first.

    Returns:
        The best point that was found, and how often ``evaluate`` was called.
    """

    def fell_too_little(point: Point) -> bool:
        return point.loss > start.loss + _DECREASE * point.length * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    last, here, steps = start, evaluate(length), 0
    ends = [start, here]
    while steps < most:  # go on until a minimum lies between two points
        if fell_too_little(here) or (steps > 1 and here.loss >= last.loss) or (here.slope >= 0 and not is_flat(here)):
            ends = [last, here]
            break
        if is_flat(here):
            return here, steps + 1
        bounds = here.length + 0.01 * (here.length - last.length), here.length * 10
        last, here = here, evaluate(_lowest(last, here, *bounds))
        steps += 1
        ends = [start, here]

    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    slow = False
    while steps < most:  # make the interval smaller
        left, right = sorted(each.length for each in ends)
        if (right - left) * longest < least:
            break
        length = _lowest(ends[0], ends[1], left, right)
        margin = 0.1 * (right - left)
        if min(right - length, length - left) >= margin:
            slow = False
        elif slow or not left < length < right:  # the second time near an end: step inwards
            length = right - margin if right - length < length - left else left + margin
            slow = False
        else:
            slow = True
        here = evaluate(length)
        steps += 1
        if fell_too_little(here) or here.loss >= ends[low].loss:
            ends[high] = here
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        found = is_flat(here)
        if not found and here.slope * (ends[high].length - ends[low].length) >= 0:
            ends[high] = ends[low]
        ends[low] = here
        if found:
            break
    return ends[low], steps + 1


def _lowest(one: Point, other: Point, least: float, most: float) -> float:
    """Where the cubic through two points with their slopes is lowest, within bounds; their middle where it has no
    minimum."""
    if one.length > other.length:
        one, other = other, one
    across = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.length - other.length)
    square = across**2 - one.slope * other.slope
    if square < 0:
        return (least + most) / 2
    root = math.sqrt(square)
    apart = other.length - one.length
    found = other.length - apart * ((other.slope + root - across) / (other.slope - one.slope + 2 * root))
    return min(max(found, least), most)
