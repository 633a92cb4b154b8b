"""``Storage``: the memory behind tensors. Views share one; it goes back when the last of them does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...kernels.launch.quick_calls import quick_maker
from ...machine.default_runtime import default_runtime
from ...machine.device_name import device
from ...machine.runtime import Runtime
from ...memory.pinned import alloc_pinned
from .layout import Location
from .tensor_errors import ArgumentError


class Storage:
    """Memory at one place, in bytes. It keeps ``owner``, whose life is the memory's, and nothing more."""

    __slots__ = ("__weakref__", "_bytes", "address", "length", "owner", "pinned", "place", "version")

    address: int
    """Of the first byte."""
    version: int
    """How often the memory was written to in place."""

    def __init__(
        self, place: Location, nbytes: int, owner: Any, address: int | None = None, pinned: bool = False
    ) -> None:
        self.place = place
        self.length = nbytes
        """The size in bytes."""
        self.owner = owner
        """Whose life is the memory's: a device buffer, a pinned buffer or NumPy's array."""
        self.version = 0
        self.pinned = pinned
        """Whether this is page-locked host memory."""
        self._bytes: npt.NDArray[np.uint8] | None = None
        if address is not None:
            self.address = address

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        """Host memory as an array of bytes, shared. It keeps the owner, an array, alive."""
        if self._bytes is None:
            if self.owner.flags.c_contiguous and self.owner.ndim:
                self._bytes = self.owner.reshape(-1).view(np.uint8)
            else:
                self._bytes = np.asarray(_Memory(self.address, self.length, self.owner))
        return self._bytes

    def nbytes(self) -> int:
        """The size in bytes."""
        return self.length

    def size(self) -> int:
        """The size in bytes."""
        return self.length

    def __len__(self) -> int:
        return self.length

    def data_ptr(self) -> int:
        """The address of the first byte; 0 if there are none."""
        return self.address if self.length else 0

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self.place.device

    def is_pinned(self) -> bool:
        """Whether this is page-locked host memory."""
        return self.pinned

    def pin_memory(self) -> Storage:
        """A copy in page-locked memory; itself if it lies there.

        Raises:
            CuplugError: there is no CUDA device, or this is memory of one.
        """
        if self.pinned:
            return self
        if self.place.device.type != "cpu":
            raise ArgumentError(f"only memory of the CPU can be pinned, and this is memory of {self.place.device}")
        made = pinned_storage(default_runtime(), self.place, self.length)
        made.bytes[:] = self.bytes
        return made

    def __repr__(self) -> str:
        return f"<Storage of {self.length} bytes at {self.address:#x} on {self.place.device}>"


@quick_maker(Storage, ("place", "length", "owner", "address", "version", "pinned", "_bytes"), 4, 0, False, None)
def make_storage(place: Location, nbytes: int, owner: Any, address: int) -> Storage:
    """Memory of a device: as ``Storage`` makes it of the same."""
    return Storage(place, nbytes, owner, address)


class ArrayStorage(Storage):
    """Memory of one of NumPy's arrays. Its address is asked of NumPy when it is needed: that is slow, and most are not.

    ``Storage`` does not do so: with a method ``__getattr__`` the interpreter looks up every attribute the slow way.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name != "address":
            raise AttributeError(f"'Storage' object has no attribute {name!r}")
        owner = self.owner
        address = owner.__array_interface__["data"][0]
        self.address = address if owner.flags.c_contiguous else address + _extent(owner)[0]
        return self.address

    @classmethod
    def of_array(cls, place: Location, array: npt.NDArray[Any]) -> ArrayStorage:
        """The memory of a host array, shared with it."""
        low, high = _extent(array)
        return cls(place, high - low, array)


@quick_maker(ArrayStorage, ("place", "length", "owner", "version", "pinned", "_bytes"), 3, 0, False, None)
def make_array_storage(place: Location, nbytes: int, owner: Any) -> ArrayStorage:
    """Memory of an array: as ``ArrayStorage`` makes it of the same."""
    return ArrayStorage(place, nbytes, owner)


def pinned_storage(runtime: Runtime, place: Location, nbytes: int) -> Storage:
    """``nbytes`` bytes of page-locked memory. It serves others once the last array on it and the copies are done.

    Raises:
        CuplugError: there is no CUDA device.
    """
    return ArrayStorage(place, nbytes, alloc_pinned(nbytes, runtime=runtime).array, pinned=True)


class _Memory:
    """Presents the memory of an array that is not one row of elements to NumPy, by the array interface."""

    def __init__(self, address: int, nbytes: int, owner: npt.NDArray[Any]) -> None:
        self.owner = owner
        writable = owner.flags.writeable
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, not writable),
        }


def _extent(array: npt.NDArray[Any]) -> tuple[int, int]:
    """The first byte used and the one after the last, relative to the first element."""
    if not array.size:
        return 0, 0
    low, high = 0, array.itemsize
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += stride * (length - 1)
        else:
            high += stride * (length - 1)
    return low, high
