"""Textures and surfaces: memory that kernels look at by texture and surface objects."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from ...allocators.errors import CuplugError
from ..drivers.textures import Texels, Textures
from ..machine.default_runtime import default_runtime
from ..machine.runtime import Runtime
from ..streams.stream import as_stream, current_stream
from .launch.global_symbol import GlobalSymbol

_FILTERS = ("point", "linear")
_EDGES = ("wrap", "clamp", "mirror", "border")
_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")


class Texture:
    """What kernels read by ``tex1D`` to ``tex3D`` and ``tex1Dfetch``, which take its ``handle`` for a
    ``cudaTextureObject_t``, and read and write by ``surf1D`` to ``surf3D`` functions, which take its ``surface`` for a
    ``cudaSurfaceObject_t``.

    It shows device memory where it is (then what is written there is seen at once), or has texels of its own, which are
    copied (``in_place=False``). In place, a GPU can show one dimension, for ``tex1Dfetch`` alone, and two, for
    ``tex2D``, if address and pitch are aligned (mostly to 512 and 32 bytes); surfaces, three dimensions and ``tex1D``
    need texels of their own there. Keep it as long as kernels that use it are queued.
    """

    def __init__(
        self,
        memory: Any,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        channels: int = 1,
        pitch: int | None = None,
        filter: str = "point",  # noqa: A002 - as CUDA calls it
        address: str | Sequence[str] = "clamp",
        normalized_coordinates: bool = False,
        normalized_values: bool = False,
        in_place: bool = True,
        runtime: Runtime | None = None,
    ) -> None:
        """Describe memory as texels.

        Args:
            memory: a buffer, a tensor or an address of memory of the current device. Shown in place, a buffer or tensor
                lives as long as the texture.
            shape: texels as (width,), (height, width) or (depth, height, width).
            dtype: what NumPy calls a channel's type: 8, 16 or 32 bits of integers, float16 or float32.
            channels: 1, 2 or 4 of them make a texel.
            pitch: bytes from one row of ``memory`` to the next, by default those of a row.
            filter: ``point`` for the texel that a coordinate lies in, ``linear`` between neighbours, as hardware does
                it with 8 bits of the fraction.
            address: what lies beyond the edges, for all axes or each of x, y and z: ``wrap`` or ``mirror`` (for
                normalised coordinates; else they are ``clamp``), ``clamp`` or ``border`` (zeros).
            normalized_coordinates: whether coordinates run from 0 to 1.
            normalized_values: whether integers of 8 or 16 bits are read as floats from 0 to 1, or -1 to 1 for signed
                ones.
            in_place: whether ``memory`` is shown where it is; else its contents are copied, on the current stream.
            runtime: the default runtime, if left out.

        Raises:
            ValueError: an argument is out of its range.
            DriverError: a GPU cannot show such memory in place; the message says what may help.
            OutOfMemoryError: there is no room for texels of its own.
        """
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        edges = [address] * 3 if isinstance(address, str) else [*address, *["clamp"] * 3][:3]
        if not 1 <= len(self.shape) <= 3 or min(self.shape) < 1:
            raise ValueError(f"shape={shape!r}: say (width,), (height, width) or (depth, height, width)")
        if kind.name not in _DTYPES or channels not in (1, 2, 4):
            raise ValueError(f"{channels} channels of {kind}: textures have 1, 2 or 4 of {', '.join(_DTYPES)}")
        if filter not in _FILTERS or not set(edges) <= set(_EDGES):
            raise ValueError(f"filter={filter!r}, address={address!r}: say one of {_FILTERS}, and of {_EDGES}")
        if normalized_values and kind.kind != "f" and kind.itemsize == 4:
            raise ValueError(f"normalized_values of {kind}: integers of 8 and 16 bits alone are read as floats")
        if filter == "linear" and kind.kind != "f" and not normalized_values:
            raise ValueError("filter='linear' needs texels that are read as floats: see normalized_values")
        depth, height, width = (*[0] * (3 - len(self.shape)), *self.shape)
        self._texels = Texels(
            width=width,
            height=height,
            depth=depth,
            kind="h" if kind.name == "float16" else kind.kind,
            nbytes=kind.itemsize,
            channels=channels,
            linear=filter == "linear",
            normalized_coordinates=normalized_coordinates,
            normalized_values=normalized_values,
            address=(_EDGES.index(edges[0]), _EDGES.index(edges[1]), _EDGES.index(edges[2])),
        )
        self._runtime = runtime or default_runtime()
        self._ordinal = self._runtime.current.device
        self._own = not in_place
        pitch = self._checked_pitch(memory, pitch)
        units = self._runtime.driver.textures(self._ordinal)
        if units is None:
            make: Callable[..., _Shown] = _InEngine
        else:
            if in_place and depth:
                raise ValueError("a GPU cannot show three dimensions in place: pass in_place=False")
            make = _OnDevice
        self._shown = make(self._runtime, self._ordinal, units, self._texels, None if self._own else (memory, pitch))
        weakref.finalize(self, self._shown.close).atexit = False
        if self._own:
            self.copy_from(memory, pitch=pitch)

    @property
    def handle(self) -> int:
        """The texture object, for kernels."""
        return self._shown.texture

    @property
    def surface(self) -> int:
        """The surface object, for kernels.

        Raises:
            CuplugError: on a GPU, it shows memory in place.
        """
        if not self._shown.surface:
            raise CuplugError("a GPU has no surfaces over memory in place: make the texture with in_place=False")
        return self._shown.surface

    def copy_from(self, memory: Any, *, pitch: int | None = None, stream: Any = None) -> None:
        """Queue a copy of device memory into its texels.

        Args:
            memory: a buffer, a tensor or an address.
            pitch: bytes from one row of ``memory`` to the next, by default those of a row.
            stream: where to queue it; by default the current stream.

        Raises:
            CuplugError: it shows memory in place.
            ValueError: ``memory`` is too small.
        """
        self._copy(memory, pitch, stream, into=True)

    def copy_to(self, memory: Any, *, pitch: int | None = None, stream: Any = None) -> None:
        """Queue a copy of its texels into device memory. Arguments and errors as ``copy_from``."""
        self._copy(memory, pitch, stream, into=False)

    def __repr__(self) -> str:
        return f"<Texture of {' x '.join(map(str, self.shape))} texels>"

    def _copy(self, memory: Any, pitch: int | None, stream: Any, *, into: bool) -> None:
        if not self._own:
            raise CuplugError("this texture shows memory in place: copy from or to that memory")
        pitch = self._checked_pitch(memory, pitch)
        if stream is None:
            queue = current_stream(self._ordinal, runtime=self._runtime)
        else:
            queue = as_stream(stream, self._runtime)
        self._shown.copy(_address(memory), pitch, queue.cuda_stream, into=into)

    def _checked_pitch(self, memory: Any, pitch: int | None) -> int:
        texels = self._texels
        if pitch is None:
            pitch = texels.row
        if pitch < texels.row:
            raise ValueError(f"pitch={pitch} bytes: a row has {texels.row}")
        needed, nbytes = pitch * (texels.rows - 1) + texels.row, getattr(memory, "nbytes", None)
        if nbytes is not None and nbytes < needed:
            raise ValueError(f"{self!r} needs {needed} bytes of memory, which has {nbytes}")
        return pitch


class TextureReference:
    """A texture reference of a module, on one device: ``module.get_texref("image").bind(texture)``."""

    def __init__(self, symbol: GlobalSymbol) -> None:
        """The reference that a module's symbol holds."""
        self._symbol = symbol

    def bind(self, texture: Texture, *, stream: Any = None) -> None:
        """Let kernels that are queued from now on see a texture through the reference.

        Args:
            texture: which. Keep it as long as kernels that use it are queued.
            stream: where to queue the change; by default the current stream.
        """
        self._symbol.copy_from(np.uint64(texture.handle), stream=stream)

    def __repr__(self) -> str:
        return f"<TextureReference {self._symbol.name}>"


