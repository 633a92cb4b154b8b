"""The native core does what the strategies in Python do: the same addresses, calls upstream, events and statistics."""

from __future__ import annotations

import functools
import os
import random
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.tags import tag_name, tag_number
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.program import Program, decode

from . import native_core as core

pytestmark = pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")

SEEDS = int(os.environ.get("CUPLUG_EQUIVALENCE_SEEDS", "60" if "CUPLUG_THOROUGH" in os.environ else "25"))
OPERATIONS = int(os.environ.get("CUPLUG_EQUIVALENCE_OPERATIONS", "400"))
KIB, MIB = 1 << 10, 1 << 20
FORMS: dict[str, Any] = {"caching": CachingAllocator, "expandable": ExpandableAllocator, "planned": PlannedAllocator}
STREAMS = [0, 7, 7 | 3 << 48, 9, (1 << 63) | 11]  # the third names a private pool


class Scripted:
    """An upstream whose answers depend on its seed and on the calls so far alone. It keeps a list of them."""

    plans_at_once = True

    def __init__(self, seed: int, memory: int, failures: float, page_granularity: int) -> None:
        self.granularity = 512
        self.log: list[tuple[Any, ...]] = []
        self.failures = failures
        self.chance = random.Random(seed)
        self.null = NullUpstream(memory, page_granularity=page_granularity, host_bytes=min(memory, 64 * MIB))
        self.virtual = ScriptedVirtual(self)
        self.made: dict[int, int] = {}
        self.passed: dict[int, int] = {}

    def called(self, name: str, *arguments: int) -> None:
        self.log.append((name, *arguments))
        if self.chance.random() < self.failures:
            raise DriverError(700, "CUDA_ERROR_ILLEGAL_ADDRESS", name)

    def reserve(self, nbytes: int) -> int:
        self.called("reserve", nbytes)
        return self.null.reserve(nbytes)

    def release(self, address: int) -> None:
        self.called("release", address)
        self.null.release(address)

    def memory_info(self) -> tuple[int, int]:
        self.called("memory_info")
        return self.null.memory_info()

    def fence(self, stream: int) -> ScriptedFence:
        self.called("fence", stream)
        self.made[stream] = number = self.made.get(stream, 0) + 1
        return ScriptedFence(self, stream, number)


class ScriptedFence:
    def __init__(self, upstream: Scripted, stream: int, number: int) -> None:
        self.upstream, self.stream, self.number = upstream, stream, number

    def done(self) -> bool:
        upstream = self.upstream
        upstream.called("done", self.stream, self.number)
        if upstream.chance.random() < 0.3:
            self.pass_()
        return upstream.passed.get(self.stream, 0) >= self.number

    def wait(self) -> None:
        self.upstream.called("wait", self.stream, self.number)
        self.pass_()

    def pass_(self) -> None:
        passed = self.upstream.passed
        passed[self.stream] = max(self.number, passed.get(self.stream, 0))


class ScriptedVirtual:
    def __init__(self, upstream: Scripted) -> None:
        self.upstream = upstream
        self.inner = upstream.null.virtual
        assert self.inner is not None
        self.granularity = self.inner.granularity

    def __getattr__(self, name: str) -> Any:
        inner, called = getattr(self.inner, name), self.upstream.called

        def call(*arguments: int) -> Any:
            called(name, *arguments)
            return inner(*arguments)

        return call


