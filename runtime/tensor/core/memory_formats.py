"""How elements may be kept, by torch's names: programs name it when they make tensors and ask for copies."""

from __future__ import annotations

from typing import Any

from .printed_names import package_name
from .shapes import Shape, contiguous_strides
from .tensor_errors import ArgumentError, ShapeError

__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "preserve_format",
    "strided",
]


class layout:  # noqa: N801 - torch's name
    """How elements are kept. There is one way: ``strided``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{package_name()}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):  # noqa: N801 - torch's name
    """In which order elements lie in memory: ``contiguous_format``, row by row; ``channels_last`` and
    ``channels_last_3d``, with dimension 1 as the innermost of 4 or 5; or ``preserve_format``, as they did.
    """


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_DIMENSIONS = {channels_last: 4, channels_last_3d: 5}


def check_layout(asked: Any) -> None:
    """Refuse any layout but ``strided``.

    Raises:
        ArgumentError: it is another one.
    """
    if asked is not None and asked is not strided:
        raise ArgumentError(f"layout is cuplug.strided, of which there is no other here, not {asked!r}")


def strides_in(asked: Any, shape: Shape) -> Shape:
    """The strides of a tensor of this shape in this memory format.

    Raises:
        ArgumentError: there is no such format, or it is one of tensors with another number of dimensions.
    """
    if asked is contiguous_format:
        return contiguous_strides(shape)
    ndim = _DIMENSIONS.get(asked)
    if ndim is None:
        raise ArgumentError(
            f"memory_format is contiguous_format, channels_last, channels_last_3d or preserve_format, not {asked!r}"
        )
    if len(shape) != ndim:
        raise ShapeError(f"{asked!r} is for tensors of {ndim} dimensions, and this one has {len(shape)}")
    inner = contiguous_strides((shape[0], *shape[2:], shape[1]))
    return (inner[0], inner[-1], *inner[1:-1])


def is_in_format(asked: Any, shape: Shape, strides: Shape) -> bool:
    """Whether elements with these strides lie in this memory format; the strides of lengths of 1 do not count.

    Raises:
        ArgumentError: there is no such format.
    """
    ndim = _DIMENSIONS.get(asked)
    if ndim is not None and ndim != len(shape):
        return False
    wanted = strides_in(asked, shape)
    return 0 in shape or all(
        length == 1 or have == want for length, have, want in zip(shape, strides, wanted, strict=True)
    )


def keeps_channels_last(shape: Shape, strides: Shape) -> bool:
    """Whether what is made of images or volumes with these strides lies in ``channels_last`` or ``channels_last_3d``:
    where the channels are innermost, also of every second image, channel or column. It is torch's rule
    (``suggest_memory_format``), which calls row-major what may be both.
    """
    if len(shape) not in (4, 5) or not strides[1] or 0 in shape:
        return False
    least = 0
    for axis in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True
