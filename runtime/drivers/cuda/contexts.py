"""The primary contexts that a driver retains, and which of them is current on which thread.

A device's *primary* context is the one that PyTorch, CuPy, Numba and RMM use too, so memory, streams and events can be
shared with them. Which context is current in CUDA is a property of the thread that every library changes as it likes.
So the current device of *this* driver is kept apart, per thread, and CUDA's is compared with it before each call that
depends on it; if another library has changed it, ours is pushed for the call, and theirs is back afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any

from ..base import driver_error
from .api import Api, Refusal, code_of

_POPPED = ctypes.byref(ctypes.c_void_p())
"""Where CUDA writes which context it has taken off the stack; nobody reads it."""


class _State:
    """What one thread has set. Contexts are CUDA's handles; 0 is none."""

    __slots__ = ("context", "current", "ordinal", "reference", "theirs")

    def __init__(self) -> None:
        self.ordinal: int | None = None
        self.context = 0
        self.theirs = 0  # what another library had made current
        self.current = ctypes.c_void_p()  # where CUDA writes what is current
        self.reference = ctypes.byref(self.current)


class _Thread(threading.local):
    """A single attribute: one of a ``threading.local`` costs as much as four of anything else.

    It is made where it is first asked for. A finaliser that runs on the thread meanwhile would not find one that
    ``__init__`` makes.
    """

    state: _State

    def __getattr__(self, name: str) -> _State:
        if name != "state":
            raise AttributeError(name)
        made: _State = self.__dict__.setdefault("state", _State())
        return made


class _NoThread:
    """Stands in for ``_Thread`` where CUDA must not be called any more."""

    def __init__(self, refusal: Refusal) -> None:
        self._refusal = refusal

    @property
    def state(self) -> _State:
        raise self._refusal.error("this call", 0)


