"""An exception at any line while memory falls asleep or wakes leaves it asleep or awake, with its contents."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from cuplug.allocators.block import Block
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.tags import memory_tag

from .test_interrupts import Injection, InjectsAtLine, run_apart

MIB = 1 << 20
PAGE = 2 * MIB


class Contents:
    """Passes calls of virtual memory on. What stands in a block is known by the pages that it was written to."""

    def __init__(self, upstream: Any) -> None:
        self.inner = upstream.virtual
        self.granularity = self.inner.granularity
        self.handles: dict[int, int] = {}
        self.written: dict[int, list[int | None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        self.inner.map(address, nbytes, handle)
        self.handles.update(dict.fromkeys(range(address, address + nbytes, PAGE), handle))

    def unmap(self, address: int, nbytes: int) -> None:
        self.inner.unmap(address, nbytes)
        for at in range(address, address + nbytes, PAGE):
            del self.handles[at]

    def write(self, address: int, nbytes: int) -> None:
        self.written[address] = self.pages(address, nbytes)

    def pages(self, address: int, nbytes: int) -> list[int | None]:
        return [self.handles.get(at) for at in range(address // PAGE * PAGE, address + nbytes, PAGE)]

    def keep(self, address: int, nbytes: int) -> Copy:
        pages = self.pages(address, nbytes)  # of a block that its program never got, nobody knows what it holds
        assert pages == self.written.get(address, pages), "what is copied is not there"
        return Copy(self, address, nbytes)


class Copy:
    def __init__(self, contents: Contents, address: int, nbytes: int) -> None:
        self.contents, self.address, self.nbytes = contents, address, nbytes

    def restore(self) -> None:
        self.contents.write(self.address, self.nbytes)

    def wait(self) -> None:
        pass


class Program:
    def __init__(self, manual: Any, aliases: int) -> None:
        self.manual = manual
        self.contents = manual.virtual = Contents(manual)
        self.allocator = ExpandableAllocator(manual, slack=0, aliases=aliases)
        self.live: list[Block] = []

    def allocate(self, nbytes: int, stream: int, tag: str) -> None:
        with memory_tag(tag):
            block = self.allocator.allocate(nbytes, stream=stream)
        self.contents.write(block.address, block.nbytes)
        self.live.append(block)

    def steps(self) -> Iterator[Callable[[], object]]:
        allocator = self.allocator
        for nbytes, stream, tag in ((3 * MIB, 1, "x"), (600, 1, "x"), (9 * MIB, 2, "x"), (5 * MIB, 1, "y")):
            yield lambda nbytes=nbytes, stream=stream, tag=tag: self.allocate(nbytes, stream, tag)
        yield lambda: allocator.sleep("x", keep=self.contents.keep)
        yield lambda: self.free(0)
        yield lambda: allocator.wake("x")
        yield lambda: allocator.sleep("x", keep=self.contents.keep)
        yield lambda: allocator.sleep("y", keep=self.contents.keep)
        yield lambda: self.allocate(8 * MIB, 1, "z")
        yield lambda: allocator.wake("x")
        yield lambda: self.free(-1)

    def free(self, place: int) -> None:
        self.allocator.free(self.live.pop(place))

    def check(self) -> None:
        allocator = self.allocator
        segments = allocator.segments()
        sleeping = {info.address for segment in segments if segment.asleep for info in segment.blocks}
        for block in allocator.live_blocks():
            if block.address in sleeping:
                assert not any(self.contents.pages(block.address, block.nbytes))
            elif block.address in self.contents.written:
                found = self.contents.pages(block.address, block.nbytes)
                assert found == self.contents.written[block.address], "the contents are lost"
        assert all(one.kept_bytes == one.nbytes for one in allocator.asleep())
        awake = sum(segment.nbytes for segment in segments if not segment.asleep)
        assert allocator.statistics().all.reserved_bytes.current == awake == self.manual.used_bytes
        assert allocator.statistics().all.segment.current == sum(not segment.asleep for segment in segments)

    def finish(self) -> None:
        for tag in ("x", "y"):
            self.allocator.wake(tag)
        self.check()
        assert not self.allocator.asleep()
        self.allocator.close()
        assert self.manual.used_bytes == 0


def run(program: Any, at: int) -> InjectsAtLine:
    """Go through a program's steps with an exception at that line; it checks itself after it."""
    injection = InjectsAtLine(at)
    for step in program.steps():
        if injection.where:
            with suppress(IndexError, RuntimeError):
                step()
            continue
        try:
            with injection:
                step()
        except Injection:
            sys.settrace(None)
            program.check()
    return injection


def inject_everywhere(make: Callable[[], Any]) -> None:
    """Go through a program as often as it has lines, with an exception at each, in a process of its own."""
    every = int(os.environ.get("CUPLUG_INJECT_EVERY", "61"))

    def go() -> None:
        lines = run(make(), at=-1).seen
        assert lines > 500
        for at in range(1 + lines % every, lines + 1, every):
            program = make()
            injection = run(program, at)
            try:
                program.check()
                program.finish()
            except BaseException as error:
                raise AssertionError(f"after an exception at {injection.where} (line {at} of {lines})") from error

    run_apart(go)


@pytest.mark.parametrize("aliases", [0, 2])
def test_an_exception_at_any_line_of_sleep_and_wake_loses_nothing(
    make_manual: Callable[..., Any], aliases: int
) -> None:
    inject_everywhere(lambda: Program(make_manual(96 * MIB), aliases))
