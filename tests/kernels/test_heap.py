"""What kernels allocate themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError

pytestmark = pytest.mark.one_schedule


@pytest.fixture
def heap(machine: Any) -> Any:
    return machine.module("heap.cu")


def test_objects_live_across_launches_and_know_their_kind(machine: Any, heap: Any) -> None:
    out = machine.empty(8, np.int32)
    heap.get_function("create")(8, grid=1, block=1)
    heap.get_function("measure")(out, grid=1, block=8)
    assert machine.down(out, 8, np.int32).tolist() == [i * i if i % 2 else i for i in range(8)]
    heap.get_function("destroy")(8, grid=1, block=1)
    machine.synchronize()


def test_blocks_allocate_at_once(machine: Any, heap: Any) -> None:
    out = machine.empty((40, 64), np.int32)
    heap.get_function("reversed")(out, grid=40, block=64)
    assert np.array_equal(machine.down(out, (40, 64), np.int32), np.tile(np.arange(64, 0, -1), (40, 1)))


def test_too_much_gives_a_null_pointer(machine: Any, heap: Any) -> None:
    out = machine.zeros(1, np.int32)
    heap.get_function("too_much")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 1


@pytest.mark.needs_sim
@pytest.mark.parametrize(("name", "argument", "what"), [("beyond", 4, "writes 4 bytes"), ("after_free", None, "reads")])
def test_errors_are_found(machine: Any, heap: Any, name: str, argument: Any, what: str) -> None:
    heap.get_function(name)(machine.zeros(1, np.int32) if argument is None else argument, grid=1, block=1)
    with pytest.raises(DriverError, match=what):
        machine.synchronize()
