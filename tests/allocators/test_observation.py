"""Observers: every event once, in order, outside the lock, and no harm from what they do."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.upstreams.null import NullUpstream

MIB = 1 << 20


class Recorder:
    """Keeps every event, and checks their order against what it takes to be live."""

    def __init__(self) -> None:
        self.events: list[tuple[int, ...]] = []
        self.live: dict[int, int] = {}
        self.freed = 0
        self.problems: list[str] = []

    def __call__(self, kind, time_ns, thread, stream, address, nbytes, requested, context, /) -> None:
        if self.events and time_ns < self.events[-1][1]:
            self.problems.append(f"{kind!r} goes back in time")
        self.events.append((kind, time_ns, thread, stream, address, nbytes, requested, context))
        if kind == EventKind.ALLOCATE:
            if address in self.live:
                self.problems.append(f"{address:#x} is allocated while live")
            self.live[address] = nbytes
        elif kind == EventKind.FREE:
            self.freed += 1
            if self.live.pop(address, None) != nbytes:
                self.problems.append(f"{address:#x} is freed while not live")

    def kinds(self) -> list[EventKind]:
        return [EventKind(event[0]) for event in self.events]


def test_the_events_of_an_allocation_tell_its_story(manual) -> None:
    allocator = CachingAllocator(manual)
    recorder = Recorder()
    allocator.attach(recorder)
    block = allocator.allocate(1000, stream=1)
    allocator.record_stream(block, 2)
    manual.queue(block, 2)
    allocator.free(block)
    manual.finish(2)
    allocator.release_cached()
    assert recorder.kinds() == [
        EventKind.SEGMENT_RESERVE,
        EventKind.ALLOCATE,
        EventKind.RECORD_STREAM,
        EventKind.FREE,
        EventKind.FENCE_PASSED,
        EventKind.SEGMENT_RELEASE,
        EventKind.EMPTY_CACHE,
    ]
    address = block.address
    assert [event[3:7] for event in recorder.events] == [
        (1, address, 2 * MIB, 2 * MIB),
        (1, address, 1024, 1000),
        (2, address, 1024, 1000),
        (1, address, 1024, 1000),
        (1, address, 1024, 1000),
        (1, address, 2 * MIB, 2 * MIB),
        (0, 0, 2 * MIB, 0),
    ]


def test_hits_are_reported_too() -> None:
    allocator = CachingAllocator(NullUpstream())
    recorder = Recorder()
    allocator.attach(recorder)
    for _ in range(3):
        allocator.free(allocator.allocate(1000, stream=0))
    assert recorder.kinds()[1:] == [EventKind.ALLOCATE, EventKind.FREE] * 3


def test_an_allocation_that_fails_is_an_event_with_what_was_free() -> None:
    allocator = CachingAllocator(NullUpstream(4 * MIB))
    recorder = Recorder()
    allocator.attach(recorder)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(5 * MIB, stream=3)
    assert [event[0:1] + event[3:7] for event in recorder.events] == [(EventKind.OUT_OF_MEMORY, 3, 0, 4 * MIB, 5 * MIB)]


def test_an_observer_that_comes_late_sees_the_frees_of_what_is_live_and_no_others() -> None:
    allocator = CachingAllocator(NullUpstream())
    live, gone = allocator.allocate(1000, stream=0), allocator.allocate(1000, stream=0)
    allocator.free(gone)
    recorder = Recorder()
    recorder.live[live.address] = live.nbytes
    allocator.attach(recorder)
    allocator.free(live)
    again = allocator.allocate(1000, stream=0)
    assert recorder.kinds() == [EventKind.FREE, EventKind.ALLOCATE]
    assert recorder.problems == []
    allocator.detach(recorder)
    allocator.free(again)
    assert len(recorder.events) == 2


def test_two_observers_see_the_same_and_leave_one_by_one() -> None:
    allocator = CachingAllocator(NullUpstream())
    first, second = Recorder(), Recorder()
    allocator.attach(first)
    allocator.attach(second)
    block = allocator.allocate(1000, stream=0)
    allocator.detach(first)
    allocator.free(block)
    assert first.kinds() == [EventKind.SEGMENT_RESERVE, EventKind.ALLOCATE]
    assert second.kinds() == [EventKind.SEGMENT_RESERVE, EventKind.ALLOCATE, EventKind.FREE]


def test_the_context_is_asked_for_on_the_thread_that_acts() -> None:
    allocator = CachingAllocator(NullUpstream())
    recorder = Recorder()
    allocator.attach(recorder, context=threading.get_ident)
    blocks = []
    thread = threading.Thread(target=lambda: blocks.append(allocator.allocate(1000, stream=0)))
    thread.start()
    thread.join()
    allocator.free(blocks[0])
    for event in recorder.events:
        if event[0] in (EventKind.ALLOCATE, EventKind.FREE):
            assert event[7] == event[2]
    with pytest.raises(ValueError, match="context source already"):
        allocator.attach(Recorder(), context=lambda: 1)


def test_an_observer_runs_outside_the_lock_also_for_a_finaliser_inside_an_operation() -> None:
    class Upstream(NullUpstream):
        during: Callable[[], None] | None = None

        def reserve(self, nbytes: int) -> int:
            if self.during is not None:
                self.during()
            return super().reserve(nbytes)

    upstream = Upstream()
    allocator = CachingAllocator(upstream)
    block = allocator.allocate(1000, stream=0)
    outside: list[bool] = []
    allocator.attach(lambda *_: outside.append(not allocator._lock.is_mine()))
    upstream.during = lambda: allocator.free(block)
    other = allocator.allocate(5 * MIB, stream=0)
    upstream.during = None
    assert len(outside) == 3
    assert all(outside)
    assert other.live


def test_an_observer_that_raises_is_detached_with_a_warning() -> None:
    allocator = CachingAllocator(NullUpstream())
    recorder = Recorder()

    def faulty(*_: object) -> None:
        raise ZeroDivisionError("an observer's fault")

    allocator.attach(faulty)
    allocator.attach(recorder)
    with pytest.warns(RuntimeWarning, match="ZeroDivisionError.* was detached"):
        block = allocator.allocate(1000, stream=0)
    allocator.free(block)
    assert recorder.kinds() == [EventKind.SEGMENT_RESERVE, EventKind.ALLOCATE, EventKind.FREE]


def test_the_warning_costs_no_block_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda unraisable: seen.append(unraisable.exc_value))
    allocator = CachingAllocator(NullUpstream())

    def faulty(*_: object) -> None:
        raise ZeroDivisionError

    allocator.attach(faulty)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        block = allocator.allocate(1000, stream=0)
    assert allocator.live_blocks() == [block]
    assert [type(error) for error in seen] == [RuntimeWarning]


def test_an_observer_may_not_use_the_allocator_from_where_it_cannot() -> None:
    allocator = CachingAllocator(NullUpstream())
    recorder = Recorder()
    allocator.attach(recorder)

    def frees(kind: EventKind, *_: object) -> None:
        if kind == EventKind.ALLOCATE and held:
            allocator.free(held.pop())

    held = [allocator.allocate(500, stream=0)]
    allocator.attach(frees)  # a free may happen anywhere, so here too
    allocator.allocate(1000, stream=0)
    assert recorder.kinds()[-2:] == [EventKind.ALLOCATE, EventKind.FREE]


def test_after_detach_has_returned_the_observer_is_not_running_on_any_thread() -> None:
    allocator = CachingAllocator(NullUpstream())
    entered, leave = threading.Event(), threading.Event()
    state: list[str] = []

    def slow(*_: object) -> None:
        entered.set()
        leave.wait(300)
        state.append("observed")

    allocator.attach(slow)
    thread = threading.Thread(target=lambda: allocator.allocate(1000, stream=0))
    thread.start()
    entered.wait(300)
    detaching = threading.Thread(target=lambda: (allocator.detach(slow), state.append("detached")))
    detaching.start()
    leave.set()
    thread.join()
    detaching.join()
    assert state[-1] == "detached"


def test_threads_give_one_consistent_order(make_allocator: Callable[..., Allocator]) -> None:
    allocator = make_allocator(NullUpstream())
    recorder = Recorder()

    def work(stream: int) -> None:
        for index in range(1500):
            block = allocator.allocate((index % 7 + 1) * 1000, stream=stream)
            if index % 5 == 0:
                allocator.record_stream(block, stream ^ 1)
            allocator.free(block)

    allocator.attach(recorder)
    threads = [threading.Thread(target=work, args=(stream,)) for stream in (0, 1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.problems == []
    assert recorder.live == {}
    assert recorder.freed == 4500


def test_an_observer_that_comes_and_goes_while_threads_work_sees_a_consistent_order() -> None:
    allocator = CachingAllocator(NullUpstream())
    stop = threading.Event()

    def work(stream: int) -> None:
        while not stop.is_set():
            for nbytes in (1000, 2000, 3000):
                allocator.free(allocator.allocate(nbytes, stream=stream))

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (0, 0)]
    for thread in threads:
        thread.start()
    problems: list[str] = []
    for _ in range(60):
        recorder = Recorder()
        allocator.attach(recorder)
        while len(recorder.events) < 50:
            pass
        allocator.detach(recorder)
        # What was live before it came may be freed once; nothing is allocated twice or freed twice after that.
        seen: set[int] = set()
        for kind, *_, address, _, _, _ in recorder.events:
            if kind == EventKind.ALLOCATE:
                if address in seen:
                    problems.append("allocated while live")
                seen.add(address)
            elif kind == EventKind.FREE:
                seen.discard(address)
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert allocator.statistics().all.allocation.current == 0
