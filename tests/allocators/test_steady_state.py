"""A program that repeats itself comes to rest: no driver call is made for it any more, and little is taken for that."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators import constants
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.private_streams import STREAM_BITS
from cuplug.allocators.recurrence import Recurrence
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.replaying.perturbed import repeated
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import ReplayResult, replay

MIB = 1 << 20
FORMS: dict[str, Callable[..., Any]] = {"python": CachingAllocator}
if is_available():
    from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable
    from cuplug.allocators.native.without_device import NativeNullUpstream

    FORMS["native"] = NativeCaching

PASSES = [
    ("gpt2_varlen", 3315, 43077),
    ("gpt2_varlen", 3315, 14559),
    ("resnet_multiscale", 3198, 31840),
    ("resnet_multiscale", 3198, 16812),
    ("resnet_multiscale", 14080, 18190),
]
"""The steps of the recorded history that are to be repeated: many iterations, each of another size."""


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize(("name", "begin", "end"), PASSES)
def test_from_the_fourth_time_on_what_repeats_calls_the_driver_no_more(
    name: str, begin: int, end: int, history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    program = repeated(history(name)[0], begin, end, before=2, after=2)
    result = replayed([program], "expandable")
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls == {}
    assert result.reserved_over_requested <= 1.042


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
def test_what_does_not_come_to_rest_moves_less(
    history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """Batches come over a side stream: its pages, those for small blocks and all others want each other's place.

    Little memory is left, so that no more than 1/20 is held beyond the peak.
    """
    program = repeated(history("stream_prefetch")[0], 10969, 17473, before=2, after=2)
    result = replayed([program], "expandable", memory=int(1.1 * program.peak_before(len(program.steps))))
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls["cuMemMap"] <= 91
    assert result.reserved_over_requested <= 1.05


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
def test_blocks_that_miss_much_do_not_take_the_pages_of_their_own_space_for_ever(
    history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """Blocks of 150 MiB each took 27 pages from behind them, and walked through the addresses: 770 calls each time.

    Small blocks' pages lie idle meanwhile, and come back without a call. A quarter of the peak is held beyond it.
    """
    program = repeated(history("reinforcement")[0], 14083, 23478, before=18, after=2)
    result = replayed([program], "expandable")
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert sum(result.driver_calls.values()) <= 12
    assert result.reserved_over_requested <= 1.25


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
def test_a_program_that_repeats_itself_gives_no_pages_back_that_are_too_large_to_move(
    history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """To give one back means to wait for the work that last used it: twice in each step of this program."""
    program = repeated(history("llama_ckpt")[0], 14776, 24388, before=6, after=4)
    result = replayed([program], "expandable", memory=int(1.1 * program.peak_before(len(program.steps))))
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls["cuMemMap"] > 0
    assert result.driver_calls.get("cuMemRelease", 0) == 0


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
def test_both_forms_keep_pages_alike_that_are_too_large_to_move(history: Callable[[str], list[Program]]) -> None:
    program = repeated(history("llama_ckpt")[0], 782, 2282, before=0, after=3)
    memory = int(1.1 * program.peak_before(len(program.steps)))
    python = replay([program], ExpandableAllocator, allocator="", make_upstream=lambda _: NullUpstream(memory))
    native = replay([program], NativeExpandable, allocator="", make_upstream=lambda _: NativeNullUpstream(memory))
    assert python.failure == native.failure == ""
    assert python.driver_calls == native.driver_calls


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
def test_what_is_held_beyond_the_peak_follows_what_the_device_has_left(
    history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """A quarter of what is left, at most of the peak, and never less than 1/20 of it: the less, the more pages move."""
    program = repeated(history("serving")[0], 8000, 27000, before=4, after=2)
    calls = []
    for part in (1.1, 1.6, 2.0, 1000.0):
        result = replayed([program], "expandable", memory=int(part * program.peak_before(len(program.steps))))
        assert (result.failure, result.out_of_memory_events) == ("", 0)
        ratio = result.reserved_over_requested
        assert ratio <= 1.01 + max(1 / 20, min(1 / 4, (part - ratio) / 4))  # blocks are rounded, by 1/250 here
        calls.append(sum(result.driver_calls.values()))
    assert calls[0] > 10 * calls[1] > 10 * calls[2] == 0
    assert calls[3] == 0


def cyclic(seed: int) -> Program:
    """Ten times the same random requests, of blocks of all sizes on two streams, over some that live on."""
    chance = random.Random(seed)
    sizes, streams, steps = [], [], []
    for _ in range(20):
        sizes.append(chance.randrange(1, 40 * MIB))
        streams.append(0)
        steps.append(len(sizes))
    once = [
        (chance.choice((4096, MIB // 2, chance.randrange(1, 60 * MIB))), chance.randrange(8) == 0, chance.randrange(30))
        for _ in range(300)
    ]
    ends: dict[int, list[int]] = {}
    setup = 0
    for time in range(10):
        if time == 4:
            setup = len(steps)
        for at, (nbytes, aside, life) in enumerate(once):
            steps += [-one for one in ends.pop(time * len(once) + at, [])]
            sizes.append(nbytes)
            streams.append(int(aside))
            steps.append(len(sizes))
            ends.setdefault(time * len(once) + at + life + 1, []).append(len(sizes))
    return Program(
        "",
        0,
        np.array(steps, np.int64),
        np.array(sizes, np.int64),
        np.array(streams, np.uint64),
        np.zeros(len(steps), np.int64),
        len(steps),
        0,
        setup,
    )


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
@pytest.mark.parametrize("aliases", [0, 4])
@pytest.mark.parametrize("part", [1.1, 1.4, 1000.0])
@pytest.mark.parametrize("seed", range(8))
def test_both_forms_of_expandable_come_to_rest_alike(seed: int, part: float, aliases: int) -> None:
    program = cyclic(seed)
    options = {"aliases": aliases}
    memory = int(part * program.peak_before(len(program.steps)))
    python = replay(
        [program], partial(ExpandableAllocator, **options), allocator="", make_upstream=lambda _: NullUpstream(memory)
    )
    native = replay(
        [program],
        partial(NativeExpandable, **options),
        allocator="",
        make_upstream=lambda _: NativeNullUpstream(memory),
    )
    assert python.failure == native.failure == ""
    assert python.driver_calls == native.driver_calls
    assert python.peak_reserved_bytes == native.peak_reserved_bytes


@pytest.mark.parametrize("make", [ExpandableAllocator, *([NativeExpandable] if is_available() else [])])
@pytest.mark.parametrize("seed", [24, 25])
def test_who_calls_the_driver_no_more_does_not_ask_it_either(seed: int, make: Callable[..., Any]) -> None:
    """Blocks that miss pages which come back without a call asked each time how much the device has left."""
    program = cyclic(seed)

    class Asked(NullUpstream):
        asked = 0

        def memory_info(self) -> tuple[int, int]:
            self.asked += 1
            return super().memory_info()

    upstream = Asked(int(1.4 * program.peak_before(len(program.steps))))
    allocator = make(upstream)
    blocks: dict[int, Any] = {}
    asked = 0
    for step in program.steps.tolist():
        if step < 0:
            allocator.free(blocks.pop(-step))
            continue
        if step == 20 + 6 * 300:  # the first six times
            asked = upstream.asked
        blocks[step] = allocator.allocate(int(program.sizes[step - 1]), stream=int(program.streams[step - 1]))
    assert 0 < asked == upstream.asked


@pytest.mark.parametrize("make", [ExpandableAllocator, *([NativeExpandable] if is_available() else [])])
def test_a_program_that_uses_a_private_pool_each_time_comes_to_rest(make: Callable[..., Any]) -> None:
    """What lay idle while the pool was in use was given back each time, and taken again: 500 calls, for ever."""
    upstream = NullUpstream()
    allocator = make(upstream)
    calls = []
    for _ in range(8):
        chance = random.Random(0)
        before = sum(upstream.calls.values())
        blocks = [allocator.allocate(chance.randrange(1, 200 * MIB), stream=0) for _ in range(20)]
        for block in blocks:
            allocator.free(block)
        blocks = [allocator.allocate(60 * MIB, stream=5 | 1 << STREAM_BITS) for _ in range(20)]
        for _ in range(100):
            blocks.append(allocator.allocate(chance.randrange(1, 30 * MIB), stream=chance.choice((0, 0, 3))))
            if len(blocks) > 30:
                allocator.free(blocks.pop(-2))
        for block in blocks:
            allocator.free(block)
        calls.append(sum(upstream.calls.values()) - before)
    assert calls[0] > calls[2] > 0
    assert calls[4:] == [0, 0, 0, 0]


def test_a_part_of_something_larger_repeats_not_as_a_whole() -> None:
    recurrence = Recurrence()
    step = [*range(1, 7)] * 4 + [90, 91, 92]
    for mark in [*step, *step[:18]]:
        recurrence.mark(mark)
    assert recurrence.repeats()
    assert not recurrence.repeats_as_a_whole()
    for mark in step[18:]:
        recurrence.mark(mark)
    assert recurrence.repeats_as_a_whole()
    recurrence.note_peak(1)
    assert not recurrence.repeats_as_a_whole()
    for mark in step:
        recurrence.mark(mark)
    assert recurrence.repeats_as_a_whole()


def test_a_cycle_counts_from_the_latest_peak_on() -> None:
    recurrence = Recurrence()
    for mark in [*range(10)] * 2:
        recurrence.mark(mark)
    assert recurrence.has_repeated()
    recurrence.note_peak(5)
    assert not recurrence.has_repeated()
    for mark in range(10):
        recurrence.mark(mark)
    recurrence.note_peak(5)
    assert recurrence.has_repeated()


def test_a_short_cycle_has_to_last_and_so_has_one_without_marks() -> None:
    short, unmarked = Recurrence(), Recurrence()
    for number in range(17):
        assert short.goes_on() == (number == 16)
        short.mark(number % 3)
    for number in range(513):
        assert unmarked.goes_on() == (number == 512)
        unmarked.requests += 1
    unmarked.note_peak(5)
    assert not unmarked.goes_on()


@pytest.mark.parametrize("layers", [20, 40])
def test_short_iterations_come_to_rest_in_little_memory(layers: int) -> None:
    """Some of which leave no mark: the allocator keeps exchanging segments until it sees that they repeat."""
    for seed in range(3):
        chance = random.Random(seed)
        sizes = [chance.randrange(2, 60) * MIB + chance.randrange(2) * MIB // 2 for _ in range(layers)]
        upstream = NullUpstream((500 * MIB + sum(sizes) + max(sizes)) * 6 // 5)
        allocator = CachingAllocator(upstream)
        kept = allocator.allocate(500 * MIB, stream=0)
        calls = 0
        for number in range(60):
            if number == 50:
                calls = upstream.calls.total()
            live = []
            for nbytes in sizes:
                scratch = allocator.allocate(max(nbytes // 2, MIB), stream=0)
                live.append(allocator.allocate(nbytes, stream=0))
                allocator.free(scratch)
            for block in reversed(live):
                scratch = allocator.allocate(block.nbytes, stream=0)
                allocator.free(block)
                allocator.free(scratch)
        assert upstream.calls.total() == calls
        allocator.free(kept)


def exchanging(make: Callable[..., Any]) -> tuple[list[int], list[int]]:
    """A program in which a segment for a block of 74 MiB and one for small blocks can take each other's place for ever.

    Returns of each iteration how many calls it made upstream, and the most that was reserved until its end, in bytes.
    """
    upstream = NullUpstream(1 << 36)
    allocator = make(upstream)
    live = [
        allocator.allocate(nbytes, stream=0) for nbytes in (MIB + 512, 1200 * MIB)
    ]  # the first leaves room in its segment
    calls, reserved = [], []
    for _ in range(10):
        before = upstream.calls.total()
        for at in range(100):  # what the iteration is recognised by
            allocator.free(allocator.allocate(MIB + 512 * (1 + at * 7 % 97), stream=0))
        allocator.free(allocator.allocate(74 * MIB, stream=0))
        allocator.free(allocator.allocate(MIB, stream=0))
        calls.append(upstream.calls.total() - before)
        reserved.append(allocator.statistics().all.reserved_bytes.peak)
    assert all(block.nbytes for block in live)
    return calls, reserved


@pytest.mark.parametrize("form", FORMS)
def test_segments_do_not_take_each_others_place_for_ever(form: str) -> None:
    calls, reserved = exchanging(FORMS[form])
    assert calls[1] == 4
    assert calls[-3:] == [0, 0, 0]
    assert reserved[-1] - reserved[0] == 2 * MIB


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
def test_both_forms_of_caching_come_to_rest_alike() -> None:
    assert exchanging(FORMS["python"]) == exchanging(FORMS["native"])


def test_without_the_rule_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "BEYOND_PEAK", 1 << 62)
    calls, _ = exchanging(CachingAllocator)
    assert calls[1:] == [4] * 9


def sparing(make: Callable[..., Any]) -> tuple[list[int], int]:
    """A program that keeps blocks of 24 MiB while a block of 1,000 is free, and frees them before it needs that again.

    Returns of each iteration how many calls it made upstream, and the most that was reserved, in bytes.
    """
    upstream = NullUpstream(1 << 40)
    allocator = make(upstream)
    live = [allocator.allocate(6000 * MIB, stream=0)]
    calls = []
    for _ in range(9):
        before = upstream.calls.total()
        for at in range(900):
            allocator.free(allocator.allocate(MIB + 512 * (1 + at * 7 % 97), stream=0))
        kept = [allocator.allocate(24 * MIB, stream=0) for _ in range(25)]
        for block in kept:
            allocator.free(block)
        for block in [allocator.allocate(1000 * MIB, stream=0) for _ in range(3)]:
            allocator.free(block)
        calls.append(upstream.calls.total() - before)
    assert all(block.nbytes for block in live)
    return calls, allocator.statistics().all.reserved_bytes.peak


@pytest.mark.parametrize("form", FORMS)
def test_what_repeats_is_cut_from_large_segments_too(form: str) -> None:
    """Where they are spared, it makes as many calls in each iteration as in the second, for ever."""
    calls, reserved = sparing(FORMS[form])
    assert calls[1] == 28
    assert calls[2:] == [3] + [0] * 6
    assert reserved == (9000 + 64) * MIB


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
def test_both_forms_of_caching_cut_large_segments_alike() -> None:
    assert sparing(FORMS["python"]) == sparing(FORMS["native"])


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
def test_caching_comes_to_rest_where_more_is_missing(
    history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """Batches over a side stream: 39 segments were taken each time, for ever."""
    program = repeated(history("stream_prefetch")[0], 7175, 18016, before=3, after=2)
    result = replayed([program], "caching")
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls == {}
    assert result.reserved_over_requested <= 1.075


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize(
    ("name", "begin", "end", "requested"),
    [("gpt2_varlen", 3315, 43077, 13_133_827_724), ("resnet_multiscale", 3198, 31840, 6_036_082_576)],
)
def test_caching_comes_to_rest_near_the_end_of_memory(
    name: str,
    begin: int,
    end: int,
    requested: int,
    history: Callable[[str], list[Program]],
    replayed: Callable[..., ReplayResult],
) -> None:
    """Thousands of segments were exchanged each time wherever less was left than was held."""
    program = repeated(history(name)[0], begin, end, before=4, after=2)
    result = replayed([program], "caching", memory=int(1.3 * requested))
    assert (result.failure, result.out_of_memory_events) == ("", 0)
    assert result.driver_calls == {}


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize("part", [1.07, 1.1, 1.13])
def test_caching_serves_a_repeated_part_of_a_history_near_the_end_of_memory(
    part: float, history: Callable[[str], list[Program]], replayed: Callable[..., ReplayResult]
) -> None:
    """It ran out where a cut was not asked for what it would waste, and small blocks took no idle segments' place."""
    program = repeated(history("llama_ckpt")[0], 1957, 13699, before=1, after=2)
    result = replayed([program], "caching", memory=int(part * program.peak_requested))
    assert (result.failure, result.out_of_memory_events) == ("", 0)


