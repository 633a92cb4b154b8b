"""Threads of a block that wait in loops for one another, without a barrier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]

WAITS = {
    "volatile": ("if (me == 40) *(volatile int *)x = 1;", "while (*(volatile int *)x == 0);"),
    "parameter": ("if (me == 1) seen[0] = 1;", "while (seen[0] == 0) {}"),
    "shared": ("if (me == 40) flag = 1;", "while (!flag) ;"),
    "atomic": ("if (me == 40) atomicExch(x, 1);", "while (atomicAdd(x, 0) == 0) {}"),
    "compared": ("if (me == 40) atomicExch(x, 1);", "while (atomicCAS(x, 1, 1) != 1);"),
    "cached": ("if (me == 40) x[0] = 1;", "while (__ldcg(x) == 0);"),
    "do": ("if (me == 40) seen[0] = 1;", "int v; do { v = seen[0]; __threadfence(); } while (v == 0);"),
    "endless": ("if (me == 40) seen[0] = 1;", "while (true) { if (seen[0]) break; }"),
    "for": ("if (me == 40) seen[0] = 1;", "for (;;) { int v = seen[0]; if (v) break; }"),
    "statement": ("if (me == 40) seen[0] = 1;", "while (seen[0] == 0 && n < 1000000000)\n n = n + 1;"),
}


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("how", WAITS)
def test_a_thread_waits_for_one_that_comes_behind_it(make_machine: Any, how: str, checked: bool) -> None:
    machine = make_machine(timeout="60s")  # instead of for ever
    write, wait = WAITS[how]
    source = f"""__global__ void k(int *x, volatile int *seen, int *out) {{
        __shared__ volatile int flag;
        int me = threadIdx.x, n = 0;
        if (me == 0) flag = 0;
        {"__syncthreads();" if how == "shared" else ""}
        {write}
        {wait}
        out[me] = 5;
    }}"""
    x, out = machine.zeros(4, np.int32), machine.zeros(64, np.int32)
    machine.module(source, check=checked).get_function("k")(x, x, out, grid=1, block=64)
    assert (machine.down(out, 64, np.int32) == 5).all()


def test_warps_hand_work_to_one_another_through_flags(make_machine: Any) -> None:
    machine = make_machine(timeout="60s")
    source = """
    __device__ void wait_for(volatile int *flag, int value) { while (*flag != value); }
    __global__ void pipeline(const float *in, float *out, int steps) {
        __shared__ volatile float slot;
        __shared__ volatile int full;
        if (threadIdx.x == 0) full = 0;
        __syncthreads();
        if (threadIdx.x == 0)  // consumes
            for (int i = 0; i < steps; ++i) {
                wait_for(&full, 1);
                out[i] = 2 * slot;
                __threadfence_block();
                full = 0;
            }
        else if (threadIdx.x == 32)  // produces
            for (int i = 0; i < steps; ++i) {
                wait_for(&full, 0);
                slot = in[i];
                __threadfence_block();
                full = 1;
            }
    }"""
    values = np.arange(50, dtype=np.float32)
    out = machine.zeros(50, np.float32)
    machine.module(source).get_function("pipeline")(machine.up(values), out, 50, grid=1, block=64)
    assert np.array_equal(machine.down(out, 50, np.float32), 2 * values)
