"""Tiles of several warps: what CUDA's do, and errors where a GPU would wait for ever or nvcc refuses the source."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError, DriverError

pytestmark = pytest.mark.one_schedule

CHECKS: list[Any] = [True, False, "races"]


@pytest.mark.parametrize("check", CHECKS)
def test_tiles_know_their_place_in_what_they_are_parts_of(machine: Any, check: Any) -> None:
    out = machine.zeros((256, 6), np.int32)
    machine.module("tiles.cu", check=check).get_function("parts")(out, grid=1, block=256)
    rank = np.arange(256)
    half, quarter, small = (10 * (rank // 128) + 2, 10 * (rank % 128 // 64) + 2, 10 * (rank % 64 // 16) + 4)
    expected = np.stack([half, quarter, small, small, quarter, np.ones(256, int)], 1)
    assert np.array_equal(machine.down(out, (256, 6), np.int32), expected)


@pytest.mark.parametrize("check", CHECKS)
def test_values_of_a_tile_are_combined(machine: Any, check: Any) -> None:
    values = np.random.default_rng(21).integers(-50, 50, (3, 64)).astype(np.int32)
    out = machine.zeros((192, 5), np.int32)
    machine.module("tiles.cu", check=check).get_function("combined")(machine.up(values), out, grid=1, block=192)
    found, each = machine.down(out, (192, 5), np.int32), np.ones((1, 64), int)
    sums = np.cumsum(values, 1)
    expected = [sums[:, -1:] * each, values.min(1, keepdims=True) * each, sums, sums - values, 2 * values[:, :1] * each]
    for column, wanted in enumerate(expected):
        assert np.array_equal(found[:, column], wanted.ravel()), column


@pytest.mark.parametrize("check", CHECKS)
def test_a_tile_may_be_a_whole_block(machine: Any, check: Any) -> None:
    out = machine.zeros(1024, np.int32)
    machine.module("tiles.cu", check=check).get_function("largest")(out, grid=1, block=1024)
    assert machine.down(out, 1024, np.int32).tolist() == [1001] * 1024


@pytest.mark.parametrize("check", CHECKS)
def test_tiles_of_different_sizes_wait_by_themselves(machine: Any, check: Any) -> None:
    out = machine.zeros(128, np.int32)
    machine.module("tiles.cu", check=check).get_function("two_sizes")(out, grid=1, block=128)
    assert machine.down(out, 128, np.int32).tolist() == [2] * 64 + [1] * 64


HANGS = [
    (
        "two_sources",
        64,
        [
            "tile of 64 threads in line 54, `out[threadIdx.x] = tile.shfl((int)threadIdx.x, tile.thread_rank() ^ 1);`",
            "shfl() is to read from rank 1 in thread (0, 0, 0) and from rank 0 in thread (1, 0, 0)",
            "one source for all of its threads: where two warps have sources, a GPU waits for ever. Name one rank, or ",
        ],
    ),
    (
        "two_sources",
        40,
        ["tile of 64 threads in line 54", "from rank 1 in thread (0, 0, 0) and from rank 0 in thread (1,"],
    ),
    ("reads", 64, ["in line 59", "shfl() is to read from rank 64, and ranks go from 0 to 63: a GPU would wait"]),
    ("reads", -1, ["shfl() is to read from rank 4294967295"]),
    ("reads", 40, ["shfl() is to read from rank 40, thread (40, 0, 0), which has returned: the result is undefined"]),
    ("waits", 0, ["in line 64, `tile.sync();`", "thread (0, 0, 0), the first of its warp, has returned"]),
    ("waits", 32, ["thread (32, 0, 0), the first of its warp, has returned", "without it a GPU waits for ever"]),
    ("waits_for_a_late_one", 32, ["in line 73", "thread (32, 0, 0), the first of its warp, has returned"]),
    ("waits_for_a_warp", 1, ["thread (32, 0, 0), the first of its warp, has returned", "or all of them"]),
    ("asks", 33, ["thread (33, 0, 0) has returned, and any() and all() combine", "by the first 2 threads of a warp"]),
    ("adds", 40, ["thread (40, 0, 0) has returned, and reductions and scans need all threads of a tile"]),
    ("adds_up", 40, ["thread (40, 0, 0) has returned, and reductions and scans need all threads of a tile"]),
    ("two_functions", 32, ["tile of 64 threads in line 99", "than thread (32, 0, 0), which waits in line 100"]),
    (
        "parts_of_a_part",
        64,
        ["divergent barrier", "64 of 128 threads, the first (0, 0, 0), wait at the barrier in line 105"],
    ),
    (
        "passes_in_a_part",
        32,
        ["divergent tile", "32 of 64 threads, the first (0, 0, 0), wait for the tile in line 111"],
    ),
    ("parts_at_run_time", 64, ["tiled_partition(group, size) takes a size of 1, 2, 4, 8, 16 or 32"]),
]


@pytest.mark.needs_sim
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("kernel", "n", "told"), HANGS, ids=[f"{kernel}-{n}" for kernel, n, _ in HANGS])
def test_what_a_gpu_would_wait_for_is_an_error(machine: Any, kernel: str, n: int, told: list[str], check: Any) -> None:
    function = machine.module("tiles.cu", check=check).get_function(kernel)
    function(machine.zeros(128, np.int32), n, grid=1, block=128 if kernel == "parts_of_a_part" else 64)
    with pytest.raises(DriverError, match="LAUNCH_FAILED") as caught:
        machine.synchronize()
    assert [part for part in told if part not in str(caught.value)] == [], str(caught.value)


@pytest.mark.needs_sim
def test_threads_that_return_and_are_not_needed_are_no_error(machine: Any) -> None:
    module = machine.module("tiles.cu")
    for kernel, left in (("waits", 33), ("asks", 34), ("reads", 40)):
        out = machine.zeros(64, np.int32)
        module.get_function(kernel)(out, 1 if kernel == "reads" else left, grid=1, block=64)
        expected = np.ones(64, int)
        expected[left] = 0
        assert machine.down(out, 64, np.int32).tolist() == expected.tolist()


@pytest.mark.needs_sim
def test_a_block_too_small_for_its_last_tile_is_an_error(machine: Any) -> None:
    machine.module("tiles.cu").get_function("waits")(machine.zeros(96, np.int32), 99, grid=1, block=96)
    with pytest.raises(DriverError, match=r"in line 64, `.*`: the block has 96 threads, too few for this tile"):
        machine.synchronize()


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("*x = tile.shfl_up(*x, 1u);", r"CUDA has no shfl_up\(\) for tiles of several warps"),
        ("*x = tile.shfl_down(*x, 1u);", r"CUDA has no shfl_down\(\)"),
        ("*x = tile.shfl_xor(*x, 1u);", r"CUDA has no shfl_xor\(\)"),
        ("*x = tile.ballot(1);", r"CUDA has no ballot\(\)"),
        ("*x = tile.match_any(1);", r"CUDA has no match_any\(\)"),
        ("*x = tile.shfl(double2(), 1).x;", "values of up to 8 bytes"),
        ("cg::tiled_partition<64>(tile);", "takes a thread block, or a tile of more than Size threads"),
        ("cg::tiled_partition<4>(cg::coalesced_threads());", "takes a thread block, or a tile"),
        ("cg::tiled_partition<96>(cg::this_thread_block());", "tiles have 1, 2, 4, ..., 512 or 1024 threads"),
        ("cg::binary_partition(tile, true);", r"binary_partition\(\) takes tiles of up to 32 threads"),
        ("cg::labeled_partition(tile, 1);", r"labeled_partition\(\) takes tiles of up to 32 threads"),
        ("cg::thread_block_tile<64> other;", "thread_block_tile"),
        ("*x = cg::reduce(tile, (short)1, cg::plus<int>());", "result must be of the values' type"),
        ("*x = cg::inclusive_scan(tile, (short)1, cg::plus<int>());", "result must be of the values' type"),
    ],
)
def test_what_nvcc_refuses_is_refused(machine: Any, statement: str, why: str) -> None:
    source = f"""#include <cooperative_groups.h>
    #include <cooperative_groups/scan.h>
    namespace cg = cooperative_groups;
    __global__ void f(int *x) {{ auto tile = cg::tiled_partition<64>(cg::this_thread_block()); {statement} }}"""
    with pytest.raises(CompileError) as caught:
        machine.module(source)
    assert re.search(why, caught.value.log)