HOW = Path(__file__).parents[2] / "docs" / "how"
ROWS = [
    ("GPT-2, 14 steps of different lengths", "gpt2_varlen", 3315, 43077),
    ("ResNet-50, 21 steps of different resolutions", "resnet_multiscale", 3198, 31840),
    ("ResNet-18, 20 steps, prefetch on a side stream", "stream_prefetch", 7175, 18016),
]


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize(("row", "name", "begin", "end"), ROWS, ids=[row[1] for row in ROWS])
def test_the_page_on_little_memory_counts_the_segments_that_caching_takes(
    row: str,
    name: str,
    begin: int,
    end: int,
    history: Callable[[str], list[Program]],
    replayed: Callable[..., ReplayResult],
) -> None:
    program = repeated(history(name)[0], begin, end, before=3, after=2)
    requested = replayed([program], "caching").peak_requested_bytes
    taken = [replayed([program], "caching", memory=int(part * requested)) for part in (1.1, 1.2, 1.3)]
    cells = " | ".join(f"{result.driver_calls.get('cuMemAlloc', 0):,}" for result in taken)
    assert f"| {row} | {cells} |" in (HOW / "tight-memory.md").read_text("utf-8").splitlines()


PARTS = [
    *ROWS,
    ("GPT-2, four of these steps", "gpt2_varlen", 3315, 14559),
    ("ResNet-50, ten of these steps", "resnet_multiscale", 3198, 16812),
    ("GPT-2, fixed shapes, one step", "gpt2_fixed", 21632, 32224),
    ("Llama-shaped model, two steps", "llama_ckpt", 14776, 24388),
]


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize(("row", "name", "begin", "end"), PARTS)
def test_the_page_on_rest_counts_the_pages_that_expandable_maps(
    row: str,
    name: str,
    begin: int,
    end: int,
    history: Callable[[str], list[Program]],
    replayed: Callable[..., ReplayResult],
) -> None:
    def again(before: int) -> ReplayResult:
        return replayed([repeated(history(name)[0], begin, end, before=before, after=1)], "expandable")

    second, *later = (again(before) for before in (1, 3, 4, 5))
    second_mapped, *mapped = (result.driver_calls.get("cuMemMap", 0) for result in (second, *later))
    each = f"{min(mapped)} to {max(mapped)}" if min(mapped) < max(mapped) else str(max(mapped))
    expected = f"| {row} | {second_mapped} | {each} | {later[-1].reserved_over_requested:.3f} |"
    assert expected in (HOW / "coming-to-rest.md").read_text("utf-8").splitlines()


