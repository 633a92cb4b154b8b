"""The native allocators as Python sees them: types, ownership, exceptions, observers, and C's way in."""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import os
import pickle
import random
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError, DriverError, InvalidFreeError, OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import get_include, is_available, why_not
from cuplug.allocators.null import NullUpstream
from cuplug.allocators.owner import Owner
from cuplug.plugins.manager import default_manager
from cuplug.runtime.native_functions import allocator_functions, allocator_handle
from cuplug.runtime.runtime import Runtime

from ..allocators.conftest import ManualUpstream

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators import _native
from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable
from cuplug.allocators.native.without_device import NativeNullUpstream, calls_of

MIB = 1 << 20
FORMS = [CachingAllocator, NativeCaching]
each_form = pytest.mark.parametrize("make", FORMS, ids=["python", "native"])
both = pytest.mark.parametrize("make", [NativeCaching, NativeExpandable])


# --- types


@both
def test_a_native_allocator_is_an_allocator(make: Any) -> None:
    assert isinstance(make(NullUpstream()), Allocator)


@pytest.mark.parametrize(
    ("native", "python"), [(NativeCaching, CachingAllocator), (NativeExpandable, ExpandableAllocator)]
)
def test_the_options_are_those_of_the_specification(native: Any, python: Any) -> None:
    assert inspect.signature(native) == inspect.signature(python)
    with pytest.raises(TypeError, match="unknown"):
        native(NullUpstream(), unknown=1)


