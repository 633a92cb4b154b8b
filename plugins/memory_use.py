"""How much device memory a stretch of a program takes, and who asked for it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..allocators.events import EventKind, Observer
from .specs import hookimpl
from .tracing.stacks import CallStacks
from .tracing.trace_in_memory import Frame

__all__ = ["CallSite", "MemoryUse"]


@dataclass(frozen=True)
class CallSite:
    """A call stack, innermost frame first, and what the blocks hold that were asked for there. Sizes are bytes."""

    stack: tuple[Frame, ...]
    blocks: int
    nbytes: int


class MemoryUse:
    """A plugin that measures what the default runtimes' allocators hand out between ``begin`` and ``end``.

    Register it (``default_manager().register(use, "memory use")``) before the runtime starts. Whatever allocates from
    cuplug counts, other libraries on its memory included. What was allocated before ``begin`` does not.
    """

    def __init__(self) -> None:
        """Measure nothing yet."""
        self._stacks = CallStacks()
        self._lock = threading.RLock()
        self._runtimes: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()
        self._events: list[_Event] | None = None
        self._kept: list[_Event] = []

    @hookimpl
    def cuplug_observers(self, runtime: Any) -> list[Callable[[int], Observer]]:
        """Observe every device of every runtime that asks for its plugins' observers."""
        ordinals = self._runtimes.setdefault(runtime, set())

        def make(ordinal: int) -> Observer:
            ordinals.add(ordinal)
            return _Watch(self, ordinal)

        return [make]

    def observes(self, runtime: Any) -> bool:
        """Whether what is allocated from a runtime is measured: it was started after this was registered."""
        return runtime in self._runtimes

    def begin(self) -> None:
        """Forget what was measured, and measure from now on."""
        self._deliver()
        with self._lock:
            self._events = []

    def end(self) -> None:
        """Stop measuring: what is freed later does not count as freed."""
        self._deliver()
        with self._lock:
            self._events, self._kept = None, list(self._events or ())

    def peak(self) -> dict[int, int]:
        """By device, the most bytes that were in the program's hands at once, as its allocator rounded them."""
        return {device: most for device, (most, _) in self._peaks().items()}

    def sites_at_peak(self, device: int) -> list[CallSite]:
        """Who had asked for what was held on a device at its peak; the largest first."""
        _, at = self._peaks().get(device, (0, -1))
        return self._sites(self._live(self._taken()[: at + 1], device))

    def leaks(self) -> list[CallSite]:
        """Who asked for what was not freed; the largest first."""
        return self._sites(self._live(self._taken()))

    def take(self, watch: _Watch, kind: EventKind, address: int, nbytes: int, context: int) -> None:
        """Note an event of an allocator, if anything is measured."""
        with self._lock:
            if self._events is not None and kind in (EventKind.ALLOCATE, EventKind.FREE):
                self._events.append((kind == EventKind.ALLOCATE, watch, address, nbytes, context))

    def context(self) -> int:
        """The number of the program's call stack, if anything is measured."""
        return 0 if self._events is None else int(self._stacks.context())

    def _taken(self) -> list[_Event]:
        self._deliver()
        with self._lock:
            return list(self._kept if self._events is None else self._events)

    def _peaks(self) -> dict[int, tuple[int, int]]:
        """By device: the most bytes, and the place of the event that they were reached with."""
        live: dict[tuple[object, int], int] = {}
        held: dict[int, int] = {}
        peaks: dict[int, tuple[int, int]] = {}
        for place, (allocated, watch, address, nbytes, _) in enumerate(self._taken()):
            device = watch.device
            change = nbytes if allocated else -live.pop((watch, address), 0)
            if allocated:
                live[watch, address] = nbytes
            held[device] = held.get(device, 0) + change
            if held[device] > peaks.get(device, (0, -1))[0]:
                peaks[device] = held[device], place
        return peaks

    def _live(self, events: Iterable[_Event], device: int | None = None) -> list[tuple[int, int]]:
        """Size and context of what is not freed after these events."""
        live: dict[tuple[object, int], tuple[int, int]] = {}
        for allocated, watch, address, nbytes, context in events:
            if device is not None and watch.device != device:
                continue
            if allocated:
                live[watch, address] = nbytes, context
            else:
                live.pop((watch, address), None)
        return list(live.values())

    def _sites(self, blocks: Iterable[tuple[int, int]]) -> list[CallSite]:
        found: dict[int, tuple[int, int]] = {}
        for nbytes, context in blocks:
            count, total = found.get(context, (0, 0))
            found[context] = count + 1, total + nbytes
        sites = [
            CallSite(tuple(Frame(*level) for level in self._stacks.levels(context)), count, total)
            for context, (count, total) in found.items()
        ]
        return sorted(sites, key=lambda site: -site.nbytes)

    def _deliver(self) -> None:
        """Have allocators tell what they have not told yet: those of the native core do it in batches."""
        for runtime, ordinals in list(self._runtimes.items()):
            if runtime.usable:
                for ordinal in list(ordinals):
                    allocator = runtime.device(ordinal).allocator
                    if allocator is not None:
                        allocator.detach(_nobody)


class _Watch:
    """The observer of one allocator."""

    def __init__(self, use: MemoryUse, device: int) -> None:
        self.use = use
        self.device = device
        self.context = use.context

    def __call__(
        self, kind: EventKind, _time_ns: int, _thread: int, _stream: int,
        address: int, nbytes: int, _requested: int, context: int, /,
    ) -> None:  # fmt: skip
        self.use.take(self, kind, address, nbytes, context)


_Event: TypeAlias = "tuple[bool, _Watch, int, int, int]"
"""Whether it is an allocation, of whom, at which address, of how many bytes, asked for in which context."""


def _nobody(*_event: Any) -> None:
    """An observer that is attached nowhere."""