@pytest.mark.skipif(not is_available(), reason="in Python it takes a minute; tests/native holds both forms together")
@pytest.mark.parametrize(
    ("row", "name", "begin", "end"),
    [part for part in PARTS if part[0].startswith(("Llama", "ResNet-18", "GPT-2, 14"))],
)
def test_the_page_on_rest_counts_the_segments_that_caching_takes(
    row: str,
    name: str,
    begin: int,
    end: int,
    history: Callable[[str], list[Program]],
    replayed: Callable[..., ReplayResult],
) -> None:
    def again(before: int, after: int) -> ReplayResult:
        return replayed([repeated(history(name)[0], begin, end, before=before, after=after)], "caching")

    taken = [again(before, 1).driver_calls.get("cuMemAlloc", 0) for before in range(6)]
    assert taken[3:] == [0, 0, 0]
    first, second, third = taken[:3]
    expected = f"| {row} | {first} | {second} | {third} | {again(0, 6).reserved_over_requested:.3f} |"
    assert expected in (HOW / "coming-to-rest.md").read_text("utf-8").splitlines()


@pytest.mark.skipif(not is_available(), reason="one form alone is compared with nothing")
def test_both_forms_of_caching_are_granted_more_alike(history: Callable[[str], list[Program]]) -> None:
    program = repeated(history("stream_prefetch")[0], 7175, 18016, before=0, after=4)
    python = replay([program], CachingAllocator, allocator="caching", make_upstream=lambda _: NullUpstream())
    native = replay([program], NativeCaching, allocator="caching", make_upstream=lambda _: NativeNullUpstream())
    assert python.failure == native.failure == ""
    assert python.driver_calls == native.driver_calls
    assert python.peak_reserved_bytes == native.peak_reserved_bytes


