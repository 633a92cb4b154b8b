"""``caching``, ``expandable`` and ``planned`` in C++: the same options, addresses, calls upstream, events and
figures as in Python.

``caching.py``, ``expandable.py`` and ``planned.py`` say what they do. Here is what happens seldom: options, observers,
figures.
"""

from __future__ import annotations

import inspect
import os
import weakref
from collections import deque
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Literal

from .._native import NativeAllocator, record
from ..base import Allocator
from ..block import Block, BlockInfo, Segment, why_not_free
from ..caching import CachingAllocator, limit_of
from ..errors import OutOfMemoryError
from ..events import Observer
from ..expandable import ExpandableAllocator, virtual_memory_of
from ..libraries import OWN
from ..lock import Lock
from ..moving import Copier, Side, cannot_move, check_move, why_not_moved
from ..observation import warn
from ..out_of_memory import shortage_message
from ..planned import PlannedAllocator, device_of, repetitions_of
from ..planning import Plan
from ..served import Served
from ..sleeping import Keep, Sleeping, cannot_wake, check_sleep, why_asleep, why_shared
from ..statistics import Statistics
from ..tags import tag_name
from ..upstream import Upstream
from .delivery import Delivery

_STATES: tuple[Literal["active_allocated", "active_pending_free", "inactive"], ...] = (
    "active_allocated",
    "active_pending_free",
    "inactive",
)
"""By the numbers of the C header."""
_EXPANDABLE, _ASLEEP, _ON_HOST, _TAG_SHIFT = 1, 2, 4, 8


class NativeStrategy(NativeAllocator):
    """An allocator of the native core. It is an ``Allocator`` for ``isinstance``, and behaves as one."""

    frees_at_once = False
    can_sleep = False
    can_move = False
    counts_splits = True

    def __init__(self, strategy: str, upstream: Upstream, memory_limit: int | None, options: dict[str, Any]) -> None:
        """``options`` are the strategy's own; None means not given."""
        self._observation = Delivery(_mover(self))
        self._recorder: Observer | None = None
        """One whose events the core writes into a trace file by itself: it is not called."""
        self._changing = Lock()
        self._process = os.getpid()
        given = {"memory_limit": memory_limit, **options}
        self._open(strategy, {name: str(value) for name, value in given.items() if value is not None}, upstream)
        self.memory_limit = memory_limit

    def statistics(self) -> Statistics:
        """See ``Allocator.statistics``."""
        return Statistics.of_figures(*self._read_statistics())

    def segments(self) -> list[Segment]:
        """See ``Allocator.segments``."""
        return [
            Segment(
                address,
                nbytes,
                stream,
                "small" if is_small else "large",
                tuple(BlockInfo(at, size, requested, _STATES[state]) for at, size, requested, state in pieces),
                expandable=bool(flags & _EXPANDABLE),
                tag=tag_name(flags >> _TAG_SHIFT),
                asleep=bool(flags & _ASLEEP),
                host=bool(flags & _ON_HOST),
            )
            for address, nbytes, stream, is_small, flags, pieces in self._read_segments()
        ]

    def sleep(self, tag: str, *, keep: Keep | None = None) -> int:
        """See ``Allocator.sleep``."""
        number = check_sleep(type(self).__name__, tag, can_sleep=self.can_sleep)
        return 0 if number is None else self._sleep(number, keep)

    def wake(self, tag: str) -> int:
        """See ``Allocator.wake``."""
        number = check_sleep(type(self).__name__, tag, can_sleep=self.can_sleep)
        try:
            return 0 if number is None else self._wake(number)
        except OutOfMemoryError as error:
            raise cannot_wake(tag, error) from None

    def move(self, tag: str, to: Side, *, copier: Copier) -> int:
        """See ``Allocator.move``."""
        number = check_move(type(self).__name__, tag, to, can_move=self.can_move)
        if number is None:
            return 0
        try:
            moved = self._move(number, to == "host", copier)
        except OutOfMemoryError as error:
            raise cannot_move(tag, to, 0, error) from None
        if moved < 0:
            raise cannot_move(tag, to, -moved)
        return moved

    def asleep(self) -> list[Sleeping]:
        """See ``Allocator.asleep``."""
        return [Sleeping(tag_name(tag), *figures) for tag, *figures in self._read_sleeping()]

    def attach(self, observer: Observer, *, context: Callable[[], int] | None = None) -> None:
        """See ``Allocator.attach``."""
        self._check_entry()
        self._changing.run(self._attach, observer, context)

    def detach(self, observer: Observer) -> None:
        """See ``Allocator.detach``."""
        if self._observation.is_observing:
            self._changing.run(self._detach, observer)
            return
        self._check_entry()
        self._changing.run(self._detach, observer)
        self._observation.finish()

    def abandon(self, why: str) -> None:
        """See ``Allocator.abandon``."""
        self._abandon(why)
        if os.getpid() != self._process:  # of the parent's threads none is here to let go of these
            self._changing = Lock()
            self._observation.drop()
            self._recorder = None
            self._tell()

    def _attach(self, observer: Observer, context: Callable[[], int] | None) -> None:
        if self._recorder is None and hasattr(observer, "native_log"):
            self._observation.add_source(context)
            self._recorder = observer
        else:
            self._observation.attach(observer, context)
        self._tell()

    def _detach(self, observer: Observer) -> None:
        observation = self._observation
        observation.observers = tuple(other for other in observation.observers if other is not observer)
        if self._recorder is observer:
            self._recorder = None
        if not observation.observers and self._recorder is None:
            observation.source = None
        self._tell()

    def _tell(self) -> None:
        """Let the core know who is to hear of events."""
        observation = self._observation
        log, device = getattr(self._recorder, "native_log", (None, 0))
        record(self, log, device)
        self._observe(bool(observation.observers), observation, observation.source)

    # --- called by the extension module

    def _allocate_called_otherwise(self, nbytes: int, *, stream: int, library: int = OWN) -> Block:
        return self._allocate_for(nbytes, stream, library)

    _allocate_called_otherwise.__qualname__ = "Allocator.allocate"  # stands in the message of a TypeError

    def _log_was_cut_off(self) -> None:
        recorder, self._recorder = self._recorder, None
        self._tell()
        if recorder is not None:
            warn("the disk is full, or the trace cannot grow: what comes from here on is missing in it")

    def _out_of_memory_message(self, requested: int, stream: int, free: int, total: int, *figures: int) -> str:
        return shortage_message(requested, stream, free, total, self.memory_limit, *figures)

    _why_asleep, _why_not_moved, _why_shared = map(staticmethod, (why_asleep, why_not_moved, why_shared))

    def _why_not_free(self, block: Block) -> str:
        return why_not_free(block, self)


