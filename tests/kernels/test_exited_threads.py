"""Threads that have returned from a kernel are waited for no more, as on GPUs since Volta."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError

CHECKS: list[Any] = [True, False, "races"]


def exited(machine: Any, kernel: str, check: Any = True) -> Any:
    return machine.module("exited.cu", check=check).get_function(kernel)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "kernel",
    [
        "swaps",
        "swaps_in_a_function",
        "last_to_leave",
        "counts",
        "counts_in_a_function",
        "votes",
        "groups",
        "leaves_between",
    ],
)
def test_threads_meet_without_those_that_have_returned(machine: Any, kernel: str, check: Any) -> None:
    out = machine.zeros(192, np.int32)
    exited(machine, kernel, check)(out, 130, grid=2, block=96)
    found = machine.down(out, 192, np.int32)
    assert found[:130].tolist() == (np.arange(130) ^ 1).tolist()
    assert not found[130:].any()


@pytest.mark.parametrize("check", CHECKS)
def test_tiles_of_several_warps_meet_without_those_that_have_returned(machine: Any, check: Any) -> None:
    out = machine.zeros(256, np.int32)
    exited(machine, "wide_tiles", check)(out, 188, grid=2, block=128)
    assert machine.down(out, 256, np.int32)[:188].tolist() == (np.arange(188) ^ 1).tolist()


@pytest.mark.parametrize("check", CHECKS)
def test_blocks_of_a_grid_meet_without_threads_that_have_returned(machine: Any, check: Any) -> None:
    out = machine.zeros(4 * 40, np.int32)
    exited(machine, "grid_meets", check)(out, 33, grid=4, block=40, cooperative=True)
    found = machine.down(out, (4, 40), np.int32)
    assert found[:, :33].tolist() == [[(i + 40) % 160 for i in range(40 * b, 40 * b + 33)] for b in range(4)]


@pytest.mark.needs_sim
def test_a_grid_whose_blocks_lost_their_first_thread_does_not_meet(machine: Any) -> None:
    exited(machine, "first_thread_leaves")(machine.zeros(32, np.int32), 1, grid=2, block=32, cooperative=True)
    with pytest.raises(DriverError, match=r"needs the first thread of each block, and thread \(0, 0, 0\) has returned"):
        machine.synchronize()
