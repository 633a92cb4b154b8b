"""``rmm-pool`` reserves what RMM's ``pool_memory_resource`` would.

What is expected of the programs in ``data/rmm_pool.json`` and of recorded runs is what RMM's own code answered (26.08,
compiled over functions that give addresses as a ``NullUpstream`` does); the rest follows from its source by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.block import Block
from cuplug.allocators.errors import OutOfMemoryError, PluginError
from cuplug.allocators.rmm_pool import RmmPoolAllocator
from cuplug.allocators.upstreams import LimitedUpstream
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import replay

MIB = 1 << 20
PROGRAMS = json.loads((Path(__file__).parents[1] / "data" / "rmm_pool.json").read_text())["programs"]


def reserved(pool: RmmPoolAllocator) -> int:
    return pool.statistics().all.reserved_bytes.current


def take(pool: RmmPoolAllocator, *sizes: int, stream: int = 0) -> list[Block]:
    return [pool.allocate(size, stream=stream) for size in sizes]


def steps_of(flat: list[int]) -> Iterator[tuple[int, int, int]]:
    """(number, bytes, stream) of an allocation, (-number, 0, 0) of its free."""
    at = 0
    while at < len(flat):
        if flat[at] > 0:
            yield flat[at], flat[at + 1], flat[at + 2]
            at += 3
        else:
            yield flat[at], 0, 0
            at += 1


@pytest.mark.parametrize("told", PROGRAMS, ids=range(len(PROGRAMS)))
def test_each_block_lies_where_rmm_lays_it_and_the_pool_grows_as_rmms(told: dict[str, Any]) -> None:
    pool = RmmPoolAllocator(
        NullUpstream(told["memory"] or 1 << 50),
        initial_pool_size=told["initial_pool_size"],
        maximum_pool_size=told["maximum_pool_size"],
    )
    live: dict[int, Block] = {}
    held: list[tuple[int, int]] = []
    grown: list[list[int]] = []
    failed: list[int] = []
    places: list[int] = []
    for at, (number, nbytes, stream) in enumerate(steps_of(told["steps"])):
        if number < 0:
            if -number in live:
                pool.free(live.pop(-number))
            continue
        try:
            block = live[number] = pool.allocate(nbytes, stream=stream)
        except OutOfMemoryError:
            failed.append(at)
            continue
        held += [one for segment in pool.segments() if (one := (segment.address, segment.nbytes)) not in held]
        if not grown or grown[-1][1] != reserved(pool):
            grown.append([at, reserved(pool)])
        place = next(k for k, (start, size) in enumerate(held) if start <= block.address < start + size)
        places += [place, (block.address - held[place][0]) // 256]
    assert grown == told["grown"]
    assert failed == told["failed"]
    assert places == told["places"]


@pytest.mark.parametrize(
    ("name", "bytes_of_rmm"),
    [
        ("resnet_multiscale", 7_298_088_960),
        ("stream_prefetch", 3_674_210_304),
        ("serving", 1_073_741_824),
        ("llama_ckpt", 12_582_928_384),
    ],
)
def test_recorded_runs_reserve_what_rmm_would(
    history: Callable[[str], list[Program]], name: str, bytes_of_rmm: int
) -> None:
    found = replay(history(name), RmmPoolAllocator, allocator="rmm-pool")
    assert found.peak_reserved_bytes == bytes_of_rmm


def test_the_pool_grows_by_as_much_as_it_has_or_by_what_is_asked_for_where_that_is_more() -> None:
    pool = RmmPoolAllocator(NullUpstream())
    take(pool, 1000)
    assert reserved(pool) == 1024
    take(pool, 1)
    assert reserved(pool) == 2048
    take(pool, 10 * MIB)
    assert reserved(pool) == 2048 + 10 * MIB
    take(pool, MIB)
    assert reserved(pool) == 2 * (2048 + 10 * MIB)


def test_it_takes_half_as_much_again_and_again_where_the_device_lacks_more() -> None:
    pool = RmmPoolAllocator(NullUpstream(99 * MIB))
    take(pool, 80 * MIB, 6 * MIB)
    assert reserved(pool) == 90 * MIB  # 80 and 40 and 20 were not to be had
    with pytest.raises(OutOfMemoryError):
        take(pool, 11 * MIB)
    assert reserved(pool) == 90 * MIB


def test_with_a_maximum_it_grows_by_half_of_what_is_left() -> None:
    pool = RmmPoolAllocator(NullUpstream(), maximum_pool_size=64 * MIB)
    take(pool, MIB)
    assert reserved(pool) == 32 * MIB
    take(pool, 32 * MIB)
    assert reserved(pool) == 64 * MIB
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate 32.00 MiB"):
        take(pool, 32 * MIB)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_the_device_gave_apart_is_never_joined(order: tuple[int, int]) -> None:
    pool = RmmPoolAllocator(NullUpstream())
    blocks = take(pool, 1024, 1024)
    assert blocks[1].address == blocks[0].address + 1024
    for at in order:
        pool.free(blocks[at])
    take(pool, 2048)
    assert reserved(pool) == 4096


def test_the_initial_pool_belongs_to_the_default_stream_and_others_cut_from_it() -> None:
    pool = RmmPoolAllocator(NullUpstream(), initial_pool_size=64 * MIB)
    (block,) = take(pool, MIB, stream=5)
    assert reserved(pool) == 64 * MIB
    pool.free(block)
    take(pool, 64 * MIB, stream=0)  # what stream 5 has freed is joined with the rest first
    assert reserved(pool) == 64 * MIB


def test_nothing_is_given_back_before_the_end() -> None:
    upstream = NullUpstream()
    pool = RmmPoolAllocator(upstream)
    (block,) = take(pool, 10 * MIB)
    pool.free(block)
    assert pool.release_cached() == 0
    assert reserved(pool) == 10 * MIB
    pool.close()
    assert upstream.used_bytes == 0


def test_a_segments_blocks_fill_it_in_order_of_address() -> None:
    pool = RmmPoolAllocator(NullUpstream(), initial_pool_size=4 * MIB)
    blocks = take(pool, 1000, 3000, MIB, 5 * MIB)
    pool.free(blocks[1])
    for segment in pool.segments():
        assert segment.blocks[0].address == segment.address
        assert all(first.address + first.nbytes == second.address for first, second in pairwise(segment.blocks))
        assert sum(block.nbytes for block in segment.blocks) == segment.nbytes
    first = next(segment for segment in pool.segments() if segment.nbytes == 4 * MIB)
    assert [block.state for block in first.blocks] == [
        "active_allocated", "inactive", "active_allocated", "inactive",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"initial_pool_size": 1000}, "initial_pool_size is 1000; RMM takes multiples of 256 bytes"),
        ({"maximum_pool_size": -256}, "maximum_pool_size is -256"),
        ({"initial_pool_size": 1024, "maximum_pool_size": 512}, "more than maximum_pool_size, 512"),
    ],
)
def test_sizes_that_rmm_refuses_are_refused(options: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        RmmPoolAllocator(NullUpstream(), **options)


def test_no_program_can_allocate_from_it() -> None:
    with pytest.raises(PluginError, match=r"no program can allocate from it: use RMM itself, or choose caching"):
        RmmPoolAllocator(LimitedUpstream(NullUpstream(), MIB))
