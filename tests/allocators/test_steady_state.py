"""A program that repeats itself comes to rest: no driver call is made for it any more, and little is taken for that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cuplug.allocators import caching
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import ReplayResult

MIB = 1 << 20
FORMS: dict[str, Callable[..., Any]] = {"python": CachingAllocator}
if is_available():
    from cuplug.allocators.native.strategies import NativeCaching

    FORMS["native"] = NativeCaching

PASSES = {"gpt2_varlen": (3315, 43077), "resnet_multiscale": (3198, 31840)}
"""The steps of the recorded history that are to be repeated: many iterations, each of another size."""


def repeated(program: Program, begin: int, end: int, before: int, after: int) -> Program:
    """``program`` up to ``end``, and what it did from ``begin`` on ``before`` times more as set-up, then ``after``
    times. Blocks that live on into the next time are freed there in place of their likes; others at once."""
    steps = program.steps[begin:end].tolist()
    sizes, streams = program.sizes.tolist(), program.streams.tolist()
    alive = {step for step in steps if step > 0} - {-step for step in steps}
    heirs: dict[int, int] = {}
    for step in (-step for step in steps if step < 0 and -step not in steps):
        heir = next((one for one in sorted(alive) if sizes[one - 1] == sizes[step - 1]), None)
        if heir is not None:
            heirs[step] = heir
            alive.remove(heir)
    done = program.steps[:end].tolist() + [-one for one in alive]
    latest = {one: one for one in heirs.values()}
    setup = 0
    for time in range(before + after):
        if time == before:
            setup = len(done)
        names: dict[int, int] = {}
        for step in steps:
            if step > 0:
                sizes.append(sizes[step - 1])
                streams.append(streams[step - 1])
                names[step] = len(sizes)
                done.append(names[step])
            elif -step in names:
                done.append(-names[-step])
            elif -step in heirs:
                done.append(-latest[heirs[-step]])
        done += [-names[one] for one in alive]
        latest = {one: names[one] for one in latest}
    return replace(
        program,
        steps=np.array(done, np.int64),
        sizes=np.array(sizes, np.int64),
        streams=np.array(streams, np.uint64),
        events=np.zeros(len(done), np.int64),
        setup=setup,
    )


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize("name", PASSES)
def test_from_the_fourth_time_on_what_repeats_calls_the_driver_no_more(
    name: str, history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    program = repeated(history(name)[0], *PASSES[name], before=2, after=2)
    result = replayed([program], "expandable")
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls == {}
    assert result.reserved_over_requested <= 1.03


class Called(NullUpstream):
    """Counts what is taken from it and given back to it."""

    made = 0

    def reserve(self, nbytes: int) -> int:
        self.made += 1
        return super().reserve(nbytes)

    def release(self, address: int) -> None:
        self.made += 1
        super().release(address)


def exchanging(make: Callable[..., Any]) -> tuple[list[int], list[int]]:
    """A program in which a segment for a block of 74 MiB and one for small blocks can take each other's place for ever.

    Returns of each iteration how many calls it made upstream, and the most that was reserved until its end, in bytes.
    """
    upstream = Called(1 << 36)
    allocator = make(upstream)
    live = [
        allocator.allocate(nbytes, stream=0) for nbytes in (MIB + 512, 1200 * MIB)
    ]  # the first leaves room in its segment
    calls, reserved = [], []
    for _ in range(9):
        before = upstream.made
        for at in range(100):  # what the iteration is recognised by
            allocator.free(allocator.allocate(MIB + 512 * (1 + at * 7 % 97), stream=0))
        allocator.free(allocator.allocate(74 * MIB, stream=0))
        allocator.free(allocator.allocate(MIB, stream=0))
        calls.append(upstream.made - before)
        reserved.append(allocator.statistics().all.reserved_bytes.peak)
    assert all(block.nbytes for block in live)
    return calls, reserved


@pytest.mark.parametrize("form", FORMS)
def test_segments_do_not_take_each_others_place_for_ever(form: str) -> None:
    calls, reserved = exchanging(FORMS[form])
    assert calls[1] == 4
    assert calls[-4:] == [0, 0, 0, 0]
    assert reserved[-1] - reserved[0] == 2 * MIB


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
def test_both_forms_of_caching_come_to_rest_alike() -> None:
    assert exchanging(FORMS["python"]) == exchanging(FORMS["native"])


def test_without_the_rule_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "_SETTLED_EXCESS", 1 << 62)
    calls, _ = exchanging(CachingAllocator)
    assert calls[1:] == [4] * 8
