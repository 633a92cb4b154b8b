"""An exception at any line while memory moves leaves it on one side as a whole, with its contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cuplug.allocators.block import Block
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.tags import memory_tag

from .test_sleep_interrupts import inject_everywhere

MIB = 1 << 20
PAGE = 2 * MIB
Place = tuple[int, int, int]


class Memory:
    """Passes calls of virtual memory on, and copies. It knows what stands in each physical page."""

    def __init__(self, upstream: Any) -> None:
        self.inner = upstream.virtual
        self.granularity = self.inner.granularity
        self.has_host_pages = True
        self.standing: dict[int, tuple[int, int]] = {}
        """The handle of the page at each address, and which of its granules that is."""
        self.held: dict[Place, int] = {}
        """Whose contents stand where."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        self.inner.map(address, nbytes, handle)
        self.standing |= {address + at: (handle, at) for at in range(0, nbytes, PAGE)}

    def unmap(self, address: int, nbytes: int) -> None:
        self.inner.unmap(address, nbytes)
        for at in range(address, address + nbytes, PAGE):
            del self.standing[at]

    def places(self, address: int, nbytes: int) -> list[Place]:
        starts = [address, *range(address // PAGE * PAGE + PAGE, address + nbytes, PAGE)]
        return [(*self.standing[at // PAGE * PAGE], at % PAGE) for at in starts]

    def write(self, address: int, nbytes: int, whose: int) -> None:
        self.held |= dict.fromkeys(self.places(address, nbytes), whose)

    def read(self, address: int, nbytes: int) -> set[int | None]:
        return {self.held.get(place) for place in self.places(address, nbytes)}

    def copy(self, to: int, source: int, nbytes: int) -> None:
        for there, here in zip(self.places(to, nbytes), self.places(source, nbytes), strict=True):
            self.held[there] = self.held.get(here, 0)

    def wait(self) -> None:
        pass


class Program:
    def __init__(self, manual: Any, aliases: int) -> None:
        self.manual = manual
        self.memory = manual.virtual = Memory(manual)
        self.allocator = ExpandableAllocator(manual, slack=0, aliases=aliases, host=64 * MIB)
        self.live: list[Block] = []
        self.written: dict[int, int] = {}

    def allocate(self, nbytes: int, stream: int, tag: str) -> None:
        with memory_tag(tag):
            block = self.allocator.allocate(nbytes, stream=stream)
        self.written[block.address] = len(self.written) + 1
        self.memory.write(block.address, block.nbytes, self.written[block.address])
        self.live.append(block)

    def steps(self) -> Iterator[Callable[[], object]]:
        move = self.allocator.move
        for nbytes, stream, tag in ((3 * MIB, 1, "x"), (600, 1, "x"), (9 * MIB, 2, "x"), (5 * MIB, 1, "y")):
            yield lambda nbytes=nbytes, stream=stream, tag=tag: self.allocate(nbytes, stream, tag)
        yield lambda: move("x", "host", copier=self.memory)
        yield lambda: self.free(0)
        yield lambda: self.allocate(3 * MIB, 1, "x")
        yield lambda: move("x", "host", copier=self.memory)
        yield lambda: move("x", "device", copier=self.memory)
        yield lambda: move("y", "host", copier=self.memory)
        yield lambda: self.free(-1)

    def free(self, place: int) -> None:
        self.allocator.free(self.live.pop(place))

    def check(self) -> None:
        allocator = self.allocator
        segments = allocator.segments()
        for block in allocator.live_blocks():
            whose = self.written.get(block.address)
            if whose is not None and block in self.live:
                assert self.memory.read(block.address, block.nbytes) == {whose}, "the contents are lost"
        nbytes = sum(segment.nbytes for segment in segments)
        counted = allocator.statistics().all
        assert counted.reserved_bytes.current == nbytes == self.manual.used_bytes + self.manual.used_host_bytes
        assert counted.host_bytes.current == sum(s.nbytes for s in segments if s.host) == self.manual.used_host_bytes
        assert counted.segment.current == len(segments)

    def finish(self) -> None:
        for tag in ("x", "y"):
            for side in ("device", "host"):
                self.allocator.move(tag, side, copier=self.memory)  # type: ignore[arg-type]
                self.check()
        self.allocator.close()
        assert (self.manual.used_bytes, self.manual.used_host_bytes) == (0, 0)


@pytest.mark.parametrize("aliases", [0, 2])
def test_an_exception_at_any_line_of_a_move_loses_nothing(make_manual: Callable[..., Any], aliases: int) -> None:
    inject_everywhere(lambda: Program(make_manual(96 * MIB), aliases))
