"""Memory moves between the device and the host in the core as in Python: the same calls, copies and events."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.tags import tag_number

from . import native_core as core
from .test_equivalence import MIB, Pair, Python, Scripted
from .test_sleep_equivalence import TAGS, Copies, SleepyHistory, same

pytestmark = pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")

SEEDS = int(os.environ.get("CUPLUG_EQUIVALENCE_SEEDS", "8"))


class Copier:
    """Notes in the log of its upstream what is copied, and fails where that says so."""

    def __init__(self, upstream: Scripted) -> None:
        self.upstream = upstream

    def copy(self, to: int, source: int, nbytes: int) -> None:
        self.upstream.called("copy", to, source, nbytes)

    def wait(self) -> None:
        self.upstream.called("wait for copies")


class MovingHistory(SleepyHistory):
    """A random program that tags what it allocates, puts it to sleep and moves it."""

    def __init__(self, seed: int, sides: Any = None) -> None:
        super().__init__(seed)
        old = self.pair
        old.sides[1].destroy()
        memory, page = old.upstreams[0].null.total_bytes, old.upstreams[0].virtual.granularity
        failures, hook = old.upstreams[0].failures, self.chance.random() < 0.5
        upstreams = Scripted(seed, memory, 0, page), Scripted(seed, memory, 0, page)
        options = {"host": self.chance.choice([16, 64]) * MIB, "aliases": self.chance.choice([0, 2])}
        self.pair = sides(upstreams, options) if sides else Pair("expandable", upstreams, options)
        for at, upstream in enumerate(upstreams):
            upstream.failures = failures
            if hook:
                self.pair.sides[at].set_hook(lambda _nbytes, _stream, side=at: self.free_from_hook(side))
        self.keepers = tuple(Copies(upstream) for upstream in upstreams)
        self.copiers = tuple(Copier(upstream) for upstream in upstreams)
        self.moved = {True: 0, False: 0}

    def go(self, operations: int) -> None:
        for _ in range(operations):
            super().go(1)
            tag, host = tag_number(self.chance.choice(TAGS)), self.chance.random() < 0.5
            asleep = {one[0] for one in self.pair.sides[0].asleep()}
            assert tag is not None
            if tag not in asleep:
                self.moved[host] += same(self.pair.do("move", tag, int(host), self.copiers))
                self.forget_hook_freed()
            self.pair.same("segments")
            self.pair.same("statistics")


def test_random_programs_that_move_memory_go_the_same_way() -> None:
    moved = {True: 0, False: 0}
    for seed in range(SEEDS):
        history = MovingHistory(seed)
        try:
            history.go(40)
            history.finish()
            assert history.pair.sides[1].copies == 0
            moved = {host: nbytes + history.moved[host] for host, nbytes in moved.items()}
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert all(moved.values())


@pytest.mark.skipif(not is_available(), reason="the native allocators are not used")
def test_they_go_the_same_way_through_the_binding() -> None:
    from cuplug.allocators.native.strategies import NativeExpandable

    def sides(upstreams: tuple[Scripted, Scripted], options: dict[str, Any]) -> Pair:
        pair = Pair.__new__(Pair)
        pair.upstreams = upstreams
        made = ExpandableAllocator(upstreams[0], **options), NativeExpandable(upstreams[1], **options)
        pair.sides = Python(made[0]), Python(made[1])
        for side in pair.sides:
            side.observe()
        return pair

    for seed in range(SEEDS):
        history = MovingHistory(seed, sides)
        try:
            history.go(25)
            for upstream in history.pair.upstreams:
                upstream.failures = 0
            history.pair.do("close")
            history.pair.same("statistics")
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_core_refuses_what_sleeps_and_a_missing_copier() -> None:
    number = tag_number(TAGS[0])
    assert number is not None
    native = core.Core("expandable", Scripted(0, 1 << 30, 0, 2 << 20), host=64 * MIB)
    native.set_memory_tag(number)
    try:
        native.allocate(100, 0)
        native.sleep(number, None)
        with pytest.raises(RuntimeError, match="the core answers 10"):
            native.move(number, 1, Copier(native._upstream))
        native.wake(number)
        with pytest.raises((RuntimeError, ValueError)):
            native.move(number, 1, None)
    finally:
        native.set_memory_tag(0)
        native.close()
        native.destroy()