@pytest.mark.parametrize(
    "options",
    [
        {"memory_limit": 0},
        {"memory_fraction": 0.0},
        {"memory_fraction": 1.5},
        {"garbage_collection_threshold": 1.0},
        {"max_split_size": MIB},
        {"roundup_power2_divisions": 3},
    ],
)
def test_wrong_options_are_refused_in_the_same_words(options: dict[str, Any]) -> None:
    messages = []
    for make in FORMS:
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the messages are compared
            make(NullUpstream(), **options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_expandable_says_what_it_lacks_as_in_python() -> None:
    messages = []
    for make in (ExpandableAllocator, NativeExpandable):
        with pytest.raises(DriverError) as caught:
            make(NullUpstream(virtual=False))
        messages.append(str(caught.value))
        with pytest.raises(ValueError, match="slack is -1; it must be zero or more bytes"):
            make(NullUpstream(), slack=-1)
    assert messages[0] == messages[1]


def test_a_selection_makes_the_native_form() -> None:
    allocator = default_manager().make_allocator("caching:preset=torch,memory_limit=1MiB", NullUpstream())
    assert isinstance(allocator, NativeCaching)
    assert allocator.memory_limit == MIB


@each_form
def test_a_block_is_read_as_in_python(make: Any) -> None:
    block = make(NullUpstream()).allocate(1000, stream=3)
    assert (block.nbytes, block.requested, block.stream, block.live, block.orphan) == (1024, 1000, 3, True, False)
    assert int(block) == block.address
    assert repr(block) == f"<Block {block.address:#x} 1000 of 1024 bytes, stream 0x3, live>"
    assert weakref.ref(block)() is block


@each_form
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_block_cannot_be_copied(make: Any, duplicate: Callable[[Any], Any]) -> None:
    block = make(NullUpstream()).allocate(1000, stream=0)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(block)


def test_native_blocks_are_for_reading() -> None:
    block: Any = NativeCaching(NullUpstream()).allocate(1000, stream=0)
    with pytest.raises(AttributeError):
        block.live = False
    with pytest.raises(TypeError):
        type(block)()


@each_form
def test_wrong_arguments_are_told_by_the_functions_name(make: Any) -> None:
    allocator = make(NullUpstream())
    with pytest.raises(TypeError, match=r"allocate\(\).*stream"):
        allocator.allocate(1000)
    with pytest.raises(TypeError):
        allocator.allocate("much", stream=0)
    with pytest.raises(ValueError, match="cannot allocate -5 bytes: a size is zero or more"):
        allocator.allocate(-5, stream=0)
    assert allocator.allocate(nbytes=10, stream=0).requested == 10


@each_form
def test_more_than_any_device_has_is_out_of_memory(make: Any) -> None:
    with pytest.raises(OutOfMemoryError):
        make(NullUpstream()).allocate(1 << 80, stream=0)


# --- blocks that are dropped, and those that are asked for


@each_form
def test_a_block_that_is_dropped_stays_allocated(make: Any) -> None:
    allocator = make(NullUpstream())
    address = allocator.allocate(1000, stream=7).address
    (found,) = allocator.live_blocks()
    assert (found.address, found.requested, found.stream, found.live) == (address, 1000, 7, True)
    allocator.free(found)
    assert allocator.live_blocks() == []


@each_form
def test_live_blocks_are_the_very_objects_that_the_program_holds(make: Any) -> None:
    allocator = make(NullUpstream())
    blocks = [allocator.allocate(1000, stream=0) for _ in range(200)]
    allocator.free(blocks.pop(50))
    found = allocator.live_blocks()
    assert len(found) == 199
    assert all(one is other for one, other in zip(found, sorted(blocks, key=int), strict=True))


@each_form
def test_a_block_of_no_bytes_counts_nowhere(make: Any) -> None:
    allocator = make(NullUpstream())
    block = allocator.allocate(0, stream=0)
    assert (block.address, block.nbytes, block.live) == (0, 0, True)
    assert allocator.live_blocks() == []
    allocator.free(block)
    with pytest.raises(InvalidFreeError):
        allocator.free(block)
    del block
    allocator.allocate(0, stream=0)  # dropped
    assert allocator.statistics().all.allocation.allocated == 0


@each_form
def test_blocks_of_others_are_refused(make: Any) -> None:
    first, second = make(NullUpstream()), make(NullUpstream())
    block = first.allocate(1000, stream=0)
    with pytest.raises(InvalidFreeError, match="belongs to another allocator"):
        second.free(block)
    with pytest.raises(InvalidFreeError, match="belongs to another allocator"):
        second.record_stream(block, 1)
    first.free(block)
    with pytest.raises(InvalidFreeError, match="was freed before"):
        first.free(block)
    with pytest.raises(InvalidFreeError, match="was freed before"):
        first.record_stream(block, 1)


@each_form
def test_once_closed_blocks_are_not_live_and_free_does_nothing(make: Any) -> None:
    upstream = NullUpstream()
    allocator = make(upstream)
    block = allocator.allocate(1000, stream=0)
    allocator.close()
    allocator.close()
    assert not block.live
    assert upstream.used_bytes == 0
    allocator.free(block)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.allocate(1000, stream=0)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.allocate(0, stream=0)
    with pytest.raises(CuplugError, match="this allocator cannot be used: it was closed"):
        allocator.release_cached()
    assert allocator.segments() == []


@each_form
def test_blocks_of_a_destroyed_stream_are_orphans(make: Any) -> None:
    allocator = make(NullUpstream())
    block, other = allocator.allocate(1000, stream=1), allocator.allocate(1000, stream=2)
    allocator.forget_stream(1)
    assert (block.orphan, other.orphan) == (True, False)


@each_form
def test_the_memory_limit_can_be_changed(make: Any) -> None:
    allocator = make(NullUpstream(), memory_limit=4 * MIB)
    with pytest.raises(OutOfMemoryError, match=r"The allocator's limit is 4\.00 MiB"):
        allocator.allocate(6 * MIB, stream=0)
    allocator.memory_limit = None
    allocator.allocate(6 * MIB, stream=0)
    allocator.memory_limit = 7 * MIB
    with pytest.raises(OutOfMemoryError, match=r"The allocator's limit is 7\.00 MiB"):
        allocator.allocate(8 * MIB, stream=0)


def test_both_forms_say_the_same_when_memory_is_short() -> None:
    messages = []
    for make in FORMS:
        allocator = make(NullUpstream(64 * MIB))
        held = [allocator.allocate(5 * MIB, stream=0) for _ in range(8)]
        for block in held[::2]:
            allocator.free(block)
        with pytest.raises(OutOfMemoryError) as caught:
            allocator.allocate(40 * MIB, stream=5)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


# --- owners


class Held(Owner):
    __slots__ = ()


@each_form
def test_an_owner_gives_back_what_it_has_when_it_goes(make: Any) -> None:
    allocator = make(NullUpstream())
    owner = Held.allocate(allocator, 1000, stream=0)
    (block,) = allocator.live_blocks()
    assert owner._block is block
    assert int(owner) == block.address
    assert not owner.closed
    del owner
    assert not block.live
    assert allocator.live_blocks() == []
    owner = Held.allocate(allocator, 1000, stream=0)
    owner.close()
    owner.close()
    assert owner.closed
    assert allocator.statistics().all.allocation.current == 0


@each_form
def test_an_owner_survives_its_allocators_end(make: Any) -> None:
    allocator = make(NullUpstream())
    first, second = Held.allocate(allocator, 1000, stream=0), Held.allocate(allocator, 1000, stream=0)
    allocator.close()
    assert first.closed
    first.close()
    del allocator, second
    gc.collect()


@each_form
def test_an_owner_whose_allocation_fails_owns_nothing(make: Any) -> None:
    allocator = make(NullUpstream(MIB))
    with pytest.raises(OutOfMemoryError):
        Held.allocate(allocator, 4 * MIB, stream=0)
    assert Held().closed


def test_an_allocator_goes_with_the_last_of_its_blocks() -> None:
    upstream = NullUpstream()
    allocator = NativeCaching(upstream)
    gone = weakref.ref(allocator)
    block = allocator.allocate(1000, stream=0)
    del allocator
    gc.collect()
    assert gone() is not None
    del block
    gc.collect()
    assert gone() is None


def test_an_allocator_that_its_hook_refers_to_is_collected() -> None:
    def make() -> weakref.ref[NativeCaching]:
        allocator = NativeCaching(NullUpstream())
        allocator.on_out_of_memory = lambda nbytes, stream: allocator is None
        allocator.attach(lambda *event: allocator)
        return weakref.ref(allocator)

    gone = make()
    gc.collect()
    assert gone() is None


# --- exceptions


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
        assert leave.wait(60)
        return reserve(nbytes)

    block = allocator.allocate(1000, stream=0)
    upstream.reserve = wait  # type: ignore[method-assign]
    slow = threading.Thread(target=lambda: allocator.allocate(64 * MIB, stream=0))
    slow.start()
    assert inside.wait(60)
    waiting = threading.Thread(target=allocator.statistics)
    waiting.start()  # waits for the core's mutex, and holds no interpreter's lock meanwhile
    allocator.free(block)  # never waits
    leave.set()
    slow.join(60)
    waiting.join(60)
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


# --- C


def test_the_header_is_installed_with_the_package() -> None:
    with open(os.path.join(get_include(), "cuplug_allocator.h")) as header:
        assert "cuplug_allocate(" in header.read()


def test_functions_for_c_allocate_on_the_devices_of_a_runtime() -> None:
    with Runtime(driver="sim:devices=2") as runtime:
        addresses = allocator_functions(runtime=runtime)
        malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[0])
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[1])
        allocator = runtime.allocator(1)
        address = malloc(1000, 1, None)
        (block,) = allocator.live_blocks()
        assert (block.address, block.requested) == (address, 1000)
        free(address, 1000, 1, None)
        assert allocator.live_blocks() == []
        assert malloc(1 << 60, 0, None) is None
        assert malloc(1000, 5, None) is None
    assert malloc(1000, 1, None) is None