class Python:
    """A strategy in Python, with the methods of ``core.Core``."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self.seen: list[tuple[int, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.allocator, name)

    def allocate(self, nbytes: int, stream: int) -> Any:
        return self.allocator.allocate(nbytes, stream=stream)

    def address(self, block: Any) -> int:
        return int(block.address)

    def nbytes(self, block: Any) -> int:
        return int(block.nbytes)

    def set_memory_limit(self, limit: int | None) -> None:
        self.allocator.memory_limit = limit

    def set_hook(self, hook: Any) -> None:
        self.allocator.on_out_of_memory = hook

    def sleep(self, tag: int, keep: Any) -> int:
        return self.allocator.sleep(tag_name(tag), keep=keep)

    def wake(self, tag: int) -> int:
        return self.allocator.wake(tag_name(tag))

    def move(self, tag: int, to_host: int, copier: Any) -> int:
        return self.allocator.move(tag_name(tag), "host" if to_host else "device", copier=copier)

    def asleep(self) -> list[tuple[int | None, ...]]:
        return [(tag_number(one.tag), one.blocks, one.nbytes, one.kept_bytes) for one in self.allocator.asleep()]

    def observe(self) -> None:
        self.allocator.attach(
            lambda kind, _time, _thread, stream, address, nbytes, requested, context: self.seen.append(
                (int(kind), stream, address, nbytes, requested, context)
            )
        )

    def events(self) -> list[tuple[int, ...]]:
        seen, self.seen = self.seen, []
        return seen

    def served(self) -> tuple[int, ...]:
        counted = self.allocator.served()  # type: ignore[attr-defined]
        return counted.requests, counted.requested_bytes, counted.planned_requests, counted.planned_bytes

    def statistics(self) -> dict[str, Any]:
        return core.flat(self.allocator.statistics())

    def segments(self) -> list[tuple[Any, ...]]:
        return [
            (s.address, s.nbytes, s.stream, s.pool, s.expandable, tag_number(s.tag), s.asleep,
             s.host, tuple((b.address, b.nbytes, b.requested, b.state) for b in s.blocks))
            for s in self.allocator.segments()
        ]  # fmt: skip


class Pair:
    """The two, and what they answer, side by side."""

    def __init__(
        self,
        strategy: str,
        upstreams: tuple[Scripted, Scripted],
        options: dict[str, Any],
        of_the_core: dict[str, Any] | None = None,
    ) -> None:
        self.upstreams = upstreams
        self.sides: tuple[Any, Any] = (
            Python(FORMS[strategy](upstreams[0], **options)),
            core.Core(strategy, upstreams[1], **options, **(of_the_core or {})),
        )
        for side in self.sides:
            side.observe()

    def do(self, name: str, *arguments: tuple[Any, Any] | int | None) -> tuple[Any, Any] | None:
        """Call both, and compare everything that can be seen. The results, or None if both failed."""
        outcomes = []
        for at, side in enumerate(self.sides):
            given = [argument[at] if isinstance(argument, tuple) else argument for argument in arguments]
            try:
                outcomes.append((None, getattr(side, name)(*given)))
            except (OutOfMemoryError, DriverError) as error:
                outcomes.append((type(error), None))
        assert outcomes[0][0] is outcomes[1][0]
        python, native = self.upstreams
        assert native.log == python.log
        python.log.clear()
        native.log.clear()
        if name not in ("free", "record_stream", "set_memory_limit"):  # these may tell later, in Python
            assert self.sides[1].events() == self.sides[0].events()
        return None if outcomes[0][0] is not None else (outcomes[0][1], outcomes[1][1])

    def same(self, name: str, *args: Any) -> None:
        found = self.do(name, *args)
        assert found is None or found[1] == found[0]


class History:
    """A random program on both allocators."""

    def __init__(self, strategy: str, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        failures = chance.choice([0, 0, 0.01, 0.1])
        memory = chance.choice([64, 192, 1 << 20]) * MIB
        page = chance.choice([2 * MIB, 2 * MIB, 128 * KIB])
        upstreams = tuple(Scripted(seed, memory, 0, page) for _ in range(2))
        self.pair = Pair(strategy, upstreams, options_of(strategy, chance))  # type: ignore[arg-type]
        for upstream in upstreams:
            upstream.failures = failures
        self.blocks: list[tuple[Any, Any, int]] = []
        self.sizes = chance.choice([(1, 4 * KIB), (1, 3 * MIB), (200 * KIB, 40 * MIB)])
        self.streams = STREAMS[: chance.choice([1, 3, 5])]
        if chance.random() < 0.5:
            for side in (0, 1):
                self.pair.sides[side].set_hook(lambda _nbytes, _stream, side=side: self.free_from_hook(side))
        self.hook_freed: list[Any] = [[], []]

    def free_from_hook(self, side: int) -> bool:
        """Free the two oldest blocks. Both sides are asked, one after the other, and forget them together later."""
        left = [block for block in self.blocks if block[side] not in self.hook_freed[side]]
        for block in left[:2]:
            self.hook_freed[side].append(block[side])
            self.pair.sides[side].free(block[side])
        return bool(left)

    def go(self, operations: int) -> None:
        pair, chance = self.pair, self.chance
        for _ in range(operations):
            draw = chance.random()
            if draw < 0.5:
                self.allocate()
            elif draw < 0.82 and self.blocks:
                python, native, _ = self.blocks.pop(chance.randrange(len(self.blocks)))
                pair.do("free", (python, native))
            elif draw < 0.9 and self.blocks:
                python, native, _ = chance.choice(self.blocks)
                pair.do("record_stream", (python, native), chance.choice(STREAMS))
            elif draw < 0.915:
                pair.do("forget_stream", chance.choice(STREAMS))
            elif draw < 0.92:
                pair.same("release_forgotten", chance.choice(STREAMS))
            elif draw < 0.93:
                pair.same("release_cached")
            elif draw < 0.95:
                pair.same("segments")
            elif draw < 0.96:
                pair.do("set_memory_limit", chance.choice([None, 32 * MIB, 100 * MIB]))
            elif draw < 0.97:
                pair.do(chance.choice(["reset_peaks", "reset_accumulated"]))
            elif draw < 0.98:
                self.free_all()
            else:
                pair.same("statistics")
            self.forget_hook_freed()
        pair.same("statistics")
        pair.same("segments")

    def allocate(self) -> None:
        low, high = self.sizes
        nbytes = int(low * (high / low) ** self.chance.random())
        made = self.pair.do("allocate", nbytes, self.chance.choice(self.streams))
        if made is not None:
            python, native = self.pair.sides
            assert native.address(made[1]) == python.address(made[0])
            assert native.nbytes(made[1]) == python.nbytes(made[0])
            self.blocks.append((*made, nbytes))

    def free_all(self) -> None:
        while self.blocks:
            python, native, _ = self.blocks.pop(0)
            self.pair.do("free", (python, native))

    def forget_hook_freed(self) -> None:
        if not self.hook_freed[0]:
            return
        gone = self.hook_freed
        assert len(gone[0]) == len(gone[1])
        self.blocks = [block for block in self.blocks if not any(block[0] is freed for freed in gone[0])]
        self.hook_freed = [[], []]

    def finish(self) -> None:
        for upstream in self.pair.upstreams:
            upstream.failures = 0
        self.pair.do("close")
        self.pair.same("statistics")
        self.pair.same("segments")
        self.pair.sides[1].destroy()
        assert self.pair.sides[1].fences == 0


STRATEGIES: list[tuple[str, dict[str, Any]]] = [
    ("caching", {}),
    ("caching", {"preset": "torch"}),
    ("expandable", {}),
    ("expandable", {"aliases": 0}),
    ("expandable", {"preset": "torch"}),
]
HISTORIES = {"gpt2_varlen": "data/traces", "resnet_multiscale": "../tools/data"}


@pytest.mark.parametrize(("strategy", "options"), STRATEGIES)
@pytest.mark.parametrize("name", sorted(HISTORIES))
def test_recorded_histories_go_the_same_way_on_both(name: str, strategy: str, options: dict[str, Any]) -> None:
    (program,) = recorded(Path(__file__).parents[1].joinpath(HISTORIES[name]) / f"{name}.pickle.xz")
    follow(program, strategy, options)


@functools.cache
def recorded(path: Path) -> list[Program]:
    """A recorded history, read once: it takes a second and more."""
    return decode(load(path))


def follow(program: Program, strategy: str, options: dict[str, Any]) -> float:
    """Compare the two on a recorded history. The seconds that it took natively, unobserved."""
    upstream = NullUpstream()
    python = Python(FORMS[strategy](upstream, **options))
    native, unobserved = core.Core(strategy, None, **options), core.Core(strategy, None, **options)
    for side in (python, native):
        side.observe()
    blocks: dict[int, Any] = {}
    for step in program.steps:
        if step > 0:
            blocks[step] = python.allocate(program.sizes[step - 1], program.streams[step - 1])
        else:
            python.free(blocks.pop(-step))
    replayed, _ = native.replay(program.steps, program.sizes, program.streams)
    assert (replayed.done, replayed.out_of_memory) == (len(program.steps), 0)
    seconds = float(unobserved.replay(program.steps, program.sizes, program.streams)[1])
    expected = {**upstream.calls, "fences": upstream.fences, "driver_time_us": upstream.driver_time_us,
                "used_bytes": upstream.used_bytes, "total_bytes": upstream.total_bytes,
                "pages": upstream.virtual.pages if upstream.virtual else 0,
                "used_host_bytes": upstream.used_host_bytes}  # fmt: skip
    counted, segments = python.statistics(), python.segments()
    assert native.events() == python.events()
    for side in (native, unobserved):
        assert side.statistics() == counted
        assert {name: count for name, count in side.null_counts().items() if count} == {
            name: count for name, count in expected.items() if count
        }
        assert side.segments() == segments
        side.close()
        assert side.null_counts()["used_bytes"] == 0
        side.destroy()
    return seconds


def options_of(strategy: str, chance: random.Random) -> dict[str, Any]:
    limit = chance.choice([None, None, 48 * MIB])
    if strategy == "expandable":
        return {
            "memory_limit": limit,
            "slack": chance.choice([0, 8 * MIB, 48 * MIB]),
            "aliases": chance.choice([0, 0, 1, 4]),
            "preset": chance.choice(["cuplug", "cuplug", "torch"]),
            "roundup_power2_divisions": chance.choice([0, 0, 4]),
            "host": chance.choice([0, 0, 16 * MIB, 100 * MIB]),
        }
    return {
        "memory_limit": limit,
        "preset": chance.choice(["cuplug", "torch"]),
        "memory_fraction": chance.choice([None, None, 0.5]),
        "garbage_collection_threshold": chance.choice([0.0, 0.0, 0.3]),
        "max_split_size": chance.choice([None, None, 24 * MIB]),
        "roundup_power2_divisions": chance.choice([0, 0, 1, 4]),
    }


@pytest.mark.parametrize("strategy", ["caching", "expandable"])
def test_random_programs_see_the_same_from_both(strategy: str) -> None:
    first = int(os.environ.get("CUPLUG_EQUIVALENCE_FIRST", "0"))
    for seed in range(first, first + SEEDS):
        history = History(strategy, seed)
        try:
            history.go(OPERATIONS)
            history.finish()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
