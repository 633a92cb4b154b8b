"""Through the binding too, native and Python see and do the same, also when calls upstream are interrupted."""

from __future__ import annotations

import os
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available, why_not

from .test_equivalence import STREAMS, History, Pair, Python, Scripted, recorded

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable

FIRST = int(os.environ.get("CUPLUG_BINDING_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("CUPLUG_BINDING_SEEDS", "20")))
TRACES = os.environ.get("CUPLUG_TRACES")
"""A folder of recorded histories to compare on, besides the one that comes with the tests."""
FORMS: dict[str, tuple[Any, Any]] = {
    "caching": (CachingAllocator, NativeCaching),
    "expandable": (ExpandableAllocator, NativeExpandable),
}
MIB = 1 << 20


class BoundPair(Pair):
    """A strategy in Python, and the native one as Python sees it."""

    def __init__(self, strategy: str, upstreams: tuple[Any, Any], options: dict[str, Any]) -> None:
        self.upstreams = upstreams
        python, native = FORMS[strategy]
        self.sides = (Python(python(upstreams[0], **options)), Python(native(upstreams[1], **options)))
        for side in self.sides:
            side.observe()


class BoundHistory(History):
    """A random program on both."""

    def __init__(self, strategy: str, seed: int) -> None:
        super().__init__(strategy, seed)
        old = self.pair
        chance = random.Random(seed)
        memory = chance.choice([64, 192, 1 << 20]) * MIB
        upstreams = tuple(Scripted(seed, memory, 0, 2 * MIB) for _ in range(2))
        limit = chance.choice([None, 48 * MIB])
        self.pair = BoundPair(strategy, upstreams, {"memory_limit": limit})  # type: ignore[arg-type]
        for mine, theirs in zip(upstreams, old.upstreams, strict=True):
            mine.failures = theirs.failures
        old.sides[1].destroy()
        if old.sides[0].allocator.on_out_of_memory is not None:
            for side in (0, 1):
                self.pair.sides[side].set_hook(lambda _nbytes, _stream, side=side: self.free_from_hook(side))

    def finish(self) -> None:
        for upstream in self.pair.upstreams:
            upstream.failures = 0
        self.pair.do("close")
        self.pair.same("statistics")
        self.pair.same("segments")


@pytest.mark.parametrize("strategy", FORMS)
def test_random_programs_see_the_same_through_the_binding(strategy: str) -> None:
    for seed in SEEDS:
        history = BoundHistory(strategy, seed)
        try:
            history.go(200)
            history.finish()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize(("left", "pages"), [(8192, 4), (640, 32)])
def test_pages_after_all_was_given_back_are_as_large_as_what_is_left_allows(left: int, pages: int) -> None:
    """8 MiB are 1/224 of the 2 GiB that were reserved, 1 MiB of half of what others have left."""
    upstreams: Any = tuple(Scripted(0, 4096 * MIB, 0, 128 << 10) for _ in range(2))
    pair = BoundPair("expandable", upstreams, {})
    blocks = [pair.do("allocate", 64 * MIB, 0) for _ in range(32)]
    for block in blocks:
        pair.do("free", block)
    pair.same("release_cached")
    assert upstreams[0].null.used_bytes == 0
    for upstream in upstreams:
        upstream.null.total_bytes = left * MIB
    pair.do("allocate", 32 * MIB, 0)
    assert [upstream.virtual.inner.pages for upstream in upstreams] == [pages, pages]
    pair.same("statistics")


def test_what_private_pools_have_left_is_asked_for_by_neither_after_closing_has_failed() -> None:
    upstreams: Any = tuple(Scripted(0, 64 * MIB, 0, 2 * MIB) for _ in range(2))
    pair = BoundPair("expandable", upstreams, {})
    pair.do("free", pair.do("allocate", 8 * MIB, STREAMS[2]))
    for upstream in upstreams:
        upstream.failures = 1
    assert pair.do("close") is None
    for upstream in upstreams:
        upstream.failures = 0
    pair.same("segments")
    pair.do("close")
    assert [upstream.null.used_bytes for upstream in upstreams] == [0, 0]


def test_a_stream_that_could_not_be_forgotten_keeps_its_pools_place() -> None:
    upstreams: Any = tuple(Scripted(0, 64 * MIB, 0, 2 * MIB) for _ in range(2))
    pair = BoundPair("caching", upstreams, {})
    pair.do("free", pair.do("allocate", 1000, 7))
    pair.same("release_cached")
    pair.do("free", pair.do("allocate", 8 * MIB, 7))
    for upstream in upstreams:
        upstream.failures = 1
    assert pair.do("forget_stream", 7) is None
    for upstream in upstreams:
        upstream.failures = 0
    blocks = [pair.do("allocate", 1000, stream) for stream in (9, 7)]
    for block in blocks:
        pair.do("free", block)
    pair.same("release_cached")


class Interrupted(Scripted):
    """Raises KeyboardInterrupt now and then, before the call has had any effect."""

    interrupts = 0.0

    def called(self, name: str, *arguments: int) -> None:
        super().called(name, *arguments)
        if self.chance.random() < self.interrupts:
            raise KeyboardInterrupt


@pytest.mark.parametrize("strategy", FORMS)
def test_interrupts_in_calls_upstream_lose_nothing(strategy: str) -> None:
    for seed in SEEDS:
        chance = random.Random(seed)
        upstream = Interrupted(seed, 96 * MIB, 0, 2 * MIB)
        allocator = FORMS[strategy][1](upstream)
        upstream.interrupts = 0.1
        live: list[Any] = []
        interrupts = 0
        for _ in range(200):
            try:
                draw = chance.random()
                if draw < 0.5 or not live:
                    live.append(allocator.allocate(int(2 ** (chance.random() * 24)), stream=chance.choice(STREAMS)))
                elif draw < 0.8:
                    allocator.free(live.pop(chance.randrange(len(live))))
                elif draw < 0.9:
                    allocator.record_stream(chance.choice(live), chance.choice(STREAMS))
                elif draw < 0.95:
                    stream = chance.choice(STREAMS)
                    allocator.forget_stream(stream)
                    if draw > 0.93:
                        allocator.release_forgotten(stream)
                else:
                    allocator.release_cached()
            except (KeyboardInterrupt, OutOfMemoryError) as error:
                interrupts += isinstance(error, KeyboardInterrupt)
            check(allocator, upstream, live)
        assert interrupts
        upstream.interrupts = 0
        for block in live:
            allocator.free(block)
        allocator.close()
        assert upstream.null.used_bytes == 0


def check(allocator: Any, upstream: Interrupted, live: list[Any]) -> None:
    """Everything agrees with what the program holds and with what upstream has given."""
    interrupts, upstream.interrupts = upstream.interrupts, 0
    counted = allocator.statistics().all
    segments = allocator.segments()
    held = allocator.live_blocks()
    upstream.interrupts = interrupts
    assert [block.address for block in held] == sorted(block.address for block in live)
    assert all(block.live for block in live)
    assert counted.allocation.current == len(live)
    assert counted.requested_bytes.current == sum(block.requested for block in live)
    assert counted.reserved_bytes.current == sum(segment.nbytes for segment in segments)
    # Of a page whose mapping and whose release were both interrupted the release is made up for later.
    strays = upstream.null.used_bytes - counted.reserved_bytes.current
    assert strays >= 0 if isinstance(allocator, NativeExpandable) else strays == 0
    pieces = [piece for segment in segments for piece in segment.blocks]
    assert sum(piece.nbytes for piece in pieces) == counted.reserved_bytes.current
    assert [piece.address for piece in pieces if piece.state == "active_allocated"] == [int(block) for block in held]
    ends = [(segment.address, segment.address + segment.nbytes) for segment in segments]
    assert all(first[1] <= second[0] for first, second in pairwise(ends))


def histories() -> list[Path]:
    folder = Path(TRACES) if TRACES else Path(__file__).parents[1] / "data" / "traces"
    return sorted(folder.glob("*.pickle.xz")) if TRACES else [folder / "llm_decode.pickle.xz"]


@pytest.mark.parametrize("strategy", FORMS)
@pytest.mark.parametrize("path", histories(), ids=lambda path: path.name.partition(".")[0])
def test_recorded_histories_are_the_same_through_the_binding(path: Path, strategy: str) -> None:
    for program in recorded(path):
        pair = BoundPair(strategy, tuple(Scripted(0, 1 << 50, 0, 2 * MIB) for _ in range(2)), {})  # type: ignore[arg-type]
        blocks: dict[int, Any] = {}
        for step in program.steps if TRACES else program.steps[:8_000]:
            if step > 0:
                made = pair.do("allocate", program.sizes[step - 1], program.streams[step - 1])
                assert made is not None
                assert made[0].address == made[1].address
                blocks[step] = made
            else:
                pair.do("free", blocks.pop(-step))
        pair.same("statistics")
        pair.same("segments")