class Contexts:
    """The retained primary contexts, by device ordinal."""

    def __init__(self, api: Api, pycuda: Any, count: int) -> None:
        self._cuda: Api | Refusal = api
        self.api = api
        self._pycuda = pycuda
        self._count = count
        self._thread: _Thread | _NoThread = _Thread()
        self._lock = threading.RLock()
        self._retained: dict[int, Any] = {}
        self._handles: dict[int, int] = {}

    def check(self) -> None:
        """Raise where CUDA must not be called any more: ``CUDA_ERROR_NOT_INITIALIZED`` or ``…_DEINITIALIZED``."""
        if isinstance(self._cuda, Refusal):
            raise self._cuda.error("this call", 0)

    def check_ordinal(self, ordinal: int) -> None:
        """Raise ``CUDA_ERROR_INVALID_DEVICE`` unless ``ordinal`` is that of a visible device."""
        self.check()
        if not 0 <= ordinal < self._count:
            raise driver_error(101, f"device {ordinal} of {self._count} visible ones, which are numbered from 0")

    @property
    def local(self) -> _Thread | _NoThread:
        """Each thread's state, for callers that cannot afford ``ordinal``: valid until CUDA must not be called."""
        return self._thread

    @property
    def ordinal(self) -> int | None:
        """This thread's current device."""
        return self._thread.state.ordinal

    def here(self) -> int:
        """This thread's current device. Raises ``CUDA_ERROR_INVALID_CONTEXT`` if it has none."""
        ordinal = self._thread.state.ordinal
        if ordinal is None:
            raise driver_error(201, "no device is current on this thread; call set_device first")
        return ordinal

    def set(self, ordinal: int | None) -> None:
        """Make a device current on this thread, or what another library had made current before.

        If that was nothing, device 0 is what CUDA's runtime API takes, and what libraries expect that came later and
        have known no other state; so None makes device 0 current, if it is in use, and else nothing.
        """
        state = self._thread.state
        if ordinal is None:
            if state.context and self._current(state) == state.context:
                self._bring_back(state.theirs or self._handles.get(0, 0))
            state.ordinal, state.context, state.theirs = None, 0, 0
            return
        context = self._handles.get(ordinal) or self.retain(ordinal)
        current = self._current(state)
        if current != state.context:
            state.theirs = current
        if current != context:
            code = self._cuda.cuCtxSetCurrent(context)
            if code:
                raise self._cuda.error("cuCtxSetCurrent", code)
        state.ordinal, state.context = ordinal, context

    def enter(self, ordinal: int | None = None) -> bool:
        """Make sure that the current device's context, or that of ``ordinal``, is current in CUDA.

        Returns:
            Whether another one was: ``leave`` must bring it back.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_CONTEXT``: this thread has no current device.
        """
        state = self._thread.state
        context = state.context if ordinal is None else self._handles.get(ordinal) or self.retain(ordinal)
        if not context:
            self.here()
        self._cuda.cuCtxGetCurrent(state.reference)
        if state.current.value == context:
            return False
        codes: list[int] = []
        try:
            codes.extend(map(self._cuda.cuCtxPushCurrent, (context,)))  # what CUDA returns is in the list at once
            if codes == [0]:
                return True
        except BaseException:
            if codes == [0]:
                self._cuda.cuCtxPopCurrent(_POPPED)
            raise
        raise self._cuda.error("cuCtxPushCurrent", codes[0])

    def leave(self) -> None:
        """Undo an ``enter`` that returned True."""
        self._cuda.cuCtxPopCurrent(_POPPED)

    def retain(self, ordinal: int) -> int:
        """The handle of a device's primary context, retained at its first use.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_DEVICE``, or what CUDA says.
        """
        self.check_ordinal(ordinal)
        with self._lock:
            handle = self._handles.get(ordinal)
            if handle is None:
                try:
                    context = self._pycuda.Device(ordinal).retain_primary_context()
                except self._pycuda.Error as error:
                    code = code_of(self.api, error)
                    raise self.api.error("cuDevicePrimaryCtxRetain", code, f"device {ordinal}") from None
                handle = int(context.handle)
                self._retained[ordinal], self._handles[ordinal] = context, handle
            return handle

    @contextlib.contextmanager
    def on_pycuda_stack(self, ordinal: int) -> Iterator[Any]:
        """Put a device's context on PyCUDA's stack of this thread, for as long as the ``with`` block lasts."""
        self.retain(ordinal)
        context = self._retained[ordinal]
        context.push()
        try:
            yield context
        finally:
            self._pycuda.Context.pop()

    def refuse(self, refusal: Refusal) -> None:
        """Call CUDA no more, and never destroy PyCUDA's contexts: their destructors would call it."""
        self._cuda = refusal
        self._thread = _NoThread(refusal)
        for context in self._retained.values():
            _leak(context)
        self._retained, self._handles = {}, {}

    def release(self, refusal: Refusal) -> None:
        """Release every context and call CUDA no more. Never raises."""
        with self._lock:
            with contextlib.suppress(Exception):
                self.set(None)
            for ordinal, context in self._retained.items():
                self._release(ordinal, context)
            self._retained = {}
            self.refuse(refusal)

    def _release(self, ordinal: int, context: Any) -> None:
        """Drop one reference to a primary context. It lives on if another library uses it.

        PyCUDA's ``detach`` releases only a context that is current or was retained by the same thread, and then leaves
        it on CUDA's stack (seen). So it is made current first, and taken off CUDA's stack afterwards.
        """
        state, handle = self._thread.state, self._handles[ordinal]
        before = self._current(state)
        try:
            context.push()
            context.detach()
        except Exception:
            _leak(context)
        if self._current(state) == handle:
            self.leave()
        if before == handle and not self._is_active(ordinal):
            before = 0
        if self._current(state) != before:
            self._bring_back(before)

    def _is_active(self, ordinal: int) -> bool:
        flags, active = ctypes.c_uint(), ctypes.c_int()
        code = self._cuda.cuDevicePrimaryCtxGetState(ordinal, ctypes.byref(flags), ctypes.byref(active))
        return not code and bool(active.value)

    def _current(self, state: _State) -> int:
        self._cuda.cuCtxGetCurrent(state.reference)
        return state.current.value or 0

    def _bring_back(self, context: int) -> None:
        if self._cuda.cuCtxSetCurrent(context or None):  # it was destroyed meanwhile
            self._cuda.cuCtxSetCurrent(None)


def _leak(thing: object) -> None:
    """Keep an object of PyCUDA from ever being destroyed, also when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
