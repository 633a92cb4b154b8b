"""Which pages `expandable` moves, and how many it reserves, does not depend on how far the device has come."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.upstreams.null import NullUpstream

from . import native_core as core

MIB = 1 << 20
SIZES = [512, 300_000, MIB, 3 * MIB, 7 * MIB, 9 * MIB + 512, 20 * MIB, 50 * MIB]


class Late(NullUpstream):
    """Its fences pass ``late`` steps of the program after they were made, or when somebody waits for them."""

    def __init__(self, late: int) -> None:
        super().__init__(1 << 34)
        self.late, self.now, self.waits = late, 0, 0
        self.calls_in_order: list[tuple[object, ...]] = []
        virtual: Any = self.virtual
        for name in ("create_page", "map", "unmap", "release_page"):
            setattr(virtual, name, self.noted(name, getattr(virtual, name)))

    def noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def note(*arguments: int) -> Any:
            self.calls_in_order.append((name, *arguments))
            return call(*arguments)

        return note

    def fence(self, stream: int) -> Any:
        super().fence(stream)
        return LateFence(self)


class LateFence:
    def __init__(self, upstream: Late) -> None:
        self.upstream, self.made_at, self.passed = upstream, upstream.now, False

    def done(self) -> bool:
        return self.passed or self.upstream.now - self.made_at >= self.upstream.late

    def wait(self) -> None:
        self.upstream.waits += not self.done()
        self.passed = True


def in_python(upstream: Late) -> tuple[Callable[[int, int], Any], Callable[[Any], int], Callable[[Any], None]]:
    allocator = ExpandableAllocator(upstream)
    return lambda nbytes, stream: allocator.allocate(nbytes, stream=stream), int, allocator.free


def in_the_core(upstream: Late) -> tuple[Callable[[int, int], Any], Callable[[Any], int], Callable[[Any], None]]:
    allocator = core.Core("expandable", upstream)
    return allocator.allocate, allocator.address, allocator.free


needs_compiler = pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")


@pytest.mark.parametrize("form", [in_python, pytest.param(in_the_core, marks=needs_compiler)])
def test_a_program_takes_the_same_pages_whether_fences_pass_early_or_late(form: Callable[[Late], Any]) -> None:
    def run(late: int) -> Late:
        upstream = Late(late)
        allocate, address, free = form(upstream)
        chance = random.Random(5)
        live: list[Any] = []
        for _ in range(500):
            upstream.now += 1
            if live and chance.random() < 0.48:
                free(live.pop(chance.randrange(len(live))))
            else:
                live.append(allocate(chance.choice(SIZES), chance.randint(1, 2)))
                upstream.calls_in_order.append(("block", address(live[-1])))
        return upstream

    early, later, last = run(0), run(20), run(1 << 30)
    assert early.calls_in_order == later.calls_in_order == last.calls_in_order
    assert early.waits < later.waits <= last.waits
    assert sum(call[0] == "unmap" for call in early.calls_in_order) > 20


@pytest.mark.parametrize("form", [in_python, pytest.param(in_the_core, marks=needs_compiler)])
def test_a_program_that_repeats_itself_comes_to_rest(form: Callable[[Late], Any]) -> None:
    calls, reserved = at_rest(form)
    assert calls[1] > 5
    assert calls[3:] == [0, 0, 0]
    assert reserved == sorted(reserved)


@needs_compiler
def test_a_program_that_repeats_itself_takes_the_same_pages_in_both_forms() -> None:
    assert at_rest(in_python) == at_rest(in_the_core)


def at_rest(form: Callable[[Late], Any]) -> tuple[list[int], list[int]]:
    """Of each iteration of a program: how often pages were mapped and unmapped, and the bytes mapped at its end."""
    upstream = Late(0)
    allocate, _, free = form(upstream)
    calls, reserved = [], []
    for _ in range(6):
        before = len(upstream.calls_in_order)
        chance = random.Random(16)
        live: list[Any] = []
        for at in range(1200):
            if live and chance.random() < (0.35 if at < 660 else 0.7):
                free(live.pop(max(0, len(live) - 1 - int(chance.expovariate(1 / 6)))))
            else:
                small = chance.random() < 0.2
                live.append(allocate(chance.randint(1, 100_000 if small else 24 * MIB), 1))
        for block in live:
            free(block)
        calls.append(len(upstream.calls_in_order) - before)
        reserved.append(upstream.used_bytes)
    return calls, reserved