@pytest.mark.parametrize("form", FORMS)
def test_what_was_granted_is_given_up_before_memory_runs_out(form: str) -> None:
    upstream = NullUpstream(1 << 40)
    allocator = FORMS[form](upstream)
    live = [allocator.allocate(nbytes, stream=0) for nbytes in (MIB + 512, 1200 * MIB)]
    least = upstream.used_bytes
    for _ in range(9):
        for at in range(100):
            allocator.free(allocator.allocate(MIB + 512 * (1 + at * 7 % 97), stream=0))
        allocator.free(allocator.allocate(74 * MIB, stream=0))
        allocator.free(allocator.allocate(MIB, stream=0))
    assert upstream.used_bytes == least + 76 * MIB  # two of them beyond the peak
    upstream.total_bytes = upstream.used_bytes
    allocator.free(allocator.allocate(76 * MIB, stream=0))
    assert upstream.used_bytes == upstream.total_bytes
    assert all(block.nbytes for block in live)


KEPT = 1900
"""MiB that live on, so that the other 74 are no more than 1/20 of the peak."""


def take_turns(allocator: Any) -> None:
    """An iteration in which two streams take each other's segment of 74 MiB, until more is granted."""
    for at in range(900):  # what the iteration is recognised by
        allocator.free(allocator.allocate(MIB + 512 * (1 + at * 7 % 97), stream=0))
    for stream in (0, 1):
        allocator.free(allocator.allocate(74 * MIB, stream=stream))


