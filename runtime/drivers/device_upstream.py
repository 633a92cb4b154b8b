"""A driver's memory as the upstream of an allocator."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from itertools import starmap
from threading import get_ident

from ...allocators.errors import CuplugError
from ...allocators.upstream import Fence, VirtualMemory, in_one_step
from .base import Driver, driver_error


class on_device:  # noqa: N801 - used as a function
    """Make ``ordinal`` the calling thread's current device, and what was current before afterwards.

    Finalisers run on any thread, with another device current or none: every call that needs a device goes through here.
    Where the device is current already, it costs one question to the driver. Each object is entered once.
    """

    __slots__ = ("_before", "_changed_in", "_driver", "_ordinal")

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self._driver = driver
        self._ordinal = ordinal
        self._changed_in = 0
        """The thread in which the device has to be brought back; 0 for none."""

    def __enter__(self) -> None:
        before = self._before = self._driver.current_device()
        if before != self._ordinal:
            self._changed_in = get_ident()
            self._driver.set_device(self._ordinal)

    def __exit__(self, *_exception: object) -> None:
        if self._changed_in:
            self._driver.set_device(self._before)
            self._changed_in = 0

    def __del__(self) -> None:
        # An interrupt kept ``__exit__`` from running, or from its end.
        if getattr(self, "_changed_in", 0) == get_ident():  # not there where ``__init__`` was interrupted
            with suppress(CuplugError):
                if self._driver.current_device() == self._ordinal:
                    self._driver.set_device(self._before)


class DeviceUpstream:
    """One device's memory."""

    granularity = 512

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self._events = EventCalls(driver, ordinal)
        self._alloc = partial(driver.mem_alloc, device=ordinal)
        self._free = partial(driver.mem_free, device=ordinal)
        self._virtual: VirtualMemory | None = None
        self._asked_virtual = False

    @property
    def native_ordinal(self) -> int | None:
        """The device's ordinal for the CUDA driver's own library, where that is the driver: the native allocators then
        call it themselves. None elsewhere: they call the methods here."""
        return self.ordinal if self.driver.name == "cuda" else None

    def native_error(self, code: int) -> CuplugError:
        """The error for a result (``CUresult``) of a call that a native allocator has made itself."""
        return driver_error(code, f"a call of the allocator of device {self.ordinal} failed")

    @property
    def virtual(self) -> VirtualMemory | None:
        if not self._asked_virtual:
            self._virtual = self.driver.virtual_memory(self.ordinal)
            self._asked_virtual = True
        return self._virtual

    def reserve(self, nbytes: int) -> int:
        # As ``in_one_step``, in one line and without next(), behind whose call a signal would lose the address.
        return [*map(self._alloc, (nbytes,))][0]  # noqa: RUF015

    def release(self, address: int) -> None:
        (_,) = map(self._free, (address,))  # in one step, too

    def memory_info(self) -> tuple[int, int]:
        return self.driver.mem_info(device=self.ordinal)

    def fence(self, stream: int) -> Fence:
        return EventFence(self.driver, self.ordinal, stream, self._events)


class EventCalls:
    """The calls that make and destroy a device's events, for ``map`` and ``starmap``: what ``in_one_step`` prepares for
    each call is prepared once, since fences are made often."""

    __slots__ = ("create", "destroy")

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.create = partial(driver.event_create, device=ordinal)
        self.destroy = partial(driver.event_destroy, device=ordinal)


class EventFence:
    """A fence made of an event. The event is destroyed once it is seen to have passed, or with the fence."""

    __slots__ = ("_driver", "_event", "_events", "_ordinal")

    def __init__(self, driver: Driver, ordinal: int, stream: int, events: EventCalls | None = None) -> None:
        self._driver = driver
        self._ordinal = ordinal
        self._event: int | None = None
        self._events = events or EventCalls(driver, ordinal)
        (self._event,) = starmap(self._events.create, ((),))
        driver.event_record(self._event, stream=stream, device=ordinal)  # if this raises, the event goes with the fence

    def done(self) -> bool:
        if self._event is None:
            return True
        if self._driver.event_query(self._event, device=self._ordinal):
            self._retire()
        return self._event is None

    def wait(self) -> None:
        if self._event is not None:
            self._driver.event_synchronize(self._event, device=self._ordinal)
            self._retire()

    def __del__(self) -> None:
        # Without the attribute, making the fence was interrupted at its beginning.
        if getattr(self, "_event", None) is not None and not sys.is_finalizing():
            # After a fork, or once the driver is closed or the device lost, the event has gone by itself.
            with suppress(CuplugError):
                try:
                    self._retire()
                except CuplugError:
                    raise
                except BaseException:  # interrupted, and nobody will try again
                    self._retire()
                    raise

    def _retire(self) -> None:
        if self._event is not None:
            try:
                (self._event,) = map(self._events.destroy, (self._event,))
            except CuplugError:  # it has gone by itself, or is left to the driver
                self._event = None
                raise


class PinnedUpstream:
    """Page-locked host memory. ``stream`` handles in ``fence`` are of the device ``ordinal``."""

    granularity = 4096
    virtual: VirtualMemory | None = None

    def __init__(self, driver: Driver, ordinal: int, *, private: bool = False) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.private = private
        """As ``Driver.host_alloc`` has it."""

    def reserve(self, nbytes: int) -> int:
        return [*in_one_step(self.driver.host_alloc, nbytes, device=self.ordinal, private=self.private)][0]  # noqa: RUF015

    def release(self, address: int) -> None:
        (_,) = in_one_step(self.driver.host_free, address, device=self.ordinal)

    def memory_info(self) -> tuple[int, int]:
        """Not limited by the driver: reports what cannot run out first."""
        return 1 << 62, 1 << 62

    def fence(self, stream: int) -> Fence:
        return EventFence(self.driver, self.ordinal, stream)
