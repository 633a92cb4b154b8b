"""What all calls of the CUDA driver share: its state, calling in the right context, making and destroying things."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from ....allocators.errors import DriverError, OutOfMemoryError
from ..base import PER_THREAD_STREAM, driver_error
from .api import FORKED, LOST, Api, Refusal, code_of
from .contexts import Contexts
from .virtual import CudaVirtualMemory, import_bindings

__all__ = ["CudaState", "forget_all_after_fork", "open_drivers"]

_NOT_INITIALIZED, _NO_DEVICE = 3, 100

open_drivers: set[CudaState] = set()
"""Drivers that are not closed. They stay alive until then: the destructors of PyCUDA's contexts call CUDA."""
_initialised = False
_forked = False
"""Whether this process was forked from one in which a driver had initialised CUDA."""


class CudaState:
    """The state of a CUDA driver."""

    def __init__(self) -> None:
        """Import PyCUDA and initialise CUDA. Where CUDA sees no device, ``device_count`` is 0.

        Raises:
            DriverError: ``CUDA_ERROR_NO_DEVICE``: NVIDIA's driver is not installed. ``CUDA_ERROR_NOT_INITIALIZED``:
                PyCUDA cannot be imported, or this process was forked after CUDA was initialised.
        """
        if _forked:
            raise driver_error(3, f"cuInit: {FORKED}")
        self._pycuda = _import_pycuda()
        self._api = api = Api()
        self._cuda: Api | Refusal = api
        self._count = _initialise(api, self._pycuda)
        self._contexts = Contexts(api, self._pycuda, self._count)
        self._bindings = import_bindings()
        # What was made and is not yet destroyed, with the ordinal of its device.
        self._memory: dict[int, int] = {}
        self._host: dict[int, int] = {}
        self._streams: dict[int, int] = {}
        self._events: dict[int, int] = {}
        self._modules: dict[int, int] = {}
        self._virtual: dict[int, CudaVirtualMemory] = {}
        open_drivers.add(self)

    def _call(self, name: str, *arguments: Any, ordinal: int | None = None, detail: str = "") -> None:
        """Call CUDA in the context of the current device, or of ``ordinal``. Raises what it returns."""
        contexts = self._contexts
        pushed = contexts.enter(ordinal)
        try:
            code = getattr(self._cuda, name)(*arguments)
        finally:
            if pushed:
                contexts.leave()
        if code:
            raise self._cuda.error(name, code, detail)

    def _queue(self, name: str, *arguments: Any, stream: int) -> None:
        """Queue work on a stream: a call whose last argument is the stream.

        CUDA takes the context from a stream that is not one of the default streams, whatever is current (seen on
        driver 580, with nothing current and with another context). Older drivers may not, so a call that fails is made
        once more in the current device's context.
        """
        if stream > PER_THREAD_STREAM:
            code = getattr(self._cuda, name)(*arguments, stream)
            if not code:
                return
            self._check_retry(name, code)
        self._call(name, *arguments, stream)

    def _check_retry(self, name: str, code: int) -> None:
        """Raise the error of a call where there is no current device to make it again in."""
        if self._contexts.ordinal is None:
            raise self._error(name, code)

    def _device(self, ordinal: int) -> Any:
        """PyCUDA's object of a device. Raises ``CUDA_ERROR_INVALID_DEVICE``."""
        self._contexts.check_ordinal(ordinal)
        return self._pycuda.Device(ordinal)

    def _attribute(self, ordinal: int, attribute: int) -> int:
        """A device's attribute by CUDA's number, for those that PyCUDA does not name."""
        self._contexts.check_ordinal(ordinal)
        value = ctypes.c_int()
        code = self._cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, ordinal)
        if code:
            raise self._error("cuDeviceGetAttribute", code)
        return value.value

    def _error(self, name: str, code: int, detail: str = "") -> DriverError | OutOfMemoryError:
        return self._cuda.error(name, code, detail)

    def _make(self, made: dict[int, int], name: str, *arguments: Any, detail: str = "") -> int:
        """Make a thing on the current device: a call whose first argument is where its handle goes."""
        handle = ctypes.c_void_p()
        self._call(name, ctypes.byref(handle), *arguments, detail=detail)
        made[handle.value or 0] = self._contexts.here()
        return handle.value or 0

    def _destroy(self, made: dict[int, int], name: str, handle: int, *, invalid: int) -> None:
        """Destroy a thing, whichever device is current.

        Does nothing once the device is lost: the thing is gone already, and the first error must stay the one seen.

        Raises:
            DriverError: ``invalid``: this driver has not made it, or has destroyed it. CUDA is not asked: it crashes
                on the handle of a destroyed stream.
        """
        self._contexts.here()
        ordinal = made.pop(handle, None)
        if ordinal is None:
            raise driver_error(invalid, f"{name} of {handle:#x}: this driver did not make it, or destroyed it before")
        self._give_back(name, handle, ordinal)

    def _give_back(self, name: str, handle: int, ordinal: int) -> None:
        """Destroy a thing. CUDA finds its context by itself (seen on driver 580); where it fails, it is told."""
        code = getattr(self._cuda, name)(handle)
        if code and code not in LOST:
            self._call(name, handle, ordinal=ordinal)

    def _destroy_everything(self) -> None:
        """Destroy what is left. Errors are ignored."""
        for virtual in self._virtual.values():
            virtual.close()
        for name, made in (
            ("cuModuleUnload", self._modules),
            ("cuEventDestroy", self._events),
            ("cuStreamDestroy", self._streams),
            ("cuMemFree", self._memory),
            ("cuMemFreeHost", self._host),
        ):
            while made:
                with suppress(DriverError, OutOfMemoryError):
                    self._give_back(name, *made.popitem())

    def _refuse(self, refusal: Refusal) -> None:
        """From now on raise instead of calling CUDA."""
        self._cuda = refusal
        open_drivers.discard(self)


def forget_all_after_fork() -> None:
    """Runs in a forked child: no call of CUDA may happen here any more, not even from a destructor."""
    global _forked
    _forked = _initialised
    for driver in list(open_drivers):
        refusal = Refusal(3, FORKED)
        driver._refuse(refusal)
        driver._contexts.refuse(refusal)


def _initialise(api: Api, pycuda: Any) -> int:
    """Initialise CUDA and count the visible devices."""
    global _initialised
    try:
        pycuda.init()
        _initialised = True
        return int(pycuda.Device.count())
    except pycuda.Error as error:
        code = code_of(api, error)
        if code == _NO_DEVICE:
            return 0
        if code == _NOT_INITIALIZED:
            raise driver_error(code, f"cuInit: {FORKED}") from None
        raise api.error("cuInit", code, 'no device can be used; driver="sim" simulates one') from None


def _import_pycuda() -> Any:
    try:
        import pycuda.driver
    except Exception as error:  # a PyCUDA that was built for another CUDA, or another NumPy, fails in several ways
        if find_spec("pycuda") is not None:
            Api()  # where NVIDIA's driver is missing, that is the reason to give
        raise driver_error(
            3,
            f"PyCUDA cannot be imported ({error}); install cuplug[cuda], which builds it against a CUDA toolkit, "
            'or simulate a device with driver="sim"',
        ) from None
    return pycuda.driver
