"""Arrays of ``pycuda.driver``, which textures read, and copies of rectangles and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device_contexts import current_ordinal, runtime
from .driver_constants import array3d_flags, array_format
from .driver_errors import LogicError, lacking, translated
from .linear_memory import address_of, device_address, host_bytes, mem_alloc, memcpy_dtod, memcpy_dtoh, memcpy_htod
from .queues import handle_of

__all__ = [
    "Array",
    "ArrayDescriptor",
    "ArrayDescriptor3D",
    "Memcpy2D",
    "Memcpy3D",
    "Memcpy3DPeer",
    "dtype_of_format",
    "dtype_to_array_format",
    "gpuarray_to_array",
    "make_multichannel_2d_array",
    "matrix_to_array",
    "memcpy_atoa",
    "memcpy_atod",
    "memcpy_atoh",
    "memcpy_dtoa",
    "memcpy_htoa",
    "np_to_array",
]

_FORMATS = {
    "uint8": array_format.UNSIGNED_INT8,
    "uint16": array_format.UNSIGNED_INT16,
    "uint32": array_format.UNSIGNED_INT32,
    "int8": array_format.SIGNED_INT8,
    "int16": array_format.SIGNED_INT16,
    "int32": array_format.SIGNED_INT32,
    "float16": array_format.HALF,
    "float32": array_format.FLOAT,
}
_WIDE = {"float64": 2, "complex64": 2, "complex128": 4}
"""Types of which each element is a texel of so many 32-bit channels: ``pycuda-helpers.hpp`` puts them together."""


def dtype_to_array_format(dtype: Any) -> array_format:
    """The channel's type for NumPy's. Raises TypeError if textures have none such."""
    name = np.dtype(dtype).name
    if name not in _FORMATS:
        raise TypeError(f"no channel of an array holds {name}: there are {', '.join(_FORMATS)}")
    return _FORMATS[name]


def dtype_of_format(form: array_format) -> np.dtype[Any]:
    """NumPy's type for a channel's."""
    return np.dtype(next(name for name, each in _FORMATS.items() if each == form))


class ArrayDescriptor:
    """What an array of two dimensions is like."""

    width = height = num_channels = 0
    format: Any = None


class ArrayDescriptor3D(ArrayDescriptor):
    """What an array of three dimensions is like."""

    depth = flags = 0


class Array:
    """Memory that textures read, in rows without gaps."""

    def __init__(self, descriptor: ArrayDescriptor) -> None:
        """As the descriptor says. Raises NotImplementedError for layers and cubes."""
        depth, flags = getattr(descriptor, "depth", 0), getattr(descriptor, "flags", 0)
        if flags & (array3d_flags.LAYERED | array3d_flags.CUBEMAP):
            lacking("Array of layers or faces")
        self._descriptor = descriptor
        self.format, self.num_channels = array_format(descriptor.format), int(descriptor.num_channels)
        sizes = (int(depth), int(descriptor.height), int(descriptor.width))
        self.shape = tuple(size for size in sizes if size)
        self.texel = dtype_of_format(self.format).itemsize * self.num_channels
        self.memory = mem_alloc(int(np.prod(self.shape)) * self.texel)

    @property
    def row(self) -> int:
        """The bytes of a row."""
        return self.shape[-1] * self.texel

    @property
    def rows(self) -> int:
        """How many rows one slice has."""
        return self.shape[-2] if len(self.shape) > 1 else 1

    @property
    def handle(self) -> int:
        """Its address."""
        return int(self.memory)

    def free(self) -> None:
        """Give the memory up now."""
        self.memory.free()

    def get_descriptor(self) -> ArrayDescriptor:
        """What it was made with."""
        return self._descriptor

    get_descriptor_3d = get_descriptor


# --- copies


class Memcpy2D:
    """A copy of rows: settle both sides, then call it."""

    def __init__(self) -> None:
        self.src_x_in_bytes = self.src_y = self.src_z = self.src_pitch = self.src_height = 0
        self.dst_x_in_bytes = self.dst_y = self.dst_z = self.dst_pitch = self.dst_height = 0
        self.width_in_bytes = self.height = 0
        self.depth = 1
        self._source: Any = None
        self._target: Any = None

    def set_src_host(self, buffer: Any) -> None:
        """Copy from a buffer."""
        self._source = ("host", buffer)

    def set_src_device(self, devptr: Any) -> None:
        """Copy from device memory."""
        self._source = ("device", devptr)

    def set_src_array(self, array: Array) -> None:
        """Copy from an array."""
        self._source = ("array", array)

    def set_src_unified(self, buffer: Any) -> None:
        """Copy from a buffer, or from device memory."""
        self._source = ("device" if hasattr(buffer, "__cuda_array_interface__") else "host", buffer)

    def set_dst_host(self, buffer: Any) -> None:
        """Copy to a buffer."""
        self._target = ("host", buffer)

    def set_dst_device(self, devptr: Any) -> None:
        """Copy to device memory."""
        self._target = ("device", devptr)

    def set_dst_array(self, array: Array) -> None:
        """Copy to an array."""
        self._target = ("array", array)

    def set_dst_unified(self, buffer: Any) -> None:
        """Copy to a buffer, or to device memory."""
        self._target = ("device" if hasattr(buffer, "__cuda_array_interface__") else "host", buffer)

    @translated
    def __call__(self, stream: Any = None, aligned: bool = True) -> None:  # noqa: ARG002 - as PyCUDA's
        """Copy: on a stream, or waiting for the end.

        Raises:
            LogicError: a side was not settled, or both are host memory.
        """
        if self._source is None or self._target is None:
            raise LogicError("both sides of a copy must be settled before it is called: see set_src_… and set_dst_…")
        queued = stream is not None and not isinstance(stream, bool)
        queue = handle_of(stream) if queued else 0
        source = _Side(self._source, self.src_x_in_bytes, self.src_y, self.src_z, self.src_pitch, self.src_height)
        target = _Side(
            self._target, self.dst_x_in_bytes, self.dst_y, self.dst_z, self.dst_pitch, self.dst_height, writable=True
        )
        here, width, height = runtime(), int(self.width_in_bytes), max(int(self.height), 1)
        copies = {
            ("host", "device"): here.driver.memcpy_htod,
            ("device", "host"): here.driver.memcpy_dtoh,
            ("device", "device"): here.driver.memcpy_dtod,
        }
        if (source.kind, target.kind) not in copies:
            raise LogicError("one side of a copy must be device memory or an array")
        copy = copies[source.kind, target.kind]
        for side in (source, target):
            side.check(type(self).__name__, max(int(self.depth), 1), height, width)
        with here.on_device(current_ordinal()):
            for slice_ in range(max(int(self.depth), 1)):
                for row in range(height):
                    copy(
                        target.at(slice_, row, width, height),
                        source.at(slice_, row, width, height),
                        width,
                        stream=queue,
                    )
            if not queued:
                here.driver.stream_synchronize(0)


class _Side:
    """Where a copy's rows begin on one side."""

    def __init__(
        self, place: tuple[str, Any], x: int, y: int, z: int, pitch: int, height: int, *, writable: bool = False
    ) -> None:
        kind, thing = place
        self.kind = "host" if kind == "host" else "device"
        self._x, self._y, self._z, self._pitch, self._height = int(x), int(y), int(z), int(pitch), int(height)
        if kind == "host":
            self._start, _, self._kept = host_bytes(thing, writable=writable)
        elif kind == "array":
            self._start, self._pitch, self._height = thing.handle, thing.row, thing.rows
        else:
            self._start = address_of(thing)

    def check(self, call: str, slices: int, rows: int, width: int) -> None:
        """Raise DriverError if rows of device memory leave the allocation that they begin in."""
        if self.kind == "device":
            start = self.at(0, 0, width, rows)
            device_address(call, start, self.at(slices - 1, rows - 1, width, rows) + width - start)

    def at(self, slice_: int, row: int, width: int, height: int) -> int:
        pitch = self._pitch or width
        rows = (self._z + slice_) * (self._height or height) + self._y + row
        return self._start + rows * pitch + self._x


