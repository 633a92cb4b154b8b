"""Texture and surface references of ``pycuda.driver``, as CUDA had them before version 12."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....kernels import texture
from ....kernels.launch.global_symbol import GlobalSymbol
from .cuda_arrays import Array, ArrayDescriptor, dtype_of_format
from .device_contexts import Context
from .driver_constants import TRSF_NORMALIZED_COORDINATES, TRSF_READ_AS_INTEGER, address_mode, array_format, filter_mode
from .driver_errors import LogicError, lacking

__all__ = ["SurfaceReference", "TextureReference"]

_MOST_BOUND = 64


class TextureReference:
    """What a ``texture<…>`` of a module reads. Made by ``Module.get_texref``."""

    def __init__(self, name: str = "", reference: texture.TextureReference | None = None) -> None:
        """The reference of a module. Raises NotImplementedError without one: CUDA gave those up."""
        if reference is None:
            lacking("TextureReference of no module", "use Module.get_texref")
        self._name, self._reference = name, reference
        self._source: Any = None
        self._format: tuple[array_format, int] | None = None
        self._address_modes = [address_mode.CLAMP] * 3
        self._filter_mode = filter_mode.POINT
        self._flags = 0
        self._bound: list[Any] = []
        """What kernels may still look at: the textures up to now, and what they show."""
        self._changed = False

    def set_array(self, array: Array) -> None:
        """Read an array, whose format becomes the reference's."""
        self._source, self._format = array, (array.format, array.num_channels)
        self._changed = True

    def set_address(self, devptr: Any, bytes: int, allow_offset: bool = False) -> int:  # noqa: A002, ARG002
        """Read linear memory. Returns the offset in bytes of where the texture begins, which is always 0 here."""
        self._source = (int(devptr), int(bytes))
        self._changed = True
        return 0

    def set_address_2d(self, devptr: Any, descr: ArrayDescriptor, pitch: int) -> None:
        """Read linear memory as rows, ``pitch`` bytes apart."""
        self._source = (int(devptr), (int(descr.height), int(descr.width)), int(pitch))
        self._format = (array_format(descr.format), int(descr.num_channels))
        self._changed = True

    def set_format(self, fmt: array_format, num_components: int) -> None:
        """The type of a channel, and how many of them make a texel."""
        self._format = (array_format(fmt), int(num_components))
        self._changed = True

    def set_address_mode(self, dim: int, am: address_mode) -> None:
        """What lies beyond the edges in a dimension."""
        self._address_modes[dim] = address_mode(am)
        self._changed = True

    def set_filter_mode(self, fm: filter_mode) -> None:
        """How it is read between texels."""
        self._filter_mode = filter_mode(fm)
        self._changed = True

    def set_flags(self, flags: int) -> None:
        """The flags ``TRSF_READ_AS_INTEGER`` and ``TRSF_NORMALIZED_COORDINATES``."""
        self._flags = int(flags)
        self._changed = True

    def get_array(self) -> Array:
        """The array that it reads. Raises LogicError if it reads none."""
        if not isinstance(self._source, Array):
            raise LogicError(f"the texture reference {self._name} reads no array")
        return self._source

    def get_address_mode(self, dim: int) -> address_mode:
        """What lies beyond the edges in a dimension."""
        return self._address_modes[dim]

    def get_filter_mode(self) -> filter_mode:
        """How it is read between texels."""
        return self._filter_mode

    def get_format(self) -> tuple[array_format, int]:
        """The type of a channel, and how many make a texel. Raises LogicError if nothing has said so."""
        if self._format is None:
            raise LogicError(f"the texture reference {self._name} has no format yet: see set_format")
        return self._format

    def get_flags(self) -> int:
        """What ``set_flags`` said."""
        return self._flags

    def bind(self) -> None:
        """Let kernels see what it was set to. Raises LogicError if something is missing."""
        if not self._changed or self._source is None:
            return
        form, channels = self.get_format()
        dtype = dtype_of_format(form)
        source, pitch = self._source, None
        if isinstance(source, Array):
            memory, shape = source.memory, source.shape
        elif len(source) == 2:
            memory, shape = source[0], (source[1] // (dtype.itemsize * channels),)
        else:
            memory, shape, pitch = source
        shown = texture.Texture(
            int(memory),
            shape,
            dtype,
            channels=channels,
            pitch=pitch,
            filter=self._filter_mode.name.lower(),
            address=[mode.name.lower() for mode in self._address_modes],
            normalized_coordinates=bool(self._flags & TRSF_NORMALIZED_COORDINATES),
            normalized_values=self._reads_as_floats(dtype),
            in_place=True,
        )
        self._reference.bind(shown, stream=0)
        if len(self._bound) >= _MOST_BOUND:
            Context.synchronize()
            self._bound.clear()
        self._bound.append((shown, source))
        self._changed = False

    def _reads_as_floats(self, dtype: Any) -> bool:
        return dtype.kind in "iu" and not self._flags & TRSF_READ_AS_INTEGER and dtype.itemsize < 4


class SurfaceReference:
    """What kernels read and write by a ``surface<…>`` of a module. Made by ``Module.get_surfref``."""

    def __init__(self, name: str = "", symbol: GlobalSymbol | None = None) -> None:
        """The reference of a module. Raises NotImplementedError without one: CUDA gave those up."""
        if symbol is None:
            lacking("SurfaceReference of no module", "use Module.get_surfref")
        self._name, self._symbol = name, symbol
        self._array: Array | None = None
        self._bound: list[Any] = []
        """What kernels may still look at: the surfaces up to now, and their arrays."""

    def set_array(self, array: Array, flags: int = 0) -> None:  # noqa: ARG002
        """Let kernels that are queued from now on see an array."""
        shown = texture.Texture(
            int(array.memory), array.shape, dtype_of_format(array.format), channels=array.num_channels
        )
        self._symbol.copy_from(np.uint64(shown.surface), stream=0)
        if len(self._bound) >= _MOST_BOUND:
            Context.synchronize()
            self._bound.clear()
        self._bound.append((shown, array))
        self._array = array

    def get_array(self) -> Array:
        """The array that it shows. Raises LogicError if it shows none."""
        if self._array is None:
            raise LogicError(f"the surface reference {self._name} shows no array")
        return self._array
