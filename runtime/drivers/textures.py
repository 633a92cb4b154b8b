"""What the runtime asks of a device's texture units, in the terms of the CUDA driver API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Texels:
    """What a texture consists of, and how kernels look at it."""

    width: int
    height: int
    """In texels; 0 for one dimension."""
    depth: int
    """In texels; 0 for one dimension or two."""
    kind: str
    """Of a channel: f floating, h half, i signed, u unsigned."""
    nbytes: int
    """Of a channel."""
    channels: int
    linear: bool
    """Whether values between texels are filtered, or the nearest one's."""
    normalized_coordinates: bool
    normalized_values: bool
    """Whether integers are read as floats from 0 to 1, or -1 to 1."""
    address: tuple[int, int, int]
    """Beyond the edges, by axis: 0 wrap, 1 clamp, 2 mirror, 3 border (CUaddress_mode)."""

    @property
    def row(self) -> int:
        """Bytes of a row without padding."""
        return self.width * self.channels * self.nbytes

    @property
    def rows(self) -> int:
        """How many rows there are, in all planes."""
        return max(self.height, 1) * max(self.depth, 1)


class Textures(Protocol):
    """Arrays and the objects by which kernels look at them, of one device. Calls need no current device.

    All raise ``DriverError`` or ``OutOfMemoryError`` with what the driver says. What is destroyed must not be in use by
    queued work.
    """

    def make_array(self, texels: Texels) -> int:
        """Memory whose layout the device chooses, which textures and surfaces can show."""

    def copy_array(self, array: int, texels: Texels, address: int, pitch: int, *, to_array: bool, stream: int) -> None:
        """Queue a copy between device memory, whose rows begin every ``pitch`` bytes, and an array."""

    def make_texture(self, texels: Texels, *, array: int = 0, address: int = 0, pitch: int = 0) -> int:
        """A texture object that shows an array, or device memory of one dimension (for ``tex1Dfetch``) or two."""

    def make_surface(self, array: int) -> int:
        """A surface object that shows an array."""

    def destroy(self, *, array: int = 0, texture: int = 0, surface: int = 0) -> None:
        """Destroy what was made here; 0 stands for nothing."""