class Memcpy3D(Memcpy2D):
    """A copy of slices of rows: settle both sides, then call it."""


class Memcpy3DPeer(Memcpy3D):
    """Refused: see ``memcpy_peer``."""

    def __init__(self) -> None:
        """Refused. Raises NotImplementedError."""
        lacking("Memcpy3DPeer", "use memcpy_peer")


def memcpy_dtoa(ary: Array, index: int, src: Any, len: int) -> None:  # noqa: A002 - PyCUDA's name
    """Copy ``len`` bytes from device memory to an array, from its byte ``index`` on."""
    memcpy_dtod(ary.handle + index, src, len)


def memcpy_atod(dest: Any, ary: Array, index: int, len: int) -> None:  # noqa: A002 - PyCUDA's name
    """Copy ``len`` bytes of an array, from its byte ``index`` on, to device memory."""
    memcpy_dtod(dest, ary.handle + index, len)


def memcpy_htoa(ary: Array, index: int, src: Any) -> None:
    """Copy a buffer to an array, from its byte ``index`` on."""
    memcpy_htod(ary.handle + index, src)


def memcpy_atoh(dest: Any, ary: Array, index: int) -> None:
    """Fill a buffer from an array, from its byte ``index`` on."""
    memcpy_dtoh(dest, ary.handle + index)


