"""Cooperative launches, whose blocks wait for one another, and tiles of several warps."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError, DriverError

pytestmark = pytest.mark.one_schedule

VALUES = np.arange(3000, dtype=np.float32)


@pytest.fixture
def cooperative(machine: Any) -> Any:
    return machine.module("cooperative.cu")


def reported(machine: Any, function: Any, *args: Any) -> str:
    """What a cooperative launch of eight blocks is stopped by."""
    function(*args, grid=8, block=64, cooperative=True)
    with pytest.raises(DriverError) as caught:
        machine.synchronize()
    return str(caught.value)


@pytest.mark.parametrize("blocks", [1, 2, 40])
def test_blocks_of_a_grid_wait_for_one_another(machine: Any, cooperative: Any, blocks: int) -> None:
    parts, out = machine.empty(blocks, np.float32), machine.empty(1, np.float32)
    kernel = cooperative.get_function("total")
    for _ in range(3):
        kernel(machine.up(VALUES), parts, out, len(VALUES), grid=blocks, block=64, cooperative=True)
        assert machine.down(parts, blocks, np.float32).tolist() == [VALUES.sum()] * blocks


def test_a_prepared_launch_may_be_cooperative(machine: Any, cooperative: Any) -> None:
    parts, out = machine.empty(8, np.float32), machine.empty(1, np.float32)
    launch = cooperative.get_function("total").prepare(8, 64, cooperative=True)
    launch(machine.up(VALUES), parts, out, len(VALUES))
    assert machine.down(parts, 8, np.float32).tolist() == [VALUES.sum()] * 8


@pytest.mark.needs_sim  # an H200 says yes of every launch
def test_a_grid_knows_whether_its_launch_was_cooperative(machine: Any, cooperative: Any) -> None:
    out, kernel = machine.empty(2, np.int32), cooperative.get_function("is_valid")
    for is_cooperative in (True, False, True):
        kernel(out, grid=2, block=32, cooperative=is_cooperative)
        assert machine.down(out, 2, np.int32).tolist() == [is_cooperative] * 2


def test_blocks_may_wait_by_atomics_of_their_own(machine: Any, cooperative: Any) -> None:
    count, out = machine.zeros(1, np.int32), machine.empty(16 * 32, np.int32)
    cooperative.get_function("waits_by_hand")(count, out, grid=16, block=32, cooperative=True)
    assert (machine.down(out, 16 * 32, np.int32) == 16).all()


def test_more_blocks_than_the_device_holds_are_refused(machine: Any, cooperative: Any) -> None:
    device = machine.runtime.properties(0)
    blocks = device.multi_processor_count * device.max_threads_per_multi_processor // 1024 + 1
    with pytest.raises(DriverError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        cooperative.get_function("is_valid")(machine.empty(blocks, np.int32), grid=blocks, block=1024, cooperative=True)
    machine.synchronize()


@pytest.mark.needs_sim
def test_a_block_that_returns_without_the_grid_is_reported(machine: Any, cooperative: Any) -> None:
    text = reported(machine, cooperative.get_function("returns"), machine.zeros(1, np.float32))
    assert "blocks wait in line 35, `cg::this_grid().sync();`, and another one has returned without it" in text


@pytest.mark.needs_sim
def test_a_fault_of_one_block_ends_those_that_wait_for_it(machine: Any, cooperative: Any) -> None:
    text = reported(machine, cooperative.get_function("beyond"), machine.zeros(4, np.float32), 1000)
    assert "block (3, 0, 0), thread (0, 0, 0) writes 4 bytes" in text


@pytest.mark.needs_sim
@pytest.mark.parametrize("check", [True, "races"])
def test_a_time_limit_ends_a_grid_whose_blocks_wait(make_machine: Any, check: Any) -> None:
    """Under the check of races some of them wait for their turn to begin."""
    machine = make_machine(timeout="300ms")
    kernel = machine.module("cooperative.cu", check=check).get_function("stays")
    text = reported(machine, kernel, machine.zeros(1, np.float32))
    assert "LAUNCH_TIMEOUT" in text
    assert "block (0, 0, 0), thread (63, 0, 0) stands in line 42" in text


@pytest.mark.needs_sim
def test_the_check_of_races_follows_the_grid(machine: Any) -> None:
    module = machine.module("cooperative.cu", check="races")
    parts, out = machine.empty(8, np.float32), machine.empty(1, np.float32)
    kernel = module.get_function("total")
    kernel(machine.up(VALUES), parts, out, len(VALUES), grid=8, block=64, cooperative=True)
    assert machine.down(parts, 8, np.float32).tolist() == [VALUES.sum()] * 8
    text = reported(machine, module.get_function("races"), machine.zeros(8, np.float32))
    assert re.search(
        r"a read by block \(7, 0, 0\), thread \(0, 0, 0\) in line 50, `.*`, and a write by block \(0,", text
    )


@pytest.mark.needs_sim
def test_an_ordinary_launch_cannot_wait_for_the_grid(machine: Any, cooperative: Any) -> None:
    cooperative.get_function("returns")(machine.zeros(1, np.float32), grid=8, block=64)
    with pytest.raises(DriverError, match="call the kernel with cooperative=True"):
        machine.synchronize()


def test_tiles_of_several_warps(machine: Any, cooperative: Any) -> None:
    values = np.random.default_rng(4).integers(0, 50, 256).astype(np.int32)
    out = machine.empty((256, 6), np.int32)
    cooperative.get_function("tiles")(machine.up(values), out, grid=1, block=256)
    found, tiles = machine.down(out, (256, 6), np.int32), values.reshape(4, 64)
    rank = np.arange(256)
    expected = [tiles.sum(1), tiles[:, 5], (tiles == 7).any(1), (tiles >= 0).all(1)]
    for column, each in enumerate(expected):
        assert np.array_equal(found[:, column], np.repeat(each, 64))
    assert np.array_equal(found[:, 4], rank // 64 * 100 + rank % 64)
    assert np.array_equal(found[:, 5], np.repeat(np.where([False, True, False, True], tiles[:, 63], -1), 64))


@pytest.mark.needs_sim
def test_a_tile_of_which_a_part_is_missing_is_reported(machine: Any, cooperative: Any) -> None:
    text = reported(machine, cooperative.get_function("half_a_tile"), machine.empty(1, np.int32))
    assert "not all of its threads reach the same function of the tile" in text
    assert "32 of 64 threads, the first (32, 0, 0), wait for the tile in line 80" in text


@pytest.mark.needs_sim
@pytest.mark.parametrize(
    "use", ["cg::this_cluster().sync()", "cg::cluster_group group", "cg::this_multi_grid().sync()"]
)
def test_clusters_and_grids_over_devices_are_refused_by_name(machine: Any, use: str) -> None:
    source = f"#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n__global__ void f() {{ {use}; }}"
    with pytest.raises(CompileError, match=r"clusters and distributed|grids over several"):
        machine.module(source)
