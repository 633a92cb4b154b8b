"""The bound on what ``expandable`` keeps, whatever a program does: the programs are those of ``caching``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.private_streams import names_pool
from cuplug.allocators.upstreams.null import NullUpstream

from .test_segments import PROGRAMS, SEEDS, Step

MIB = 1 << 20


def idle_bytes(allocator: ExpandableAllocator) -> int:
    """What the pages hold that are free as a whole, and may go elsewhere."""
    spaces = allocator._spaces.movable()
    pages = [page for space in spaces for span in space.free_spans() for page in space.whole_pages(span)]
    return sum(page.nbytes for page in pages)


def check_the_bound(allocator: ExpandableAllocator, steps: Iterator[Step]) -> None:
    """Take the steps. Whenever pages were created, what is in use or idle is within 5/4 of the most asked for at once,
    and 64 MiB; or nothing is idle."""
    blocks = []
    streams: set[int] = set()
    most = created = 0
    for what, number, stream in steps:
        if what == "free":
            if blocks[number] is not None:
                allocator.free(blocks[number])
        elif what == "forget":
            allocator.forget_stream(stream)
        else:
            try:
                blocks.append(allocator.allocate(number, stream=stream))
            except OutOfMemoryError:
                blocks.append(None)
                continue
            streams.add(stream)
            counted = allocator.statistics()
            most = max(most, counted.all.active_bytes.peak)
            before, created = created, counted.num_device_alloc
            if created > before and not names_pool(stream):  # under capture nothing may move
                idle, in_use = idle_bytes(allocator), counted.all.active_bytes.current
                assert idle == 0 or in_use + idle <= most + most // 4 + 64 * MIB


@pytest.mark.parametrize("memory", [1 << 50, 3 << 30], ids=["much memory", "3 GiB"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_idle_stays_within_a_quarter_of_the_most_that_was_asked_for(
    program: Callable[[random.Random], Iterator[Step]], memory: int
) -> None:
    for seed in range(SEEDS):
        try:
            check_the_bound(ExpandableAllocator(NullUpstream(memory)), program(random.Random(seed)))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_without_the_limit_on_new_pages_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExpandableAllocator, "_creatable", lambda *_: 1 << 50)
    with pytest.raises(AssertionError):
        check_the_bound(ExpandableAllocator(NullUpstream()), PROGRAMS[3](random.Random(0)))