def memcpy_atoa(dest: Array, dest_index: int, src: Array, src_index: int, len: int) -> None:  # noqa: A002
    """Copy ``len`` bytes between arrays."""
    memcpy_dtod(dest.handle + dest_index, src.handle + src_index, len)


# --- arrays of NumPy's


def matrix_to_array(matrix: Any, order: str, allow_double_hack: bool = False) -> Array:
    """An array with the elements of a matrix: with order ``C``, texel (x, y) is ``matrix[y, x]``.

    Raises:
        LogicError: the order is neither ``C`` nor ``F``.
        TypeError: textures have no such elements.
    """
    if np.dtype(matrix.dtype).name in _WIDE and not allow_double_hack:
        dtype_to_array_format(matrix.dtype)  # raises
    return np_to_array(matrix, order)


def np_to_array(nparray: Any, order: str, allowSurfaceBind: bool = False) -> Array:  # noqa: ARG001, N803
    """An array with the elements of NumPy's of two or three dimensions. float64 and complex numbers become texels of
    several channels, which ``pycuda-helpers.hpp`` reads.

    Raises:
        LogicError: the order is neither ``C`` nor ``F``, or there are other dimensions than two or three.
        TypeError: textures have no such elements.
    """
    if order not in ("C", "F") or nparray.ndim not in (2, 3):
        raise LogicError(f"order={order!r} of {nparray.ndim} dimensions: say C or F, for two or three dimensions")
    texels = np.ascontiguousarray(nparray if order == "C" else nparray.T)
    channels = _WIDE.get(texels.dtype.name, 1)
    form = array_format.SIGNED_INT32 if texels.dtype.name in ("float64", "complex128") else None
    if texels.dtype.name == "complex64":
        form = array_format.FLOAT
    return _filled(texels, texels.shape, channels, form or dtype_to_array_format(texels.dtype))


def gpuarray_to_array(gpuarray: Any, order: str, allowSurfaceBind: bool = False) -> Array:  # noqa: N803
    """The same for a ``GPUArray``."""
    return np_to_array(gpuarray.get(), order, allowSurfaceBind)


def make_multichannel_2d_array(matrix: Any, order: str) -> Array:
    """An array of two dimensions whose texels have several channels: ``matrix`` is (height, width, channels) for order
    ``C``, and (channels, width, height) for ``F``. Raises LogicError for other orders.
    """
    if order not in ("C", "F"):
        raise LogicError(f"order={order!r}: say C or F")
    texels = np.ascontiguousarray(matrix if order == "C" else matrix.T)
    return _filled(texels, texels.shape[:2], texels.shape[2], dtype_to_array_format(texels.dtype))


def _filled(texels: Any, shape: tuple[int, ...], channels: int, form: array_format) -> Array:
    descriptor = ArrayDescriptor3D()
    descriptor.depth, descriptor.height, descriptor.width = (*[0] * (3 - len(shape)), *shape)
    descriptor.format, descriptor.num_channels = form, channels
    array = Array(descriptor)
    memcpy_htod(array.memory, texels)
    return array