def after_turns(make: Callable[..., Any], iterations: int) -> tuple[Any, NullUpstream, int, list[Any]]:
    """An allocator, its upstream, the most that it reserves where no more is granted, and blocks that live on."""
    upstream = NullUpstream(1 << 40)
    allocator = make(upstream)
    live = [allocator.allocate(nbytes, stream=0) for nbytes in (MIB + 512, KEPT * MIB)]
    peak = upstream.used_bytes + 74 * MIB
    for _ in range(iterations):
        take_turns(allocator)
    return allocator, upstream, peak, live


@pytest.mark.parametrize("form", FORMS)
def test_more_is_granted_for_what_is_still_exchanged(form: str) -> None:
    allocator, upstream, peak, live = after_turns(FORMS[form], iterations=2)
    assert peak // 20 >= 74 * MIB
    assert upstream.used_bytes == peak
    allocator, upstream, peak, live = after_turns(FORMS[form], iterations=4)
    assert upstream.used_bytes == peak + 74 * MIB
    before = upstream.calls.total()
    take_turns(allocator)
    assert upstream.calls.total() == before
    assert all(block.nbytes for block in live)


PRESSED = {
    "a limit": ("limit", [(2, 74)]),
    "a limit, several streams": ("limit", [(0, 40), (1, 20), (2, 12)]),
    "a full device": ("device", [(2, 74)]),
    "a full device, several streams": ("device", [(2, 12), (0, 40), (1, 20)]),
}
"""What leaves no room, and which streams then ask for how many MiB, all at once: as much as the two had exchanged. That
others have filled the device shows where a segment is looked for, as the third stream does; a limit at once."""