class NativeCaching(NativeStrategy):
    __doc__ = CachingAllocator.__doc__

    def __init__(self, upstream: Upstream, **options: Any) -> None:
        given = complete(CachingAllocator, options)
        limit = limit_of(upstream, given.pop("memory_limit"), given.pop("memory_fraction"))
        super().__init__("caching", upstream, limit, given)
        self.garbage_collection_threshold: float = given["garbage_collection_threshold"]
        self.max_split_size: int | None = given["max_split_size"]


class NativeExpandable(NativeStrategy):
    __doc__ = ExpandableAllocator.__doc__
    can_sleep = True

    def __init__(self, upstream: Upstream, **options: Any) -> None:
        given = complete(ExpandableAllocator, options)
        _check_expandable(upstream, given)
        super().__init__("expandable", upstream, given.pop("memory_limit"), given)
        self.can_move = given["host"] > 0


class NativePlanned(NativeStrategy):
    __doc__ = PlannedAllocator.__doc__
    can_sleep = True

    def __init__(self, upstream: Upstream, **options: Any) -> None:
        given = complete(PlannedAllocator, options)
        _check_expandable(upstream, given)
        given["learn"] = repetitions_of(given["plan"], given["learn"])
        if given["plan"] is not None:
            Plan.read(given["plan"])  # its errors say more
        given |= {"device": device_of(upstream), "at_once": int(getattr(upstream, "plans_at_once", False))}
        super().__init__("planned", upstream, given.pop("memory_limit"), given)
        self.can_move = given["host"] > 0

    def served(self) -> Served:
        """See ``PlannedAllocator.served``."""
        return Served(*self._read_served())

    def finish_planning(self) -> None:
        """See ``PlannedAllocator.finish_planning``."""
        self._finish_planning()


def _check_expandable(upstream: Upstream, given: dict[str, Any]) -> None:
    """Raise where there is no virtual memory; a wrong option is said first."""
    native = getattr(upstream, "native_ordinal", None) is not None or hasattr(upstream, "native_null")
    if min(given["slack"], given["aliases"], given["host"]) >= 0 and not native:
        virtual_memory_of(upstream, host=given["host"] > 0)


def _mover(allocator: NativeStrategy) -> Callable[[deque[Any]], int]:
    """``_move_events`` of an allocator that is not kept: it and the core's memory go with its last reference."""
    whose = weakref.ref(allocator)

    def move(queue: deque[Any]) -> int:
        found = whose()
        return 0 if found is None else found._move_events(queue)

    return move


def complete(specification: type[Allocator], options: dict[str, Any]) -> dict[str, Any]:
    """Each option's value: the defaults are those of the specification."""
    bound = inspect.signature(specification).bind(None, **options)
    bound.apply_defaults()
    return {name: bound.arguments[name] for name in list(bound.arguments)[1:]}


Allocator.register(NativeStrategy)
# So that they have the options of the specification for whoever looks (plugins/selection.py, help).
update_wrapper(NativeCaching.__init__, CachingAllocator.__init__)
update_wrapper(NativeExpandable.__init__, ExpandableAllocator.__init__)
update_wrapper(NativePlanned.__init__, PlannedAllocator.__init__)
