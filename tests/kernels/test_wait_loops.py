"""Threads of a block that wait in loops for one another, without a barrier."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.kernels.simulator.translate import translate

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
    "second": ("if (me == 40) other = 1;", "while (!other);"),
    "asked": ("if (me == 40) atomicExch(x, 1);", "while (!is_set(x));"),
    "tried": ("if (me == 40) atomicExch(x, 1);", "while (!Latch{x}.try_open()) {}"),
    "statement": ("if (me == 40) seen[0] = 1;", "while (seen[0] == 0 && n < 1000000000)\n n = n + 1;"),
}


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("how", WAITS)
def test_a_thread_waits_for_one_that_comes_behind_it(make_machine: Any, how: str, checked: bool) -> None:
    machine = make_machine(timeout="60s")  # instead of for ever
    write, wait = WAITS[how]
    source = f"""
    __device__ bool is_set(volatile int *flag) {{ return *flag != 0; }}
    struct Latch {{ int *at; __device__ bool try_open() {{ return atomicCAS(at, 1, 1) == 1; }} }};
    __global__ void k(int *x, volatile int *seen, int *out) {{
        __shared__ volatile int flag, other;
        int me = threadIdx.x, n = 0;
        if (me == 0) flag = other = 0;
        {"__syncthreads();" if how in ("shared", "second") else ""}
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


KERNELS = """
__device__ int held = 0;
struct Lock { __device__ void take() { while (atomicCAS(&held, 0, 1) != 0); } };
__device__ void enter(Lock lock) { lock.take(); }
__global__ void plain(int *x) { x[threadIdx.x] = 1; }
__global__ void barrier_alone(int *x) { __shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads(); *x = s[0]; }
__global__ void other(volatile int *i) { *i = 1; }
__global__ void same_name(int *x, int n) { for (int i = 0; i < n; ++i) { int j = i; while (j < i) ++j; x[i] = j; } }
__global__ void own_loop(int *x, int n) { volatile int j = 0; while (j < n) j = j + 1; x[0] = j; }
__global__ void queue(int *x, int *next, int n) { int i; while ((i = atomicAdd(next, 1)) < n) x[i] = i; }
__global__ void through_a_class(int *x) { Lock lock; enter(lock); *x += 1; atomicExch(&held, 0); }
__device__ int drawn(int *next) { return atomicAdd(next, 1); }
__global__ void queue_by_function(int *x, int *next, int n) { int i; while ((i = drawn(next)) < n) x[i] = i; }
__global__ void greatest(int *x, int value) {
    int old;
    do { old = *(volatile int *)x; if (old >= value) break; } while (atomicCAS(x, old, value) != old);
}
__global__ void bit_lock(int *x) { int old; do { old = *x & ~1; } while (atomicCAS(x, old, old | 1) != old); *x = old; }
__global__ void warp(int *x) { __syncwarp(); }
__global__ void by_itself(int *x) { while (atomicAdd(x, 0) == 0); }
template <class T> __global__ void instance(T *x) { enter(Lock()); *x += 1; atomicExch(&held, 0); }
template __global__ void instance<int>(int *);
"""


def test_kernels_beside_one_that_waits_run_as_ever() -> None:
    ways = ways_of(KERNELS)
    assert ways == {
        **dict.fromkeys(("plain", "other", "same_name", "own_loop", "queue", "queue_by_function", "greatest"), "FREE"),
        **dict.fromkeys(("through_a_class", "by_itself", "bit_lock", "warp", "instance<int>"), "FIBRES"),
        "barrier_alone": "LOOPS",
    }


def ways_of(source: str) -> dict[str, str]:
    """How the threads of each kernel's blocks are to run."""
    text = translate(source, (), checked=False).text
    return {name.replace(" ", ""): way for name, way in re.findall(r"Describe<\(&:*([^)]*)\), (\w+),", text)}


def test_a_condition_may_declare_a_pointer(machine: Any) -> None:
    source = """
    struct Node { Node *next; int value; };
    __global__ void k(Node **head, int *out) {
        while (Node *node = (Node *)atomicExch((unsigned long long *)head, 0ull)) *out = node->value;
    }"""
    node, out = machine.up(np.array([0, 7], np.uint64)), machine.zeros(1, np.int32)
    head = machine.up(np.array([node.address], np.uint64))
    machine.module(source).get_function("k")(head, out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 7
