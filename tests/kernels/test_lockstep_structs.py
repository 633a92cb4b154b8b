"""Volatile pointers to structures in sources from before CUDA 9: a warp works in lockstep by them, without races."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

WHOLE = """
struct Sums {
    float x, y;
    __device__ Sums() {}
    __device__ Sums(float x, float y) : x(x), y(y) {}
    __device__ Sums(Sums const &other) : x(other.x), y(other.y) {}
    __device__ Sums(Sums const volatile &other) : x(other.x), y(other.y) {}
    __device__ Sums &operator=(Sums const &other) { x = other.x; y = other.y; return *this; }
    __device__ void operator=(Sums const &other) volatile { x = other.x; y = other.y; }
};
__device__ Sums add(Sums a, Sums b) { return Sums(a.x + b.x, a.y + b.y); }
__global__ void whole(Sums *out, const Sums *in) {
    __shared__ float room[128];
    Sums *kept = (Sums *)room;
    unsigned t = threadIdx.x;
    kept[t] = in[t];
    __syncthreads();
    if (t < 32) {
        volatile Sums *s = kept;
        for (int d = 32; d > 0; d >>= 1) s[t] = add(s[t], s[t + d]);
    }
    if (t == 0) *out = kept[0];
}
"""


@pytest.mark.parametrize("check", [True, "races"])
def test_a_warp_sums_structures_in_lockstep(machine: Any, check: Any) -> None:
    given = np.arange(128, dtype=np.float32).reshape(64, 2)
    module = machine.module("lockstep_structs.cu", check=check)
    for kernel in ("vectors", "pairs"):
        out = machine.zeros(2, np.float32)
        module.get_function(kernel)(out, machine.up(given), grid=1, block=64)
        assert machine.down(out, 2, np.float32).tolist() == given.sum(0).tolist()


def test_a_lane_waits_for_a_flag_in_a_volatile_structure(machine: Any) -> None:
    out = machine.zeros(2, np.int32)
    machine.module("lockstep_structs.cu").get_function("awaited")(out, grid=1, block=64)
    assert machine.down(out, 2, np.int32).tolist() == [7, 8]


def test_structures_that_are_assigned_whole_are_summed_in_lockstep(machine: Any) -> None:
    """As in the reductions of PyCUDA's guide, whose structures have operators for volatile elements."""
    given = np.arange(128, dtype=np.float32).reshape(64, 2)
    out = machine.zeros(2, np.float32)
    machine.module(WHOLE).get_function("whole")(out, machine.up(given), grid=1, block=64)
    assert machine.down(out, 2, np.float32).tolist() == given.sum(0).tolist()


def test_a_flag_in_a_volatile_structure_is_no_race(machine: Any) -> None:
    x, ready = machine.zeros(8, np.float32), machine.zeros(16, np.int32)
    module = machine.module("lockstep_structs.cu", check="races")
    module.get_function("handed_on")(x, ready, grid=8, block=32)
    machine.synchronize()
    assert machine.down(x, 8, np.float32).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
