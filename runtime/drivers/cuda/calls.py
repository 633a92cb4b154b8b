"""Calling CUDA in the right context, and what was made there.

**Interrupts.** A call that raises has changed nothing (``base.py``). But CPython delivers signals after a function
written in C has returned, so that an interrupt may hide what CUDA has done. Therefore what CUDA returns is written to
places that were made before: handles as CUDA's own arguments, its results by ``list.extend`` of a ``map``, which is a
single function written in C. What an interrupted call has made is destroyed by the next one. What an interrupted call
has destroyed counts as there until the caller destroys it again; if CUDA gives the handle out meanwhile, it is the
caller's that had it, and CUDA is asked for another one.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ....allocators.errors import DriverError, OutOfMemoryError
from ..base import PER_THREAD_STREAM, driver_error
from .api import LOST, Api, Refusal
from .contexts import Contexts

Detail = str | Callable[[], str]
"""What an error says besides CUDA's own words; if it is only known after the call, what tells it."""
_POPPED = ctypes.byref(ctypes.c_void_p())


class Calls:
    """CUDA's functions, called in the context of the current device or of another one."""

    def __init__(self, api: Api, contexts: Contexts) -> None:
        self.cuda: Api | Refusal = api
        """CUDA's functions, or what stands in for them once they must not be called."""
        self.contexts = contexts

    def call(self, name: str, *arguments: Any, ordinal: int | None = None, detail: str = "") -> None:
        """Call CUDA in the context of the current device, or of ``ordinal``, and raise what it returns."""
        code = self.code(name, *arguments, ordinal=ordinal)
        if code:
            raise self.cuda.error(name, code, detail)

    def code(self, name: str, *arguments: Any, ordinal: int | None = None) -> int:
        """The same, returning the CUresult."""
        return self.run_in_context(getattr(self.cuda, name), *arguments, ordinal=ordinal)

    def run_in_context(self, function: Callable[..., int], *arguments: Any, ordinal: int | None = None) -> int:
        """Call a function of CUDA's in the context of the current device, or of ``ordinal``."""
        pop = self.cuda.cuCtxPopCurrent
        pushed = self.contexts.enter(ordinal)
        try:
            return function(*arguments)
        finally:
            if pushed:
                pop(_POPPED)

    def queue(self, name: str, *arguments: Any, stream: int) -> None:
        """Queue work on a stream: a call whose last argument is the stream.

        CUDA takes the context from a stream that is not one of the default streams, whatever is current (seen on
        driver 580, with nothing current and with another context). Older drivers may not, so a call that fails is made
        once more in the current device's context.
        """
        function = getattr(self.cuda, name)
        if stream > PER_THREAD_STREAM:
            code = function(*arguments, stream)
            if not code:
                return
            self.check_retry(name, code)
        code = self.run_in_context(function, *arguments, stream)
        if code:
            raise self.cuda.error(name, code)

    def check_retry(self, name: str, code: int) -> None:
        """Raise the error of a call where there is no current device to make it again in."""
        if self.contexts.ordinal is None:
            raise self.cuda.error(name, code)

    def attribute(self, ordinal: int, attribute: int) -> int:
        """A device's attribute by CUDA's number, for those that PyCUDA does not name."""
        self.contexts.check_ordinal(ordinal)
        value = ctypes.c_int()
        code = self.cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, ordinal)
        if code:
            raise self.cuda.error("cuDeviceGetAttribute", code)
        return value.value


