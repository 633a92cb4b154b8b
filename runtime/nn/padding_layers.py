"""Layers that add elements at the edges, and that exchange pixels and channels."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

from ..tensor.core.tensor import Tensor
from .module import Module
from .pooled_windows import pad
from .volumes import channel_shuffle, pixel_shuffle, pixel_unshuffle

__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Padding(Module):
    """Elements added at both ends of the last dimensions.

    Args:
        padding: how many at each end: one number, or pairs from the last dimension on, as ``functional.pad`` takes.
    """

    directions: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        count = 2 * self.directions
        self.padding = (padding,) * count if isinstance(padding, Integral) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with elements added.

        Raises:
            ValueError: the numbers do not fit the dimensions.
        """
        return pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        """How many elements are added."""
        return str(self.padding)


class _Constant(_Padding):
    """Elements of one value added at both ends of the last dimensions.

    Args:
        padding: how many at each end: one number, or pairs from the last dimension on.
        value: the value.
    """

    mode = "constant"
    _told = ("padding", "value")
    extra_repr = Module.extra_repr

    def __init__(self, padding: Any, value: float = 0.0) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with elements added."""
        return pad(input, self.padding, "constant", self.value)


class _Zeros(_Constant):
    """Zeros added at both ends of the last dimensions.

    Args:
        padding: how many at each end: one number, or pairs from the last dimension on.
    """

    extra_repr = _Padding.extra_repr

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)


def _three(
    name: str, kind: type[_Padding], mode: str, what: str, families: tuple[type[_Padding], ...] = ()
) -> tuple[type[_Padding], ...]:
    """The layers of a name for rows, images and volumes, each of one of ``families``, too, if there are some."""
    made: list[Any] = []
    for directions, of in enumerate(("Rows", "Images", "Volumes"), 1):
        members = {"__doc__": f"{of} {what}.", "__module__": __name__, "directions": directions, "mode": mode}
        made.append(type(f"{name}{directions}d", (kind, *families[directions - 1 : directions]), members))
    return tuple(made)


ConstantPad1d, ConstantPad2d, ConstantPad3d = _three(
    "ConstantPad", _Constant, "constant", "with elements of one value added around"
)
ZeroPad1d, ZeroPad2d, ZeroPad3d = _three(
    "ZeroPad", _Zeros, "constant", "with zeros added around", (ConstantPad1d, ConstantPad2d, ConstantPad3d)
)
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _three(
    "ReflectionPad", _Padding, "reflect", "with their mirror images added around"
)
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _three(
    "ReplicationPad", _Padding, "replicate", "with what stands at their edges repeated around"
)
CircularPad1d, CircularPad2d, CircularPad3d = _three(
    "CircularPad", _Padding, "circular", "that go on at the other side"
)


class PixelShuffle(Module):
    """``functional.pixel_shuffle`` by a factor."""

    _told = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Images (..., channels * f * f, height, width) as (..., channels, height * f, width * f).

        Raises:
            ValueError: the channels cannot be divided by the square of the factor.
        """
        return pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """``functional.pixel_unshuffle`` by a factor."""

    _told = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Images (..., channels, height * f, width * f) as (..., channels * f * f, height, width).

        Raises:
            ValueError: height or width cannot be divided by the factor.
        """
        return pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """``functional.channel_shuffle`` with a number of groups."""

    _told = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The channels of (n, channels, ...) dealt out.

        Raises:
            ValueError: the channels cannot be divided into as many groups.
        """
        return channel_shuffle(input, self.groups)
