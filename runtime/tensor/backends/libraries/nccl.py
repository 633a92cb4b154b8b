"""NVIDIA's NCCL by its C interface, through ``ctypes``: what several devices compute together.

The library comes with the wheel ``nvidia-nccl-cu13`` (the extra ``nccl``), with PyTorch or with the system. Its C
interface has been stable since NCCL 2.10.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .....allocators.errors import CuplugError
from ....drivers.device_upstream import on_device
from ...core.dtypes import dtype
from ..device_place import DevicePlace

SUM, PROD, MAX, MIN, AVG = range(5)  # ncclRedOp_t
_TYPES = {
    "int8": 0,
    "uint8": 1,
    "int32": 2,
    "int64": 4,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
_BYTES = 1
"""As which of these types elements of any type are moved."""
_ID_BYTES = 128


class _Id(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_byte * _ID_BYTES),)


@functools.cache
def nccl() -> Nccl | None:
    """The library, or None where it is not installed."""
    for find in (_by_pathfinder, _beside_wheels, lambda: "libnccl.so.2"):
        try:
            path = find()
            if path is not None:
                return Nccl(ctypes.CDLL(path))
        except Exception:  # not installed, or the pathfinder does not find it: it says so in several ways
            continue
    return None


def _by_pathfinder() -> str | None:
    from cuda.pathfinder import load_nvidia_dynamic_lib

    path: str | None = load_nvidia_dynamic_lib("nccl").abs_path
    return path


def _beside_wheels() -> str | None:
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = (Path(each) / "nccl" / "lib" / "libnccl.so.2" for each in folders)
    return next((str(each) for each in found if each.is_file()), None)


class Nccl:
    """The library's functions, with errors raised."""

    def __init__(self, library: Any) -> None:
        pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        library.ncclGetErrorString.restype = ctypes.c_char_p
        library.ncclCommInitRank.argtypes = (pointer, integer, _Id, integer)
        library.ncclCommInitAll.argtypes = (pointer, integer, pointer)
        library.ncclCommDestroy.argtypes = library.ncclCommAbort.argtypes = (pointer,)
        library.ncclCommGetAsyncError.argtypes = (pointer, pointer)
        library.ncclAllReduce.argtypes = (pointer, pointer, size, integer, integer, pointer, pointer)
        library.ncclReduce.argtypes = (pointer, pointer, size, integer, integer, integer, pointer, pointer)
        library.ncclBroadcast.argtypes = (pointer, pointer, size, integer, integer, pointer, pointer)
        library.ncclAllGather.argtypes = (pointer, pointer, size, integer, pointer, pointer)
        library.ncclReduceScatter.argtypes = (pointer, pointer, size, integer, integer, pointer, pointer)
        self._library = library

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CuplugError: it failed.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            reason = self._library.ncclGetErrorString(status).decode()
            raise CuplugError(f"{name} failed: {reason}; NCCL_DEBUG=INFO in the environment lets NCCL say more")

    def version(self) -> tuple[int, int, int]:
        """The version, as in ``(2, 28, 9)``."""
        found = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(found))
        major = 10000 if found.value >= 10000 else 1000  # from 2.9 on there are two digits for the minor version
        return found.value // major, found.value % major // 100, found.value % 100

    def unique_id(self) -> bytes:
        """What all ranks of one group begin with: 128 bytes."""
        made = _Id()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made.internal)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Calls within are for several devices of this thread, and begin together."""
        self.call("ncclGroupStart")
        try:
            yield
        finally:
            self.call("ncclGroupEnd")

    def ranks(self, places: Sequence[DevicePlace]) -> list[Communicator]:
        """A group of the devices of this process, one communicator each."""
        handles = (ctypes.c_void_p * len(places))()
        ordinals = (ctypes.c_int * len(places))(*[each.ordinal for each in places])
        runtime = places[0].runtime
        for each in places:  # NCCL takes the primary contexts: they exist before
            with runtime.on_device(each.ordinal):
                pass
        with runtime.on_device(places[0].ordinal):
            self.call("ncclCommInitAll", handles, len(places), ordinals)
        return [Communicator(self, handle or 0, place) for handle, place in zip(handles, places, strict=True)]

    def rank(self, count: int, unique_id: bytes, rank: int, place: DevicePlace) -> Communicator:
        """This process's part of a group of ``count`` ranks. Waits until all ranks call this."""
        if len(unique_id) != _ID_BYTES:
            raise CuplugError(f"NCCL's unique id has {_ID_BYTES} bytes, and {len(unique_id)} were given")
        handle = ctypes.c_void_p()
        with place.runtime.on_device(place.ordinal):
            self.call("ncclCommInitRank", ctypes.byref(handle), count, _Id.from_buffer_copy(unique_id), rank)
        return Communicator(self, handle.value or 0, place)


