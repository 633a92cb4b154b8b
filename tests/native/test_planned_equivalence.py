"""``planned`` in the core does what it does in Python, call by call, whether a program follows its plan or departs.

``CUPLUG_EQUIVALENCE_SEEDS=1000`` runs that many programs.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.planning import Plan, make_cycle
from cuplug.allocators.upstreams.null import NullUpstream

from . import native_core as core
from .test_equivalence import KIB, MIB, Pair, Scripted

pytestmark = pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")

SEEDS = int(os.environ.get("CUPLUG_EQUIVALENCE_SEEDS", "60"))
STREAMS = [0, 7]


class Following:
    """A program of one or two streams that repeats itself, but for what chance has it do otherwise."""

    def __init__(self, seed: int, folder: Path, learn: int = 0) -> None:
        self.chance = chance = random.Random(seed)
        count = chance.randint(1, 40)
        largest = chance.choice([4 * KIB, MIB, 5 * MIB])
        self.sizes = [chance.randint(1, largest) for _ in range(count)]
        longest = count if learn else count + 3
        self.lives = [chance.choice([1, 2, chance.randint(1, count), longest]) for _ in range(count)]
        self.streams = STREAMS[: chance.choice([1, 2])]
        self.path = folder / f"{seed}.plan"
        cycles = [make_cycle(stream, self.requests(), seconds=0) for stream in chance.choice([[0], [0, 7], [7, 0]])]
        self.path.write_text(Plan([cycle for cycle in cycles if cycle is not None]).to_text())
        upstreams = tuple(
            Scripted(seed, chance.choice([64, 1 << 20]) * MIB, 0, chance.choice([2 * MIB, 128 * KIB])) for _ in "12"
        )
        upstreams[1].null.total_bytes = upstreams[0].null.total_bytes
        page = upstreams[0].virtual.granularity
        upstreams = tuple(Scripted(seed, upstreams[0].null.total_bytes, 0, page) for _ in "12")
        options = {
            "plan": None if learn else str(self.path),
            "learn": learn,
            "memory_limit": chance.choice([None, None, 48 * MIB]),
            "slack": chance.choice([0, 8 * MIB]),
            "aliases": chance.choice([0, 4]),
        }
        self.pair = Pair("planned", upstreams, options, {"at_once": 1})  # type: ignore[arg-type]
        failures = chance.choice([0, 0, 0.01, 0.05])
        for upstream in upstreams:
            upstream.failures = failures
        self.departs = chance.choice([0, 0.002, 0.01] if learn else [0, 0.02, 0.2])
        self.live: list[tuple[Any, Any]] = []

    def requests(self) -> list[tuple[int, int]]:
        """As a recording of five repetitions has them."""
        count = len(self.sizes)
        return [
            (-(-self.sizes[at % count] // 512) * 512, end if (end := at + self.lives[at % count]) <= 5 * count else -1)
            for at in range(5 * count)
        ]

    def go(self, repetitions: int) -> None:
        count = len(self.sizes)
        due: dict[tuple[int, int], list[tuple[Any, Any]]] = {}
        for at in range(repetitions * count):
            for stream in self.streams:
                for block in due.pop((at, stream), []):
                    if block in self.live and not self.by_chance(0.5):
                        self.free(block)
                if self.by_chance():
                    self.depart()
                if self.by_chance():
                    continue
                nbytes = self.sizes[at % count] + (600 if self.by_chance() else 0)
                made = self.allocate(nbytes, stream)
                if made is not None:
                    due.setdefault((at + self.lives[at % count], stream), []).append(made)
        for name in ("served", "statistics", "segments"):
            self.pair.same(name)

    def by_chance(self, part: float = 1.0) -> bool:
        return self.chance.random() < self.departs * part

    def allocate(self, nbytes: int, stream: int) -> tuple[Any, Any] | None:
        made = self.pair.do("allocate", nbytes, stream)
        if made is None:
            return None
        python, native = self.pair.sides
        assert native.address(made[1]) == python.address(made[0])
        self.live.append(made)
        return made

    def free(self, block: tuple[Any, Any]) -> None:
        self.live.remove(block)
        self.pair.do("free", block)

    def depart(self) -> None:
        pair, chance = self.pair, self.chance
        draw = chance.random()
        if draw < 0.4:
            self.allocate(chance.randint(1, 6 * MIB), chance.choice([*STREAMS, 9]))
        elif draw < 0.6 and self.live:
            self.free(chance.choice(self.live))
        elif draw < 0.7 and self.live:
            pair.do("record_stream", chance.choice(self.live), chance.choice([*STREAMS, 9]))
        elif draw < 0.8:
            pair.same("release_cached")
        elif draw < 0.86:
            pair.do("forget_stream", chance.choice(STREAMS))
        elif draw < 0.88:
            pair.same("release_forgotten", chance.choice(STREAMS))
        elif draw < 0.94:
            pair.do("set_memory_limit", chance.choice([None, 32 * MIB]))
        else:
            for _ in range(20):
                self.allocate(chance.randint(1, 64 * KIB), chance.choice(STREAMS))

    def finish(self) -> None:
        for upstream in self.pair.upstreams:
            upstream.failures = 0
        self.pair.do("close")
        self.pair.same("statistics")
        self.pair.same("segments")
        self.pair.sides[1].destroy()
        assert self.pair.sides[1].fences == 0


def test_programs_that_follow_their_plan_and_depart_see_the_same_from_both(tmp_path: Path) -> None:
    first = int(os.environ.get("CUPLUG_EQUIVALENCE_FIRST", "0"))
    planned = 0
    for seed in range(first, first + SEEDS):
        program = Following(seed, tmp_path)
        try:
            program.go(6)
            planned += program.pair.sides[0].served()[2]
            program.finish()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert planned > 20 * SEEDS  # else they would not be about plans


def test_what_is_learnt_from_such_programs_is_the_same_in_both(tmp_path: Path) -> None:
    first = int(os.environ.get("CUPLUG_EQUIVALENCE_FIRST", "0"))
    seeds = SEEDS if "CUPLUG_EQUIVALENCE_SEEDS" in os.environ else SEEDS // 3  # twenty iterations of each
    planned = 0
    for seed in range(first, first + seeds):
        program = Following(seed, tmp_path, learn=3 + seed % 2)
        try:
            program.go(20)
            planned += program.pair.sides[0].served()[2]
            program.finish()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert planned > 40 * seeds  # else they would learn nothing


def cycle_text(requests: str, *, begin: int = 0, height: int = 512) -> str:
    cycle = f'{{"stream":0,"begin":{begin},"height":{height},"bound":0,"requests":{requests}}}'
    return f'{{"format":"cuplug plan","version":2,"cycles":[{cycle}]}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format":"another","version":2,"cycles":[]}',
        '{"format":"cuplug plan","version":3,"cycles":[]}',
        cycle_text("[[512,512]]"),
        cycle_text("[[512,-1]]", height=-1),
        cycle_text("[[512,0]]", begin=1),
        cycle_text("[[513,0]]"),
        cycle_text("[[512]]"),
        cycle_text("[]"),
        cycle_text("[[512,0]") + "}",
    ],
)
def test_the_core_refuses_the_files_that_python_refuses(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.plan"
    path.write_text(cycle_text("[[512,0]]"))
    for right in (PlannedAllocator(NullUpstream(), plan=str(path)), core.Core("planned", None, plan=str(path))):
        right.close()
    path.write_text(text)
    with pytest.raises(CuplugError):
        PlannedAllocator(NullUpstream(), plan=str(path))
    with pytest.raises(RuntimeError, match="the core answers"):
        core.Core("planned", None, plan=str(path))


def test_the_core_takes_the_part_of_a_plan_that_is_its_devices(tmp_path: Path) -> None:
    requests = [(4096 if at % 2 else 8192, at + 1) for at in range(40)]
    cycle = make_cycle(0, requests, seconds=0)
    assert cycle is not None
    path = tmp_path / "a.plan"
    path.write_text(Plan([cycle]).to_text().replace('"device":0', '"device":1'))
    for device, expected in ((0, False), (1, True)):
        allocator = core.Core("planned", None, plan=str(path), device=device)
        for nbytes in [8192, 4096] * 8:
            allocator.free(allocator.allocate(nbytes, 0))
        assert (allocator.served()[2] > 0) is expected
        allocator.close()
        allocator.destroy()
