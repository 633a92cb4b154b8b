"""CUDA's arrays, texture objects and surface objects (CUDA driver API, "Texture Object Management")."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

from ..textures import Texels
from .calls import Calls, Made

_INVALID_VALUE = 1
_SURFACE_LDST = 2  # CUDA_ARRAY3D_SURFACE_LDST
_ARRAY, _LINEAR, _PITCH2D = 0, 2, 3  # CUresourcetype
_IN_DEVICE, _IN_ARRAY = 2, 3  # CUmemorytype
_CLAMP = 1  # CUaddress_mode
_READ_AS_INTEGER, _NORMALIZED_COORDINATES = 1, 2  # CU_TRSF_...
# CUarray_format
_FORMATS = {
    ("u", 1): 0x01,
    ("u", 2): 0x02,
    ("u", 4): 0x03,
    ("i", 1): 0x08,
    ("i", 2): 0x09,
    ("i", 4): 0x0A,
    ("h", 2): 0x10,
    ("f", 4): 0x20,
}

_Size, _Pointer, _Unsigned, _Int = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int


class _ArrayDescriptor(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [
        ("width", _Size),
        ("height", _Size),
        ("depth", _Size),
        ("format", _Int),
        ("channels", _Unsigned),
        ("flags", _Unsigned),
    ]


class _Linear(ctypes.Structure):
    _fields_ = [("address", _Pointer), ("format", _Int), ("channels", _Unsigned), ("nbytes", _Size)]


class _Pitch2D(ctypes.Structure):
    _fields_ = [
        ("address", _Pointer),
        ("format", _Int),
        ("channels", _Unsigned),
        ("width", _Size),
        ("height", _Size),
        ("pitch", _Size),
    ]


class _Resource(ctypes.Union):
    _fields_ = [("array", _Pointer), ("linear", _Linear), ("pitch2d", _Pitch2D), ("reserved", _Int * 32)]


class _ResourceDescriptor(ctypes.Structure):
    """CUDA_RESOURCE_DESC."""

    _fields_ = [("kind", _Int), ("resource", _Resource), ("flags", _Unsigned)]


class _TextureDescriptor(ctypes.Structure):
    """CUDA_TEXTURE_DESC."""

    _fields_ = [
        ("address", _Int * 3),
        ("filter", _Int),
        ("flags", _Unsigned),
        ("max_anisotropy", _Unsigned),
        ("mipmap_filter", _Int),
        ("mipmap_level_bias", ctypes.c_float),
        ("min_mipmap_level_clamp", ctypes.c_float),
        ("max_mipmap_level_clamp", ctypes.c_float),
        ("border_color", ctypes.c_float * 4),
        ("reserved", _Int * 12),
    ]


class _Side(ctypes.Structure):
    """One side of a CUDA_MEMCPY3D."""

    _fields_ = [
        ("x", _Size),
        ("y", _Size),
        ("z", _Size),
        ("level", _Size),
        ("memory", _Int),
        ("host", _Pointer),
        ("device", _Pointer),
        ("array", _Pointer),
        ("reserved", _Pointer),
        ("pitch", _Size),
        ("height", _Size),
    ]


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [("source", _Side), ("target", _Side), ("width", _Size), ("height", _Size), ("depth", _Size)]


class CudaTextures:
    """The arrays, texture and surface objects of one device. See ``Textures``."""

    def __init__(self, calls: Calls, ordinal: int) -> None:
        self._calls = calls
        self._ordinal = ordinal
        self._arrays = Made(calls, "cuArray3DCreate", "cuArrayDestroy", invalid=_INVALID_VALUE)
        self._textures = Made(calls, "cuTexObjectCreate", "cuTexObjectDestroy", invalid=_INVALID_VALUE)
        self._surfaces = Made(calls, "cuSurfObjectCreate", "cuSurfObjectDestroy", invalid=_INVALID_VALUE)

    def make_array(self, texels: Texels) -> int:
        descriptor = _ArrayDescriptor(
            texels.width, texels.height, texels.depth, _format(texels), texels.channels, _SURFACE_LDST
        )
        detail = f"an array of {_shape(texels)} texels was asked for"
        return self._make(self._arrays, ctypes.byref(descriptor), detail=detail)

    def copy_array(self, array: int, texels: Texels, address: int, pitch: int, *, to_array: bool, stream: int) -> None:
        memory = _Side(memory=_IN_DEVICE, device=address, pitch=pitch, height=max(texels.height, 1))
        texture = _Side(memory=_IN_ARRAY, array=array)
        source, target = (memory, texture) if to_array else (texture, memory)
        copy = _Copy(source, target, texels.row, max(texels.height, 1), max(texels.depth, 1))
        detail = f"{_shape(texels)} texels, rows every {pitch} bytes at {address:#x}"
        self._calls.call("cuMemcpy3DAsync", ctypes.byref(copy), stream, ordinal=self._ordinal, detail=detail)

    def make_texture(self, texels: Texels, *, array: int = 0, address: int = 0, pitch: int = 0) -> int:
        resource = _ResourceDescriptor()
        if array:
            resource.kind, resource.resource.array = _ARRAY, array
        elif texels.height:
            resource.kind = _PITCH2D
            resource.resource.pitch2d = _Pitch2D(
                address, _format(texels), texels.channels, texels.width, texels.height, pitch
            )
        else:
            resource.kind = _LINEAR
            resource.resource.linear = _Linear(address, _format(texels), texels.channels, texels.row)
        flags = _NORMALIZED_COORDINATES if texels.normalized_coordinates else 0
        if texels.kind in "iu" and not texels.normalized_values:
            flags |= _READ_AS_INTEGER
        # A GPU looks at one dimension as at a row of height 1, at its upper edge: half of what it filters is beyond.
        edges = texels.address if texels.height else (texels.address[0], _CLAMP, _CLAMP)
        texture = _TextureDescriptor((_Int * 3)(*edges), int(texels.linear), flags)
        detail = f"{_shape(texels)} texels"
        if not array:
            detail += (
                f" at {address:#x}, rows every {pitch} bytes, both of which must be aligned as the device asks for "
                "textures; with in_place=False they need not"
            )
        return self._make(self._textures, ctypes.byref(resource), ctypes.byref(texture), None, detail=detail)

    def make_surface(self, array: int) -> int:
        resource = _ResourceDescriptor(kind=_ARRAY)
        resource.resource.array = array
        return self._make(self._surfaces, ctypes.byref(resource))

    def destroy(self, *, array: int = 0, texture: int = 0, surface: int = 0) -> None:
        for made, handle in ((self._textures, texture), (self._surfaces, surface), (self._arrays, array)):
            if handle:
                self._in_context(partial(made.destroy, handle, device=self._ordinal))

    def close(self) -> None:
        """Destroy what is left."""
        for made in (self._textures, self._surfaces, self._arrays):
            self._in_context(made.destroy_all)

    def _make(self, made: Made, *arguments: Any, detail: str = "") -> int:
        make = partial(made.make, *arguments, device=self._ordinal, detail=detail)
        return self._calls.run_in_context(make, ordinal=self._ordinal)

    def _in_context(self, destroy: Callable[[], None]) -> None:
        """Destroy in the device's context: CUDA's handles of these things mean something within it alone."""

        def call() -> int:
            destroy()
            return 0

        self._calls.run_in_context(call, ordinal=self._ordinal)


def _format(texels: Texels) -> int:
    return _FORMATS[texels.kind, texels.nbytes]


def _shape(texels: Texels) -> str:
    return " x ".join(str(size) for size in (texels.depth, texels.height, texels.width) if size)
