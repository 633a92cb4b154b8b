"""Shapes and strides reduced to what a kernel must walk: fewer dimensions, merged where all operands step evenly."""

from __future__ import annotations

from collections.abc import Sequence

from ..layout import Layout, Shape, broadcast_strides

__all__ = ["collapse", "merged", "walk"]


def collapse(out: Layout, operands: Sequence[Layout | None]) -> tuple[Shape, list[Shape]]:
    """The merged shape of an element-wise operation, and the strides in it of ``out`` and of each operand.

    Dimensions are ordered by the strides of ``out``, the largest first, so that neighbouring threads write
    neighbouring elements. A Python number (None) has no strides.
    """
    strides = [tuple(out.strides)]
    strides += [
        broadcast_strides(tuple(each.shape), each.strides, tuple(out.shape))
        if each is not None
        else (0,) * len(out.shape)
        for each in operands
    ]
    kept = [axis for axis, length in enumerate(out.shape) if length != 1]
    kept.sort(key=lambda axis: -abs(out.strides[axis]))
    shape = tuple(out.shape[axis] for axis in kept)
    return merged(shape, [tuple(each[axis] for axis in kept) for each in strides])


def merged(shape: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Neighbouring dimensions made one where every operand steps through both evenly."""
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, length in enumerate(shape):
        if lengths and all(mine[-1] == each[axis] * length for mine, each in zip(steps, strides, strict=True)):
            lengths[-1] *= length
            for mine, each in zip(steps, strides, strict=True):
                mine[-1] = each[axis]
        else:
            lengths.append(length)
            for mine, each in zip(steps, strides, strict=True):
                mine.append(each[axis])
    return tuple(lengths), [tuple(mine) for mine in steps]


def walk(index: str, shape: Shape, strides: Sequence[Shape], names: Sequence[str], integer: str) -> str:
    """C statements that turn a linear ``index`` into an offset, called ``names[k]``, for each of ``strides``.

    Lengths and strides stand in the text as constants: the compiler turns divisions into multiplications.
    """
    lines = [f"long long {name} = 0;" for name in names]
    lines.append(f"{integer} rest = ({integer})({index});")
    for axis in range(len(shape) - 1, -1, -1):
        if axis:
            lines.append(f"{{ {integer} here = rest % {shape[axis]}; rest /= {shape[axis]};")
        else:
            lines.append(f"{{ {integer} here = rest;")
        for name, each in zip(names, strides, strict=True):
            if each[axis]:
                lines.append(f"  {name} += (long long)here * {each[axis]}LL;")
        lines.append("}")
    return "\n    ".join(lines)
