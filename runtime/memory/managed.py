"""Managed memory: one address that the program and kernels of every device use."""

from __future__ import annotations

import os
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ...allocators.errors import CuplugError, DriverError
from ..drivers.base import Driver
from ..machine.checks import whole_number
from ..machine.default_runtime import runtime_or_default
from ..machine.runtime import Runtime
from ..machine.uncopyable import refuse_copies

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

_NOT_PERMITTED = 800  # CUDA_ERROR_NOT_PERMITTED
_unwanted: deque[tuple[Driver, int, int]] = deque()
"""Driver, address and process of blocks that finalisers found; given back from where the driver may be called."""


def alloc_managed(nbytes: int, *, runtime: Runtime | None = None) -> ManagedBuffer:
    """``nbytes`` bytes of managed memory (``cuMemAllocManaged``), uninitialised: the driver's own, no allocator's.

    The program uses it as ``array``, kernels are given the buffer. Wait for the kernels first (``synchronize``): on the
    simulator the next call that waits raises an access that came too early.

    Raises:
        OutOfMemoryError: the driver has not that much.
        CuplugError: there is no device, or the runtime cannot be used any more.
        ValueError: ``nbytes`` is not above 0.
        TypeError: ``nbytes`` is not a whole number.
    """
    runtime = runtime_or_default(runtime)
    size = whole_number(nbytes, "nbytes")
    if size <= 0:
        raise ValueError(f"nbytes={size}: managed memory has at least one byte")
    _give_back_unwanted()
    ordinal = runtime.current.device
    with runtime.on_device(ordinal):
        address = runtime.driver.managed_alloc(size, device=ordinal)
    return ManagedBuffer(runtime.driver, address, size)


class ManagedBuffer:
    """Managed memory, from ``cuplug.cuda.alloc_managed``. Every array on it keeps it; dropped, it goes back."""

    __slots__ = ("__weakref__", "_address", "_give_back", "_nbytes")
    __reduce_ex__ = refuse_copies("copy its contents, with numpy.array(buffer)")

    def __init__(self, driver: Driver, address: int, nbytes: int) -> None:
        """What ``alloc_managed`` makes of a driver's block."""
        self._address = address
        self._nbytes = nbytes
        self._give_back = weakref.finalize(self, _drop, driver, address, os.getpid())
        self._give_back.atexit = False

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The memory as a NumPy array of bytes: ``buffer.array.view(numpy.float32)``. It keeps the memory."""
        return np.asarray(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False)}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self.nbytes,), "typestr": "|u1", "data": (self.address, False), "stream": None}

    @property
    def address(self) -> int:
        """The address, for the program and for kernels.

        Raises:
            CuplugError: the buffer was closed.
        """
        if self.closed:
            raise CuplugError("this managed buffer was closed; it has no memory any more")
        return self._address

    @property
    def nbytes(self) -> int:
        """The size in bytes, as asked for."""
        return self._nbytes

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not self._give_back.alive

    def __int__(self) -> int:
        return self.address

    def __len__(self) -> int:
        return self._nbytes

    def close(self) -> None:
        """Give the memory back; its arrays must not be used any more. Closing again does nothing."""
        self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"at {self._address:#x}"
        return f"<ManagedBuffer of {self._nbytes} bytes, {where}>"


def _drop(driver: Driver, address: int, process: int) -> None:
    """A finaliser, which may run while this thread is inside the driver."""
    _unwanted.append((driver, address, process))
    _give_back_unwanted()


def _give_back_unwanted() -> None:
    """Give back what nobody has any more, as far as the driver may be called now; nothing in a forked child."""
    for _ in range(len(_unwanted)):
        try:
            driver, address, process = _unwanted.popleft()
        except IndexError:
            return
        if process != os.getpid():
            continue
        try:
            driver.managed_free(address, device=0)
        except DriverError as error:
            if error.code == _NOT_PERMITTED:  # this thread is inside the driver: the next time
                _unwanted.append((driver, address, process))
        except CuplugError:
            pass  # the driver was closed, which gave it back
