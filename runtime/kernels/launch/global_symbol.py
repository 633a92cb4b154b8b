"""``GlobalSymbol``: a ``__device__`` or ``__constant__`` variable of a module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...memory.copies import memcpy

if TYPE_CHECKING:
    from ...machine.runtime import Runtime


class GlobalSymbol:
    """A module's variable on one device. ``int(symbol)`` is its address."""

    def __init__(self, name: str, address: int, nbytes: int, device: int, runtime: Runtime, *, read_only: bool) -> None:
        self.name = name
        self.address = address
        self.nbytes = nbytes
        """Its size in bytes."""
        self.device = device
        """The ordinal of the device on which this one is."""
        self._runtime = runtime
        self._read_only = read_only

    def copy_from(self, array: Any, *, stream: Any = None) -> None:
        """Write it: all of it, or its beginning.

        Args:
            array: a NumPy array or scalar, a number's buffer, or device memory.
            stream: where to queue the copy; by default the current stream.

        Raises:
            ValueError: ``array`` is larger, or the variable is const.
        """
        source = np.ascontiguousarray(array) if isinstance(array, (np.generic, np.ndarray)) else array
        memcpy(self, source, self._size(source), stream=stream, runtime=self._runtime)

    def copy_to(self, array: Any, *, stream: Any = None) -> Any:
        """Read it, or its beginning, into ``array``, which is returned. Arguments as ``copy_from``."""
        memcpy(array, self, self._size(array), stream=stream, runtime=self._runtime)
        return array

    def _size(self, array: Any) -> int:
        nbytes = array.nbytes if hasattr(array, "nbytes") else memoryview(array).nbytes
        if nbytes > self.nbytes:
            raise ValueError(f"the symbol {self.name} has {self.nbytes} bytes, and {type(array).__name__} {nbytes}")
        return int(nbytes)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as an array of bytes (CUDA Array Interface, version 3)."""
        return {
            "version": 3,
            "shape": (self.nbytes,),
            "typestr": "|u1",
            "data": (self.address, self._read_only),
            "strides": None,
            "stream": None,
        }

    def __int__(self) -> int:
        return self.address

    __index__ = __int__

    def __repr__(self) -> str:
        return f"<GlobalSymbol {self.name} of {self.nbytes} bytes at {self.address:#x} on device {self.device}>"