class Communicator:
    """One device's part in a group. Work is queued on the device's current stream, or on one that is named."""

    def __init__(self, library: Nccl, handle: int, place: DevicePlace) -> None:
        self.library = library
        self.place = place
        self._handle = handle
        place.runtime.at_close(self._close_with_runtime)

    def all_reduce(self, send: int, receive: int, count: int, kind: dtype, op: int, stream: int | None = None) -> None:
        """Reduce ``count`` elements of all ranks by ``op``; all get the result."""
        self._queue("ncclAllReduce", send, receive, count, _type(kind), op, stream=stream)

    def reduce(
        self, send: int, receive: int, count: int, kind: dtype, op: int, root: int, stream: int | None = None
    ) -> None:
        """Reduce elements of all ranks by ``op``; the rank ``root`` gets the result."""
        self._queue("ncclReduce", send, receive, count, _type(kind), op, root, stream=stream)

    def broadcast(self, send: int, receive: int, count: int, kind: dtype, root: int, stream: int | None = None) -> None:
        """Give all ranks the elements of the rank ``root``."""
        self._queue("ncclBroadcast", send, receive, count * kind.itemsize, _BYTES, root, stream=stream)

    def all_gather(self, send: int, receive: int, count: int, kind: dtype, stream: int | None = None) -> None:
        """Give all ranks the ``count`` elements of each, one rank's behind the other's."""
        self._queue("ncclAllGather", send, receive, count * kind.itemsize, _BYTES, stream=stream)

    def reduce_scatter(
        self, send: int, receive: int, count: int, kind: dtype, op: int, stream: int | None = None
    ) -> None:
        """Reduce elements of all ranks by ``op``; each rank gets ``count`` of the results."""
        self._queue("ncclReduceScatter", send, receive, count, _type(kind), op, stream=stream)

    def _queue(self, name: str, *arguments: Any, stream: int | None) -> None:
        place = self.place
        handle = place.stream_handle() if stream is None else stream
        with place.runtime.on_device(place.ordinal):
            self.library.call(name, *arguments, self._handle, handle)

    def check(self) -> None:
        """Raise what has gone wrong meanwhile, such as a rank that is gone.

        Raises:
            CuplugError: with NCCL's words.
        """
        found = ctypes.c_int()
        self.library.call("ncclCommGetAsyncError", self._handle, ctypes.byref(found))
        if found.value:
            reason = self.library._library.ncclGetErrorString(found.value).decode()
            raise CuplugError(f"NCCL on {self.place.device}: {reason}: another rank may have ended or died")

    def close(self) -> None:
        """Leave the group. Once; later calls do nothing."""
        handle, self._handle = self._handle, 0
        if handle:
            with self.place.runtime.on_device(self.place.ordinal):
                self.library.call("ncclCommDestroy", handle)

    def _close_with_runtime(self) -> None:
        handle, self._handle = self._handle, 0
        if handle:
            with on_device(self.place.driver, self.place.ordinal):  # the runtime itself is closed already
                self.library.call("ncclCommAbort", handle)


def _type(kind: dtype) -> int:
    if kind.name not in _TYPES:
        raise CuplugError(f"NCCL does not reduce elements of {kind!r}; convert the tensor with .to(dtype)")
    return _TYPES[kind.name]