class _Shown(Protocol):
    """A texture's texels, and the objects that kernels get."""

    texture: int
    surface: int

    def copy(self, address: int, pitch: int, stream: int, *, into: bool) -> None:
        """Queue a copy between texels of its own and device memory."""

    def close(self) -> None:
        """Give back what is its own. Never raises."""


class _OnDevice:
    """Those of a GPU."""

    def __init__(
        self, runtime: Runtime, ordinal: int, units: Textures, texels: Texels, memory: tuple[Any, int] | None
    ) -> None:
        del runtime, ordinal
        self._units = units
        self._texels = texels
        self._array = self.texture = self.surface = 0
        self._memory = memory
        if memory is not None:
            self.texture = units.make_texture(texels, address=_address(memory[0]), pitch=memory[1])
            return
        try:
            self._array = units.make_array(texels)
            self.texture = units.make_texture(texels, array=self._array)
            self.surface = units.make_surface(self._array)
        except BaseException:
            self.close()
            raise

    def copy(self, address: int, pitch: int, stream: int, *, into: bool) -> None:
        self._units.copy_array(self._array, self._texels, address, pitch, to_array=into, stream=stream)

    def close(self) -> None:
        with suppress(CuplugError):
            self._units.destroy(array=self._array, texture=self.texture, surface=self.surface)


