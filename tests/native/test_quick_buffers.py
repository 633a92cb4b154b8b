"""Buffers on the native core: no Python runs for them, and they follow what is current."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import cuplug
import pytest
from cuplug import CuplugError, Runtime, cuda
from cuplug.allocators.native import is_available, why_not
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.machine.default_runtime import default_runtime
from cuplug.runtime.machine.owner import Owner

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators.native.strategies import NativeCaching


@pytest.fixture(autouse=True)
def _shut_down() -> Iterator[None]:
    yield
    cuplug.shutdown()


def functions_of_python(nbytes: int, times: int) -> list[str]:
    """Those that run while so many buffers are made and dropped."""
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        for _ in range(times):
            cuda.alloc(nbytes)
    finally:
        sys.setprofile(None)
    return called


def test_creating_and_dropping_a_buffer_enters_no_python() -> None:
    cuplug.init(driver="sim")
    cuda.alloc(5000)
    assert functions_of_python(5000, 100) == []
    assert cuda.memory_stats()["allocation.all.allocated"] == 101
    assert cuda.memory_allocated() == 0


def test_buffers_follow_the_current_device_and_stream() -> None:
    cuplug.init(driver="sim:devices=2")
    queue = cuda.Stream(1)
    for _ in range(3):
        assert (cuda.alloc(100).device, cuda.alloc(100).stream) == (0, 0)
        with cuda.device(1):
            assert [cuda.alloc(100).device for _ in range(3)] == [1, 1, 1]
            with cuda.stream(queue):
                assert [cuda.alloc(100).stream for _ in range(3)] == [queue.cuda_stream] * 3
            assert [cuda.alloc(100).stream for _ in range(3)] == [0, 0, 0]
        assert [cuda.alloc(100).device for _ in range(3)] == [0, 0, 0]


def test_each_thread_has_a_place_of_its_own() -> None:
    cuplug.init(driver="sim:devices=2")
    cuda.set_device(1)
    cuda.alloc(100)
    found: list[int] = []

    def work() -> None:
        found.extend(cuda.alloc(100).device for _ in range(3))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0, 0, 0]
    assert cuda.alloc(100).device == 1


def test_after_a_shutdown_buffers_come_from_the_next_runtime() -> None:
    cuplug.init(driver="sim")
    before = default_runtime().allocator(0)
    kept = cuda.alloc(100)
    cuplug.shutdown()
    assert kept.closed
    cuplug.init(driver="sim", allocator="expandable")
    assert cuda.alloc(100)._block.allocator is default_runtime().allocator(0) is not before


def test_wrong_arguments_are_told_as_ever() -> None:
    cuplug.init(driver="sim")
    cuda.alloc(100)
    for wrong in (-1, "many", 1.5, None):
        messages = []
        for function in (cuda.alloc, default_runtime().alloc):
            with pytest.raises((ValueError, TypeError)) as caught:
                function(wrong)  # type: ignore[arg-type]
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
    assert cuda.alloc(100, stream=0).nbytes == 100


def test_what_a_closed_buffer_says_is_said_also_by_its_address() -> None:
    with Runtime(driver="sim") as runtime:
        buffer = runtime.alloc(100)
        buffer.close()
        with pytest.raises(CuplugError, match="this buffer was closed"):
            int(buffer)
        with pytest.raises(CuplugError, match="this buffer was closed"):
            buffer.__index__()


def test_a_context_source_that_raises_keeps_no_block_of_an_owner_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(what.exc_type))
    allocator = NativeCaching(NullUpstream())
    fails = False

    def source() -> int:
        if fails:
            raise KeyboardInterrupt
        return 7

    events: list[Any] = []
    allocator.attach(lambda *event: events.append(event), context=source)
    owner = Owner.allocate(allocator, 1000, stream=0)
    fails = True
    del owner
    assert told == [KeyboardInterrupt]
    assert (events[-1][0].name, events[-1][-1]) == ("FREE", 0)
    assert allocator.statistics().all.allocation.current == 0


class WithAttributes(Owner):
    pass


class WithOthers(Owner):
    pass


def test_owners_of_classes_with_attributes_are_objects_like_any_other() -> None:
    allocator = NativeCaching(NullUpstream())
    for number in range(200):
        first: Any = WithAttributes.allocate(allocator, 100, stream=0)
        first.itself, first.number = first, number
        second: Any = WithOthers.allocate(allocator, 100, stream=0)
        assert vars(second) == {}
        second.other = number
    del first, second
    gc.collect()
    assert allocator.statistics().all.allocation.current == 0


def test_buffers_made_from_the_memory_of_others_are_as_new() -> None:
    cuplug.init(driver="sim")
    gone = [weakref.ref(cuda.alloc(100)) for _ in range(5)]
    assert [one() for one in gone] == [None] * 5
    classes = sys.getrefcount(cuda.Buffer)
    made = [cuda.alloc(100) for _ in range(5)]
    with_those = sys.getrefcount(cuda.Buffer)
    assert [(gc.is_tracked(one), one.closed) for one in made] == [(True, False)] * 5
    assert len({int(one) for one in made}) == 5
    del made
    assert (with_those, sys.getrefcount(cuda.Buffer)) == (classes + 5, classes)
    assert cuda.memory_allocated() == 0


def test_classes_that_derive_from_buffers_keep_what_they_add() -> None:
    class Plain(cuda.Buffer):
        __slots__ = ()

    class Named(Plain):
        name: str

    class Numbered(Plain):
        __slots__ = ("number",)
        number: int

    class Last(Plain):
        __slots__ = ()

        def __del__(self) -> None:
            told.append(self.closed)
            if len(told) == 3:
                kept.append(self)

    told: list[bool] = []
    kept: list[Last] = []
    cuplug.init(driver="sim")
    allocator = default_runtime().allocator(0)
    classes = (Plain, Named, Numbered, Last)
    counts = [sys.getrefcount(made) for made in classes]
    for _ in range(5):  # each class after each other
        for at in range(len(classes)):
            one = classes[at].allocate(allocator, 100, stream=0)
            if isinstance(one, Named):
                assert not vars(one)
                one.name = "weights"
            if isinstance(one, Numbered):
                assert not hasattr(one, "number")
                one.number = 7
            assert type(one) is classes[at]
            del one
    assert told == [False] * 5
    assert [one.closed for one in kept] == [False]
    kept.clear()
    assert told == [False] * 5  # a finaliser is called once
    assert [sys.getrefcount(made) for made in classes] == counts
    assert cuda.memory_allocated() == 0
