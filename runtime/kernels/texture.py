"""Textures and surfaces: device memory that kernels look at by texture and surface objects."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...allocators.errors import CuplugError
from ..default_runtime import default_runtime
from ..runtime import Runtime

__all__ = ["Texture"]

_FILTERS = ("point", "linear")
_EDGES = ("wrap", "clamp", "mirror", "border")
_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32")


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
        ("address", ctypes.c_uint8 * 3),
    ]


class Texture:
    """Device memory that kernels read by ``tex1D`` to ``tex3D`` and ``tex1Dfetch``, and read and write by ``surf1D`` to
    ``surf3D`` functions: they get ``handle`` for a ``cudaTextureObject_t`` or ``cudaSurfaceObject_t``.

    The memory is read where it is: what kernels write there is seen at once. So far on the simulator alone; on a GPU it
    is refused.
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
        runtime: Runtime | None = None,
    ) -> None:
        """Describe memory as texels.

        Args:
            memory: a buffer, a tensor or an address of device memory. A buffer or tensor lives as long as the texture.
            shape: texels as (width,), (height, width) or (depth, height, width).
            dtype: what NumPy calls a channel's type: 8, 16 or 32 bits of integers, float16 or float32.
            channels: 1, 2 or 4 of them make a texel.
            pitch: bytes from one row to the next, by default those of a row.
            filter: ``point`` for the texel that a coordinate lies in, ``linear`` between neighbours, as hardware does
                it with 8 bits of the fraction.
            address: what lies beyond the edges, for all axes or each of x, y and z: ``wrap`` or ``mirror`` (for
                normalised coordinates; else they are ``clamp``), ``clamp`` or ``border`` (zeros).
            normalized_coordinates: whether coordinates run from 0 to 1.
            normalized_values: whether integers are read as floats from 0 to 1, or -1 to 1 for signed ones.
            runtime: the default runtime, if left out.

        Raises:
            CuplugError: the device is a GPU.
            ValueError: an argument is out of its range.
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
        if filter == "linear" and kind.kind != "f" and not normalized_values:
            raise ValueError("filter='linear' needs texels that are read as floats: see normalized_values")
        row = self.shape[-1] * channels * kind.itemsize
        if pitch is not None and pitch < row:
            raise ValueError(f"pitch={pitch} bytes: a row has {row}")
        runtime = runtime or default_runtime()
        if runtime.driver.simulator is None:
            raise CuplugError(
                "cuplug.Texture works on the simulator only, so far: make the object by cuda-bindings on a GPU"
            )
        from .compile.compile_cache import default_cache
        from .simulator.engine import engine

        self._memory = memory
        depth, height, width = (*[0] * (3 - len(self.shape)), *self.shape)
        self._image = _Image(
            data=_address(memory),
            pitch=pitch or row,
            slice=(pitch or row) * max(height, 1),
            width=width,
            height=height,
            depth=depth,
            kind=("h" if kind.name == "float16" else kind.kind).encode(),
            nbytes=kind.itemsize,
            channels=channels,
            linear=filter == "linear",
            normalized_coordinates=normalized_coordinates,
            normalized_values=normalized_values,
            address=(ctypes.c_uint8 * 3)(*map(_EDGES.index, edges)),
        )
        owner = engine(default_cache())
        owner.show_image(ctypes.addressof(self._image))
        weakref.finalize(self, owner.show_image, ctypes.addressof(self._image), shown=False).atexit = False

    @property
    def handle(self) -> int:
        """What kernels get for it."""
        return ctypes.addressof(self._image)

    def __repr__(self) -> str:
        return f"<Texture of {' x '.join(map(str, self.shape))} texels>"


def _address(memory: Any) -> int:
    if isinstance(memory, int):
        return memory
    pointer = getattr(memory, "data_ptr", None)
    return int(pointer() if pointer is not None else memory.address)