class Made:
    """The things of one kind that a driver has made and not yet destroyed."""

    def __init__(self, calls: Calls, make: str, destroy: str, *, invalid: int) -> None:
        """Things that the function ``make`` of CUDA makes and ``destroy`` destroys.

        ``invalid`` is the CUresult for a handle that is none of this driver's.
        """
        self.live: dict[int, int] = {}
        """The ordinal of each thing's device, by its handle."""
        self._calls = calls
        self._make = make
        self._destroy = destroy
        self._invalid = invalid
        self._abandoned: deque[int] = deque()
        """Which of them were made by calls that were interrupted, so that nobody else knows them."""
        self._gone: dict[int, None] = {}
        """Which of them were destroyed by calls that were interrupted, so that whoever has them does not know."""

    def make(self, *arguments: Any, at: int | None = None, device: int | None = None, detail: Detail = "") -> int:
        """Make a thing on the current device or ``device``: a call whose first argument is where its handle goes.

        With ``at``, a thing that lies where its maker says, at the address that is its handle: the first argument.
        """
        calls, live = self._calls, self.live
        ordinal = calls.contexts.here() if device is None else device
        if self._abandoned:
            self._destroy_abandoned()
        function = getattr(calls.cuda, self._make)
        while True:
            handle = ctypes.c_void_p(at)
            first = handle if at else ctypes.byref(handle)
            try:
                code = calls.run_in_context(function, first, *arguments, ordinal=device)
                if code:
                    break
                made = handle.value or 0
                if made not in self._gone:
                    live[made] = ordinal
                    return made
                del self._gone[made]
            except BaseException:
                if handle.value in self._gone:
                    del self._gone[handle.value]
                elif handle.value:
                    live[handle.value] = ordinal
                    self._abandoned.append(handle.value)
                raise
        raise calls.cuda.error(self._make, code, detail if isinstance(detail, str) else detail())

    def destroy(self, handle: int, *, device: int | None = None) -> None:
        """Destroy a thing, whichever device is current; without ``device``, one must be.

        Does nothing once the device is lost: the thing is gone already, and the first error must stay the one seen.

        Raises:
            DriverError: ``invalid``: this driver has not made it, or has destroyed it. CUDA is not asked: it crashes
                on the handle of a destroyed stream.
        """
        calls, live = self._calls, self.live
        if device is None:
            calls.contexts.here()
        function = getattr(calls.cuda, self._destroy)
        taken: list[int | None] = []
        codes: list[int] = []
        try:
            # Before the call: CUDA may give the same handle to another thread as soon as it is free.
            taken.extend(map(live.pop, (handle,), (None,)))
            ordinal = taken[0]
            if ordinal is not None:
                if handle in self._gone:
                    del self._gone[handle]
                    return
                codes.extend(map(function, (handle,)))
                # CUDA finds a thing's context by itself (seen on driver 580); where it fails, it is told.
                if codes[0] and codes[0] not in LOST:
                    codes[0] = calls.code(self._destroy, handle, ordinal=ordinal)
        except BaseException:
            if taken and taken[0] is not None:
                if codes and (not codes[0] or codes[0] in LOST):
                    self._gone[handle] = None
                live[handle] = taken[0]
            raise
        if ordinal is None:
            calls.contexts.check()
            name = self._destroy
            raise driver_error(
                self._invalid, f"{name} of {handle:#x}: this driver did not make it, or destroyed it before"
            )
        if codes[0] and codes[0] not in LOST:
            live[handle] = ordinal
            raise calls.cuda.error(self._destroy, codes[0])

    def forget(self, handle: int) -> None:
        """Destroy a thing that an interrupted call may have made. Errors are ignored: it may not have."""
        with suppress(DriverError, OutOfMemoryError):
            if handle in self.live:
                self.destroy(handle, device=self.live[handle])
        self.live.pop(handle, None)
        with suppress(ValueError):
            self._abandoned.remove(handle)

    def destroy_all(self) -> None:
        """Destroy what is left. Errors are ignored."""
        self._abandoned.clear()
        for handle, ordinal in list(self.live.items()):
            with suppress(DriverError, OutOfMemoryError):
                self.destroy(handle, device=ordinal)

    def _destroy_abandoned(self) -> None:
        while self._abandoned:
            handle = self._abandoned[0]
            ordinal = self.live.get(handle)
            if ordinal is not None:
                with suppress(DriverError, OutOfMemoryError):
                    self.destroy(handle, device=ordinal)
            self._abandoned.popleft()