class _Image(ctypes.Structure):
    """``Image`` of ``simulator/headers/abi.h``."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("pitch", ctypes.c_uint64),
        ("slice", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("kind", ctypes.c_char),
        ("nbytes", ctypes.c_uint8),
        ("channels", ctypes.c_uint8),
        ("linear", ctypes.c_uint8),
        ("normalized_coordinates", ctypes.c_uint8),
        ("normalized_values", ctypes.c_uint8),
        ("array", ctypes.c_uint8),
        ("address", ctypes.c_uint8 * 3),
    ]


class _InEngine:
    """Those of the simulator: one object is both, and shows memory of the simulated device."""

    def __init__(
        self, runtime: Runtime, ordinal: int, units: None, texels: Texels, memory: tuple[Any, int] | None
    ) -> None:
        from .compile.compile_cache import default_cache
        from .simulator.engine import engine

        del units
        self._runtime = runtime
        self._ordinal = ordinal
        self._texels = texels
        shown: tuple[Any, int] = memory or (runtime.alloc(texels.row * texels.rows), texels.row)
        self._memory, self._pitch = shown
        self._image = _Image(
            data=_address(self._memory),
            pitch=self._pitch,
            slice=self._pitch * max(texels.height, 1),
            width=texels.width,
            height=texels.height,
            depth=texels.depth,
            kind=texels.kind.encode(),
            nbytes=texels.nbytes,
            channels=texels.channels,
            linear=texels.linear,
            normalized_coordinates=texels.normalized_coordinates,
            normalized_values=texels.normalized_values,
            array=memory is None,
            address=(ctypes.c_uint8 * 3)(*texels.address),
        )
        self.texture = self.surface = ctypes.addressof(self._image)
        self._engine = engine(default_cache())
        self._engine.show_image(self.texture)

    def copy(self, address: int, pitch: int, stream: int, *, into: bool) -> None:
        driver, row, own = self._runtime.driver, self._texels.row, _address(self._memory)
        with self._runtime.on_device(self._ordinal):
            for number in range(self._texels.rows):
                ours, theirs = own + number * self._pitch, address + number * pitch
                dst, src = (ours, theirs) if into else (theirs, ours)
                driver.memcpy_dtod(dst, src, row, stream=stream)

    def close(self) -> None:
        self._engine.show_image(self.texture, shown=False)


def _address(memory: Any) -> int:
    if isinstance(memory, int):
        return memory
    pointer = getattr(memory, "data_ptr", None)
    return int(pointer() if pointer is not None else memory.address)