def test_a_handle_is_that_of_the_devices_allocator() -> None:
    with Runtime(driver="sim") as runtime:
        assert allocator_handle(0, runtime=runtime) == allocator_handle(runtime=runtime) > 0
    with Runtime(driver="sim", allocator="bump") as runtime, pytest.raises(CuplugError, match="choose caching"):
        allocator_handle(runtime=runtime)


@pytest.mark.parametrize("strategy", ["caching", "expandable"])
def test_a_replay_in_the_core_does_what_one_in_python_does(strategy: str) -> None:
    python, native = {
        "caching": (CachingAllocator, NativeCaching),
        "expandable": (ExpandableAllocator, NativeExpandable),
    }[strategy]
    chance = random.Random(7)
    steps: list[int] = []
    sizes: list[int] = []
    live: list[int] = []
    for _ in range(2000):
        if not live or chance.random() < 0.55:
            sizes.append(int(2 ** (chance.random() * 25)))
            live.append(len(sizes))
            steps.append(len(sizes))
        else:
            steps.append(-live.pop(chance.randrange(len(live))))
    upstream: Any = NullUpstream()
    allocator: Any = python(upstream)
    blocks: dict[int, Any] = {}
    for step in steps:
        if step > 0:
            blocks[step] = allocator.allocate(sizes[step - 1], stream=0)
        else:
            allocator.free(blocks.pop(-step))
    replayed: Any = native(NativeNullUpstream())
    columns = [np.array(column, np.int64) for column in (steps, sizes, [0] * len(sizes))]
    assert _native.replay(replayed, *columns, True, None, None)[:4] == (0, len(steps), 0, 0)
    assert replayed.statistics() == allocator.statistics()
    assert replayed.segments() == allocator.segments()
    counts = calls_of(replayed)
    assert {name: counts[name] for name in upstream.calls} == dict(upstream.calls)
    assert (counts["fences"], counts["used_bytes"]) == (upstream.fences, upstream.used_bytes)
    with pytest.raises(ValueError, match="replay takes"):
        _native.replay(replayed, np.array([5000]), columns[1], columns[2], True, None, None)