def under_pressure(make: Callable[..., Any], iterations: int, pressed: str) -> list[tuple[int, int]]:
    """How often a program calls upstream in each iteration once nothing is left, and how many bytes it has then."""
    allocator, upstream, peak, live = after_turns(make, iterations)
    by, requests = PRESSED[pressed]
    if by == "limit":
        allocator.memory_limit = room = peak
    else:
        upstream.total_bytes = room = upstream.used_bytes
    told = []
    for _ in range(4):
        before = upstream.calls.total()
        blocks = [allocator.allocate(nbytes * MIB, stream=stream) for stream, nbytes in requests]
        assert upstream.used_bytes <= room
        for block in blocks:
            allocator.free(block)
        take_turns(allocator)
        told.append((upstream.calls.total() - before, upstream.used_bytes))
    assert allocator.statistics().num_alloc_retries == 0
    assert all(block.nbytes for block in live)
    return told


@pytest.mark.parametrize("pressed", PRESSED)
@pytest.mark.parametrize("iterations", [2, 20], ids=["nothing granted", "granted"])
def test_all_that_was_granted_is_given_up_under_pressure(iterations: int, pressed: str) -> None:
    """What completes where nothing was granted completes where more was, too. And both forms make the same calls."""
    told = [under_pressure(make, iterations, pressed) for make in FORMS.values()]
    assert all(one == told[0] for one in told)
