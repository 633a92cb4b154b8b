"""CUB's algorithms for blocks and warps on the simulator, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

SOURCE = """
#include <cub/cub.cuh>
#include <cub/block/block_reduce.cuh>
__global__ void sums(int *x) {
    typedef cub::BlockReduce<int, 96> Reduce;
    __shared__ typename Reduce::TempStorage room;
    int total = Reduce(room).Sum(x[threadIdx.x]);
    __syncthreads();
    int most = Reduce(room).Reduce(x[threadIdx.x], cub::Max(), 50);
    if (threadIdx.x == 0) x[96] = total, x[97] = most;
}
__global__ void scans(int *x, int *y) {
    typedef cub::BlockScan<int, 64> Scan;
    __shared__ typename Scan::TempStorage room;
    int mine[2] = {x[2 * threadIdx.x], x[2 * threadIdx.x + 1]}, total;
    Scan(room).ExclusiveSum(mine, mine, total);
    y[2 * threadIdx.x] = mine[0], y[2 * threadIdx.x + 1] = mine[1];
    __syncthreads();
    int one;
    Scan(room).InclusiveSum(x[threadIdx.x], one);
    y[128 + threadIdx.x] = one;
    y[192 + threadIdx.x] = total;
}
__global__ void warps(int *x, int *y) {
    typedef cub::WarpReduce<int> Reduce;
    typedef cub::WarpScan<int> Scan;
    __shared__ typename Reduce::TempStorage room;
    __shared__ typename Scan::TempStorage other;
    int sum = Reduce(room).Sum(x[threadIdx.x]), before;
    Scan(other).ExclusiveSum(x[threadIdx.x], before);
    y[threadIdx.x] = before;
    if (threadIdx.x % 32 == 0) y[64 + threadIdx.x / 32] = sum;
}
__global__ void turned(int *x, int *y) {
    typedef cub::BlockLoad<int, 32, 4> Load;
    typedef cub::BlockExchange<int, 32, 4> Exchange;
    typedef cub::BlockStore<int, 32, 4, cub::BLOCK_STORE_STRIPED> Store;
    __shared__ typename Exchange::TempStorage room;
    int items[4];
    Load().Load(x, items, 100, -1);
    Exchange(room).BlockedToStriped(items, items);
    Store().Store(y, items);
}
"""
VALUES = np.random.default_rng(18).integers(-100, 100, 128).astype(np.int32)


def result(machine: Any, kernel: str, threads: int) -> Any:
    out = machine.zeros(256, np.int32)
    machine.module(SOURCE).get_function(kernel)(machine.up(VALUES), out, grid=1, block=threads)
    return machine.down(out, 256, np.int32)


def test_a_block_reduces_all_or_the_first_of_its_values(machine: Any) -> None:
    memory = machine.up(VALUES)
    machine.module(SOURCE).get_function("sums")(memory, grid=1, block=96)
    assert machine.down(memory, 128, np.int32)[96:98].tolist() == [VALUES[:96].sum(), VALUES[:50].max()]


def test_a_block_scans_one_or_several_values_a_thread(machine: Any) -> None:
    found = result(machine, "scans", 64)
    assert (found[:128] == np.cumsum(VALUES) - VALUES).all()
    assert (found[128:192] == np.cumsum(VALUES[:64])).all()
    assert (found[192:] == VALUES.sum()).all()


def test_warps_reduce_and_scan_by_themselves(machine: Any) -> None:
    found = result(machine, "warps", 64)
    parts = VALUES[:64].reshape(2, 32)
    assert (found[:64].reshape(2, 32) == np.cumsum(parts, 1) - parts).all()
    assert (found[64:66] == parts.sum(1)).all()


def test_a_block_loads_exchanges_and_stores(machine: Any) -> None:
    expected = VALUES.copy()
    expected[100:] = -1
    assert (result(machine, "turned", 32)[:128] == expected).all()
