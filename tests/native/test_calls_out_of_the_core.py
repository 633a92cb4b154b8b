"""What the native allocators call, and what may happen there: exceptions, hooks, observers, other threads, a fork."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError, DriverError
from cuplug.allocators.events import EventKind
from cuplug.allocators.native import is_available, why_not
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.machine.owner import Owner

from ..allocators.conftest import ManualUpstream

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators.native.strategies import NativeCaching

MIB = 1 << 20
FORMS = [CachingAllocator, NativeCaching]
each_form = pytest.mark.parametrize("make", FORMS, ids=["python", "native"])


class Held(Owner):
    __slots__ = ()


class Failing(NullUpstream):
    """Raises what the test says, at the call that it says."""

    def __init__(self, total_bytes: int = 1 << 40) -> None:
        super().__init__(total_bytes)
        self.errors: dict[str, BaseException] = {}

    def fail(self, name: str) -> None:
        error = self.errors.pop(name, None)
        if error is not None:
            raise error

    def reserve(self, nbytes: int) -> int:
        self.fail("reserve")
        return super().reserve(nbytes)

    def release(self, address: int) -> None:
        self.fail("release")
        super().release(address)

    def memory_info(self) -> tuple[int, int]:
        self.fail("memory_info")
        return super().memory_info()

    def fence(self, stream: int) -> Any:
        self.fail("fence")
        return super().fence(stream)


ERRORS = [KeyboardInterrupt(), MemoryError(), RecursionError(), DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "lost")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", ["reserve", "release", "memory_info", "fence"])
@each_form
def test_an_exception_in_a_call_upstream_is_raised_and_nothing_is_lost(
    make: Any, call: str, error: BaseException
) -> None:
    upstream = Failing(64 * MIB)
    allocator = make(upstream)
    kept = allocator.allocate(1000, stream=0)
    allocator.free(allocator.allocate(30 * MIB, stream=0))
    before = allocator.statistics().all
    upstream.errors[call] = error
    operations: dict[str, Callable[[], Any]] = {
        "reserve": lambda: allocator.allocate(1000, stream=9),
        "memory_info": lambda: allocator.allocate(1 << 40, stream=0),
    }
    with pytest.raises(type(error)):
        operations.get(call, allocator.release_cached)()
    counted = allocator.statistics().all
    assert (counted.allocation.current, counted.allocated_bytes) == (1, before.allocated_bytes)
    assert counted.reserved_bytes.current == upstream.used_bytes == sum(part.nbytes for part in allocator.segments())
    allocator.free(kept)
    allocator.release_cached()
    assert upstream.used_bytes == 0


@each_form
def test_an_interrupt_where_a_free_makes_a_fence_keeps_the_block_safe(make: Any) -> None:
    upstream: Any = ManualUpstream()
    allocator = make(upstream)
    block = allocator.allocate(1000, stream=1)
    allocator.record_stream(block, 2)
    upstream.queue(block, 2)
    fence, calls = upstream.fence, []

    def interrupted(stream: int) -> Any:
        calls.append(stream)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return fence(stream)

    upstream.fence = interrupted
    with pytest.raises(KeyboardInterrupt):
        allocator.free(block)
    allocator.statistics()
    assert allocator.allocate(1000, stream=1).address != block.address
    upstream.finish(2)
    allocator.release_cached()
    assert allocator.statistics().all.active.current == 1


@each_form
def test_what_a_hook_raises_is_raised_and_no_failure_is_counted(make: Any) -> None:
    allocator = make(NullUpstream(MIB))

    def hook(nbytes: int, stream: int) -> bool:
        raise KeyError(nbytes)

    allocator.on_out_of_memory = hook
    events: list[EventKind] = []
    allocator.attach(lambda kind, *event: events.append(kind))
    with pytest.raises(KeyError):
        allocator.allocate(8 * MIB, stream=0)
    assert allocator.statistics().num_ooms == 0
    assert EventKind.OUT_OF_MEMORY not in events


@each_form
def test_a_hook_may_use_the_allocator(make: Any) -> None:
    allocator = make(NullUpstream(16 * MIB))
    held = [allocator.allocate(12 * MIB, stream=0)]

    def hook(nbytes: int, stream: int) -> bool:
        allocator.free(held.pop())
        return allocator.release_cached() > 0

    allocator.on_out_of_memory = hook
    assert allocator.allocate(14 * MIB, stream=1).live


@each_form
def test_a_hook_is_asked_for_as_long_as_it_makes_room(make: Any) -> None:
    allocator = make(NullUpstream(200 * MIB))
    held = [allocator.allocate(2 * MIB, stream=0) for _ in range(100)]

    def hook(nbytes: int, stream: int) -> bool:
        allocator.free(held.pop())
        return True

    allocator.on_out_of_memory = hook
    assert allocator.allocate(190 * MIB, stream=0).live
    assert len(held) <= 5


@each_form
def test_inside_a_call_upstream_only_free_may_be_called(make: Any) -> None:
    upstream = NullUpstream()
    allocator = make(upstream)
    block = allocator.allocate(1000, stream=0)
    reserve, raised = upstream.reserve, []

    def reenter(nbytes: int) -> int:
        allocator.free(block)
        for call in (lambda: allocator.allocate(5, stream=0), allocator.statistics, lambda: allocator.attach(print)):
            with pytest.raises(CuplugError, match="only free") as caught:
                call()
            raised.append(caught.value)
        return reserve(nbytes)

    upstream.reserve = reenter  # type: ignore[method-assign]
    allocator.allocate(64 * MIB, stream=0)
    assert len(raised) == 3
    assert allocator.statistics().all.allocation.current == 1


# --- observers


@each_form
def test_events_carry_their_kind_and_the_thread_that_caused_them(make: Any) -> None:
    allocator = make(NullUpstream())
    events: list[tuple[Any, ...]] = []
    allocator.attach(lambda *event: events.append(event), context=lambda: 77)
    Held.allocate(allocator, 1000, stream=4)
    assert [event[0] for event in events] == [EventKind.SEGMENT_RESERVE, EventKind.ALLOCATE, EventKind.FREE]
    assert all(isinstance(event[0], EventKind) for event in events)
    assert {event[2] for event in events} == {threading.get_ident()}
    assert [event[-1] for event in events] == [0, 77, 77]


def test_observers_see_the_events_of_all_threads_in_one_order() -> None:
    allocator = NativeCaching(NullUpstream())
    live: dict[int, int] = {}
    problems: list[str] = []

    def observe(kind: EventKind, time: int, thread: int, stream: int, address: int, nbytes: int, *rest: int) -> None:
        if kind == EventKind.ALLOCATE and live.setdefault(address, nbytes) is not nbytes:
            problems.append(f"{address:#x} is allocated while live")
        elif kind == EventKind.FREE and live.pop(address, None) != nbytes:
            problems.append(f"{address:#x} is freed while not live")

    def work(stream: int) -> None:
        for number in range(300):
            Held.allocate(allocator, 512 << number % 9, stream=stream)

    allocator.attach(observe)
    threads = [threading.Thread(target=work, args=(stream,)) for stream in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    allocator.statistics()
    assert problems == []
    assert live == {}


# --- threads


def test_a_thread_inside_a_call_upstream_does_not_stop_the_others_in_python() -> None:
    upstream = NullUpstream()
    allocator = NativeCaching(upstream)
    inside, leave = threading.Event(), threading.Event()
    reserve = upstream.reserve

    def wait(nbytes: int) -> int:
        inside.set()
        assert leave.wait(300)
        return reserve(nbytes)

    block = allocator.allocate(1000, stream=0)
    upstream.reserve = wait  # type: ignore[method-assign]
    slow = threading.Thread(target=lambda: allocator.allocate(64 * MIB, stream=0))
    slow.start()
    assert inside.wait(300)
    waiting = threading.Thread(target=allocator.statistics)
    waiting.start()  # waits for the core's mutex, and holds no interpreter's lock meanwhile
    allocator.free(block)  # never waits
    leave.set()
    slow.join(300)
    waiting.join(300)
    assert not slow.is_alive()
    assert not waiting.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_frees_without_a_call_upstream() -> None:
    upstream = NullUpstream()
    allocator = NativeCaching(upstream)
    owner = Held.allocate(allocator, 1000, stream=0)
    calls = dict(upstream.calls)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            allocator.abandon("the process was forked")
            del owner, allocator
            gc.collect()
            code = 0 if dict(upstream.calls) == calls else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
