"""Memory falls asleep and wakes in the native core as in Python: the same calls, copies, events and figures."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError, DriverError, OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.tags import memory_tag, tag_number
from cuplug.allocators.upstreams.null import NullUpstream

from . import native_core as core
from .test_equivalence import History, Pair, Python, Scripted

pytestmark = pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")

SEEDS = int(os.environ.get("CUPLUG_EQUIVALENCE_SEEDS", "8"))
TAGS = ("sleepy a", "sleepy b")
for tag in TAGS:
    with memory_tag(tag):
        pass


class Copies:
    """Keeps contents, and notes in the log of its upstream what is asked of it."""

    def __init__(self, upstream: Scripted) -> None:
        self.upstream = upstream

    def __call__(self, address: int, nbytes: int) -> Copy:
        self.upstream.called("save", address, nbytes)
        if self.upstream.chance.random() < self.upstream.failures:
            raise OutOfMemoryError("the host")
        return Copy(self.upstream, address)


class Copy:
    def __init__(self, upstream: Scripted, address: int) -> None:
        self.upstream, self.address = upstream, address

    def restore(self) -> None:
        self.upstream.called("restore", self.address)

    def wait(self) -> None:
        self.upstream.called("wait for a copy", self.address)


class SleepyHistory(History):
    """A random program that tags what it allocates, and puts it to sleep."""

    def __init__(self, seed: int) -> None:
        super().__init__("expandable", seed)
        self.keepers = tuple(Copies(upstream) for upstream in self.pair.upstreams)
        self.slept = self.woke = 0

    def go(self, operations: int) -> None:
        for _ in range(operations):
            super().go(4)
            tag = tag_number(self.chance.choice(TAGS))
            assert tag is not None
            if self.chance.random() < 0.5:
                keep = self.keepers if self.chance.random() < 0.7 else (None, None)
                self.slept += same(self.pair.do("sleep", tag, keep))
            else:
                self.woke += same(self.pair.do("wake", tag))
                self.forget_hook_freed()
            self.pair.same("asleep")
            self.pair.same("segments")
            self.pair.same("statistics")

    def allocate(self) -> None:
        tag = self.chance.choice(["", *TAGS])
        number = tag_number(tag) or 0
        if any(one[0] == number for one in self.pair.sides[0].asleep()):
            return
        native: Any = self.pair.sides[1]
        set_tag = getattr(native, "set_memory_tag", lambda _tag: None)  # through the binding it is set with Python's
        with memory_tag(tag) if tag else nullcontext():
            set_tag(number)
            super().allocate()
            set_tag(0)


def same(found: tuple[Any, Any] | None) -> int:
    """What both answer; 0 if both failed."""
    if found is None:
        return 0
    assert found[0] == found[1]
    return int(found[0])


def test_random_programs_that_put_memory_to_sleep_go_the_same_way() -> None:
    slept = woke = 0
    for seed in range(SEEDS):
        history = SleepyHistory(seed)
        try:
            history.go(40)
            history.finish()
            assert history.pair.sides[1].copies == 0
            slept, woke = slept + history.slept, woke + history.woke
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert slept
    assert woke


@pytest.mark.skipif(not is_available(), reason="the native allocators are not used")
def test_they_go_the_same_way_through_the_binding() -> None:
    from cuplug.allocators.native.strategies import NativeExpandable

    for seed in range(SEEDS):
        history = SleepyHistory(seed)
        history.pair.sides[1].destroy()
        old = history.pair
        pair = history.pair = Pair.__new__(Pair)
        memory = old.upstreams[0].null.total_bytes
        page = old.upstreams[0].virtual.granularity
        pair.upstreams = Scripted(seed, memory, 0, page), Scripted(seed, memory, 0, page)
        pair.sides = Python(ExpandableAllocator(pair.upstreams[0])), Python(NativeExpandable(pair.upstreams[1]))
        for side, upstream in zip(pair.sides, pair.upstreams, strict=True):
            side.observe()
            upstream.failures = old.upstreams[0].failures
        history.keepers = tuple(Copies(upstream) for upstream in pair.upstreams)
        try:
            history.go(25)
            for upstream in pair.upstreams:
                upstream.failures = 0
            pair.do("close")
            pair.same("statistics")
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_both_refuse_to_allocate_with_a_tag_that_is_asleep() -> None:
    number = tag_number(TAGS[0])
    assert number is not None
    native = core.Core("expandable", Scripted(0, 1 << 30, 0, 2 << 20))
    native.set_memory_tag(number)
    try:
        native.allocate(100, 0)
        assert native.sleep(number, None) == 2 << 20
        with pytest.raises(RuntimeError, match="the core answers 10"):
            native.allocate(100, 0)
        native.wake(number)
        native.allocate(100, 0)
    finally:
        native.set_memory_tag(0)
    caching = core.Core("caching", Scripted(0, 1 << 30, 0, 2 << 20))
    with pytest.raises(RuntimeError, match="the core answers 9"):
        caching.sleep(number, None)
    for one in (native, caching):
        one.close()
        one.destroy()


@pytest.mark.parametrize("native", [False, True])
def test_what_was_freed_asleep_stays_asleep_when_its_stream_is_destroyed(native: bool) -> None:
    """It has no pages that could be given back."""
    if native and not is_available():
        pytest.skip("the native allocators are not used")
    upstream = NullUpstream(1 << 30)
    if native:
        from cuplug.allocators.native.strategies import NativeExpandable

        allocator: Any = NativeExpandable(upstream)
    else:
        allocator = ExpandableAllocator(upstream)
    with memory_tag(TAGS[0]):
        block = allocator.allocate(1000, stream=7)
    assert allocator.sleep(TAGS[0]) == 2 << 20
    allocator.free(block)
    allocator.forget_stream(7)
    assert allocator.release_forgotten(7) == 0
    assert allocator.wake(TAGS[0]) == allocator.release_cached()
    allocator.close()
    assert upstream.used_bytes == 0


class Interrupts(Copies):
    """Raises at every second block, as Ctrl-C would."""

    calls = 0

    def __call__(self, address: int, nbytes: int) -> Copy:
        self.calls += 1
        if self.calls % 2 == 0:
            raise KeyboardInterrupt
        return super().__call__(address, nbytes)


@pytest.mark.parametrize("native", [False, True])
def test_an_interrupt_or_an_error_in_a_copy_leaves_the_memory_awake(native: bool) -> None:
    if native and not is_available():
        pytest.skip("the native allocators are not used")
    upstream = Scripted(0, 1 << 30, 0, 2 << 20)
    if native:
        from cuplug.allocators.native.strategies import NativeExpandable

        allocator: Any = NativeExpandable(upstream)
    else:
        allocator = ExpandableAllocator(upstream)
    with memory_tag(TAGS[0]):
        blocks = [allocator.allocate(3 << 20, stream=0) for _ in range(3)]
    before = allocator.statistics().all.reserved_bytes.current
    with pytest.raises(KeyboardInterrupt):
        allocator.sleep(TAGS[0], keep=Interrupts(upstream))
    assert allocator.asleep() == []
    upstream.failures = 1
    with pytest.raises((DriverError, OutOfMemoryError)):
        allocator.sleep(TAGS[0], keep=Copies(upstream))
    upstream.failures = 0
    assert allocator.asleep() == []
    assert allocator.statistics().all.reserved_bytes.current == before
    assert allocator.sleep(TAGS[0], keep=Copies(upstream)) == before
    upstream.failures = 1
    with pytest.raises(CuplugError):
        allocator.wake(TAGS[0])
    upstream.failures = 0
    assert [(one.blocks, one.kept_bytes) for one in allocator.asleep()] == [(3, sum(block.nbytes for block in blocks))]
    allocator.wake(TAGS[0])
    assert allocator.statistics().all.reserved_bytes.current >= before
    allocator.close()
    assert upstream.null.used_bytes == 0
