"""What is current in one thread: a device, and a stream on each device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ..drivers.base import LEGACY_STREAM, PER_THREAD_STREAM, Driver
from .owner import set_shortcut
from .runtime_upstream import per_thread_key
from .uncopyable import refuse_copies


class Current:
    """One thread's current device and streams, for one runtime. Only that thread touches it.

    A thread starts with one device, and with the default stream on every device. No context is made before something
    needs one.
    """

    __reduce_ex__ = refuse_copies("it belongs to its thread")
    __slots__ = (
        "__weakref__",
        "_driver",
        "_is_usable",
        "allocator",
        "blocks",
        "device",
        "number",
        "stream",
        "streams",
    )

    def __init__(self, driver: Driver, *, is_usable: Callable[[], bool], number: int, device: int) -> None:
        """What is current in the calling thread from now on.

        Args:
            driver: of the runtime.
            is_usable: whether the runtime may still be used.
            number: of this thread, in the order in which they came; never used for another.
            device: the ordinal of the device that the thread starts with.
        """
        self._driver = driver
        self._is_usable = is_usable
        self.number = number
        self.blocks: list[object] = []
        """Marks of the ``with`` blocks that the thread is in, those that an interrupt has ended too (``Entered``)."""
        self.streams: dict[int, Any] = {}
        """The ``Stream`` chosen for a device. Missing: the default stream."""
        self.device: int
        """The current device's ordinal."""
        self.stream: int
        """The current stream of the current device, as allocators know it."""
        self.allocator: Allocator | None
        """The current device's, once the driver has had a current device in this thread since it was chosen."""
        self._choose(device)

    def set_device(self, ordinal: int) -> None:
        """Make ``ordinal`` current here and in the driver: both, or an exception leaves both as they were."""
        before = self.state()
        try:
            self._driver.set_device(ordinal)
            self._choose(ordinal)
        except BaseException:
            self.restore(before)
            raise

    def set_stream(self, ordinal: int, stream: Any) -> None:
        """Make ``stream`` the current one of its device, and its device current."""
        before = self.streams.get(ordinal)
        try:
            self.streams[ordinal] = stream
            if ordinal != self.device:
                self.set_device(ordinal)
            else:
                self._choose(ordinal)
        except BaseException:
            self.put_stream(ordinal, before)
            if ordinal == self.device:
                self._choose(ordinal)
            raise

    def put_stream(self, ordinal: int, stream: Any) -> None:
        """Note ``stream`` as the chosen one of a device; None for the default stream."""
        if stream is None:
            self.streams.pop(ordinal, None)
        else:
            self.streams[ordinal] = stream

    def state(self) -> tuple[int, int | None]:
        """What ``restore`` needs to bring the present device back, in the driver too."""
        return self.device, self._driver.current_device()

    def restore(self, state: tuple[int, int | None]) -> None:
        """Bring back the device of ``state``; where the driver had none, that too, so that no context is made."""
        ordinal, in_driver = state
        if not self._is_usable():
            return  # it was shut down meanwhile: there is nothing to bring back
        if self._driver.current_device() != in_driver:
            self._driver.set_device(in_driver)
        self._choose(ordinal)

    def key(self, handle: int) -> int:
        """What allocators know the stream ``handle`` as."""
        return handle if handle != PER_THREAD_STREAM else per_thread_key(self.number)

    def have_context(self) -> None:
        """Have a context current: what comes next is likely a call of another library (PyCUDA) with new memory."""
        if self._driver.current_device() is None:
            self._driver.set_device(self.device)

    def _choose(self, ordinal: int) -> None:
        stream = self.streams.get(ordinal)
        key = LEGACY_STREAM if stream is None else self.key(stream.cuda_stream)
        set_shortcut(None, 0)
        self.device, self.stream, self.allocator = ordinal, key, None  # no interrupt comes between the assignments
        set_shortcut(None, 0)  # again: a signal handler may have allocated in between


class _Left:
    """What ``Entered`` is once all is brought back: without a finaliser. Python loses a Ctrl-C that comes in one."""

    __slots__ = ("_current", "_mark", "_state", "_streams", "_thread")


class Entered(_Left):
    """What was current in a thread when a ``with`` block began that changes it.

    An interrupt may keep the block's end from bringing it back. Then the end of a block around it does, or else this
    object when it is dropped, which is when the interrupt's traceback is; not for a ``with`` of a stream itself, whose
    thread keeps this object.
    """

    __slots__ = ()

    def __init__(self, current: Current, ordinal: int, *, streams: bool = False) -> None:
        """The device ``ordinal`` is about to become current; with ``streams``, a stream of it too."""
        self._mark = object()
        self._current = current
        self._thread = get_ident()
        changed = (current.device, ordinal) if streams else ()
        self._streams = {each: current.streams.get(each) for each in changed}
        self._state = current.state()
        current.blocks.append(self._mark)

    def restore(self) -> None:
        """Bring it back. Again, and after the end of a block around this one, it does nothing."""
        blocks = self._current.blocks
        if self._mark in blocks:
            for ordinal, chosen in self._streams.items():
                self._current.put_stream(ordinal, chosen)
            self._current.restore(self._state)
            del blocks[blocks.index(self._mark) :]
        self.__class__ = _Left  # type: ignore[assignment]

    def __del__(self) -> None:
        with suppress(CuplugError, AttributeError):  # AttributeError: it was never made
            if self._thread == get_ident():
                self.restore()
