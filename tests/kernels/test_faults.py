"""What goes wrong in a kernel is reported as CUDA would, and on the simulator with kernel, block and thread."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.kernels.simulator import host_loader
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy
from cuplug.runtime.streams.stream import Stream, current_stream, stream

pytestmark = pytest.mark.needs_sim
one_schedule = pytest.mark.one_schedule


def faulty(machine: Any, **options: Any) -> Any:
    return machine.module("faulty.cu", **options)


def failure(machine: Any, code: int) -> str:
    """What the device's work did, which every call that waits reports from now on."""
    with pytest.raises(DriverError) as first:
        machine.synchronize()
    with pytest.raises(DriverError) as second:
        machine.synchronize()
    assert first.value.code == second.value.code == code
    return first.value.message


@pytest.mark.parametrize("allocator", ["direct", "caching"])
@pytest.mark.parametrize(("beyond", "where"), [(0, "0 bytes behind the end"), (25, "100 bytes behind"), (10**6, "")])
def test_a_write_behind_the_end_is_an_illegal_address(
    make_machine: Callable[..., Any], allocator: str, beyond: int, where: str
) -> None:
    machine = make_machine(allocator=allocator)
    buffer = machine.empty(1001, np.float32)
    faulty(machine).get_function("write_at")(buffer, 1001 + beyond, grid=4, block=32)
    message = failure(machine, 700)
    assert "kernel write_at, block (2, 0, 0), thread (5, 0, 0) writes 4 bytes at" in message
    assert where in message
    assert f"{int(buffer) + 4 * (1001 + beyond):#x}" in message


@one_schedule
def test_a_read_before_the_beginning_is_an_illegal_address(machine: Any) -> None:
    values, out = machine.zeros(64, np.float64), machine.zeros(64, np.float64)
    faulty(machine).get_function("read_at")(values, out, -1, grid=1, block=8)
    assert "thread (0, 0, 0) reads 8 bytes at" in failure(machine, 700)


@one_schedule
def test_the_lowest_thread_of_the_lowest_block_is_reported(machine: Any) -> None:
    out, values = machine.empty(256, np.float64), machine.zeros(100, np.float64)
    faulty(machine).get_function("read_at")(values, out, 0, grid=64, block=256)
    assert "block (0, 0, 0), thread (100, 0, 0) reads" in failure(machine, 700)


@one_schedule
def test_a_structure_that_ends_outside_is_an_illegal_address(machine: Any) -> None:
    out, values = machine.empty(16, np.uint8), machine.zeros(40, np.uint8)
    copy = faulty(machine).get_function("copy_wide")
    copy(out, values, 1, grid=1, block=1)
    machine.synchronize()
    copy(out, values, 2, grid=1, block=1)
    assert "no live allocation" in failure(machine, 700)


@one_schedule
@pytest.mark.parametrize("check", [True, False])
def test_a_null_pointer_is_an_illegal_address(machine: Any, check: bool) -> None:
    faulty(machine, check=check).get_function("write_at")(None, 0, grid=4, block=32)
    assert "a null pointer" in failure(machine, 700)


@one_schedule
@pytest.mark.parametrize("check", [True, False])
def test_a_wild_pointer_is_an_illegal_address(machine: Any, check: bool) -> None:
    faulty(machine, check=check).get_function("write_at")(0x2FFF_0000_0000, 0, grid=4, block=32)
    assert "kernel write_at, block (2, 0, 0)" in failure(machine, 700)


@one_schedule
def test_host_memory_is_an_illegal_address(machine: Any) -> None:
    host = np.zeros(8, np.float32)
    faulty(machine).get_function("write_at")(host.ctypes.data, 0, grid=4, block=32)
    assert "writes 4 bytes" in failure(machine, 700)
    assert not host.any()


@one_schedule
def test_memory_that_was_given_back_is_an_illegal_address(machine: Any) -> None:
    buffer = machine.empty(1000, np.float32)
    address = int(buffer)
    buffer.close()
    faulty(machine).get_function("write_at")(address, 0, grid=4, block=32)
    assert "no live allocation" in failure(machine, 700)


def test_memory_that_is_given_back_behind_a_launch_is_still_the_kernels(machine: Any) -> None:
    buffer = machine.empty(1000, np.float32)
    faulty(machine).get_function("write_at")(buffer, 999, grid=4, block=32)
    buffer.close()
    machine.synchronize()


CAST = """
typedef struct { int x; } Item;
__global__ void whole(int *x) { int *i = x; x[0] = *(int *)((char *)i + 2); }
__global__ void twice(char *x) { *(double *)(x + 8) = *(double *)(x + 4); }
__global__ void halves(int *x) { short *i = (short *)x; x[5] = *reinterpret_cast<const int *>(i + 1); }
__global__ void item(char *x) { Item it = *(Item *)(x + 6); *(Item *)x = it; }
__global__ void fine(int *x) { x[1] = *(int *)((char *)x + 8) * *(short *)((char *)x + 10) + *(int *)&x[3]; }
"""


@one_schedule
@pytest.mark.parametrize(("kernel", "size"), [("whole", 4), ("twice", 8), ("halves", 4), ("item", 4)])
def test_a_cast_pointer_to_an_odd_address_is_misaligned(machine: Any, kernel: str, size: int) -> None:
    machine.module(CAST).get_function(kernel)(int(machine.zeros(16, np.int32)), grid=1, block=1)
    assert f"needs an address that is a multiple of {size}" in failure(machine, 716)


@one_schedule
def test_a_cast_pointer_to_an_even_address_is_fine(machine: Any) -> None:
    values = machine.up(np.full(8, 0x00020003, np.int32))
    machine.module(CAST).get_function("fine")(values, grid=1, block=1)
    assert machine.down(values, 8, np.int32)[1] == 0x00020003 * 2 + 0x00020003


@one_schedule
def test_an_atomic_outside_is_an_illegal_address(machine: Any) -> None:
    faulty(machine).get_function("atomic_at")(machine.zeros(10, np.int32), 10, grid=1, block=1)
    assert "4 bytes at" in failure(machine, 700)


@one_schedule
@pytest.mark.parametrize(("kernel", "offset", "what"), [("misaligned", 2, "int"), ("misaligned_float4", 1, "float4")])
def test_a_misaligned_address_names_type_and_line(machine: Any, kernel: str, offset: int, what: str) -> None:
    values, out = machine.zeros(64, np.float32), machine.empty(4, np.float32)
    module = faulty(machine)
    module.get_function(kernel)(values, out, 4, grid=1, block=1)
    machine.synchronize()
    module.get_function(kernel)(values, out, offset, grid=1, block=1)
    size = 4 if what == "int" else 16
    message = failure(machine, 716)
    assert re.search(rf"{what}' .*in line \d+, `.*` needs an address that is a multiple of {size}", message), message


@one_schedule
def test_a_barrier_that_some_threads_do_not_reach_is_reported(machine: Any) -> None:
    out = machine.zeros(64, np.int32)
    faulty(machine).get_function("some_reach_the_barrier")(out, grid=1, block=64)
    message = failure(machine, 719)
    assert "kernel some_reach_the_barrier, block (0, 0, 0), thread (0, 0, 0): divergent barrier" in message
    assert re.search(
        r"16 of 64 threads, the first \(0, 0, 0\), wait at the barrier in line \d+, `.*`; 48 of 64 threads, the first "
        r"\(16, 0, 0\), have come to the end",
        message,
    )


@one_schedule
def test_two_barriers_are_not_one(machine: Any) -> None:
    faulty(machine).get_function("two_barriers")(machine.zeros(8, np.int32), grid=1, block=8)
    message = failure(machine, 719)
    lines = [int(line) for line in re.findall(r"in line (\d+)", message)]
    assert len(lines) == 2
    assert lines[0] - lines[1] == 2


@one_schedule
def test_a_shuffle_that_a_lane_of_the_mask_does_not_reach_is_reported(machine: Any) -> None:
    faulty(machine).get_function("shuffle_without_all")(machine.zeros(32, np.int32), grid=1, block=32)
    message = failure(machine, 719)
    assert "divergent" in message
    assert "thread (3, 0, 0)" in message


@one_schedule
@pytest.mark.parametrize("index", [30, -1])
def test_shared_arrays_have_ends(machine: Any, index: int) -> None:
    faulty(machine).get_function("shared_overrun")(machine.zeros(30, np.float32), index, grid=1, block=30)
    message = failure(machine, 700)
    assert "kernel shared_overrun, block (0, 0, 0), thread (0, 0, 0): writes 4 bytes of shared memory" in message


@one_schedule
def test_dynamic_shared_memory_ends_where_the_launch_says(machine: Any) -> None:
    overrun = faulty(machine).get_function("dynamic_overrun")
    out = machine.zeros(1, np.float32)
    overrun(out, 9, grid=1, block=1, shared=40)
    machine.synchronize()
    overrun(out, 10, grid=1, block=1, shared=40)
    assert "writes 4 bytes" in failure(machine, 700)


@one_schedule
def test_uninitialised_shared_memory_is_poisoned(machine: Any) -> None:
    out = machine.zeros(4, np.uint32)
    faulty(machine).get_function("uninitialised_shared")(out, grid=1, block=4)
    assert machine.down(out, 4, np.uint32).tolist() == [0xCBCBCBCB] * 4


@one_schedule
def test_a_trap_is_a_launch_failure(machine: Any) -> None:
    faulty(machine).get_function("trap")(7, grid=1, block=32)
    assert "thread (7, 0, 0): __trap()" in failure(machine, 719)


@one_schedule
def test_a_failed_assertion_is_quoted(machine: Any) -> None:
    module = faulty(machine)
    module.get_function("asserts")(40, grid=1, block=40)
    machine.synchronize()
    module.get_function("asserts")(10, grid=1, block=40)
    message = failure(machine, 710)
    assert "thread (10, 0, 0): kernel.cu:" in message
    assert "threadIdx.x < limit" in message


@one_schedule
@pytest.mark.parametrize("check", [True, False])
def test_a_stack_that_overflows_is_reported(machine: Any, check: bool) -> None:
    recurse = faulty(machine, check=check).get_function("recurse")
    sink = machine.zeros(1, np.int32)
    recurse(100, sink, grid=1, block=1)
    machine.synchronize()
    recurse(100_000_000, sink, grid=1, block=1)
    assert "stack overflowed" in failure(machine, 719)


@one_schedule
@pytest.mark.parametrize("check", [True, False])
def test_a_frame_that_is_larger_than_the_stack_does_not_reach_into_others(machine: Any, check: bool) -> None:
    faulty(machine, check=check).get_function("large_frame")(machine.zeros(4, np.int32), 5, grid=1, block=4)
    assert "stack overflowed" in failure(machine, 719)


@one_schedule
@pytest.mark.parametrize("check", [True, False, "races"])
def test_a_thread_that_waits_has_the_512_kib_of_local_memory_that_cuda_gives_it(machine: Any, check: Any) -> None:
    source = """
    __global__ void k(int *out, int step) {
        int items[(512 << 10) / 4];
        for (int i = 0; i < (512 << 10) / 4; i += step) items[i] = i + threadIdx.x;
        if (out[0] == 0) __syncthreads();
        out[threadIdx.x + 1] = items[131040];
    }"""
    out = machine.zeros(4, np.int32)
    machine.module(source, check=check).get_function("k")(out, 1008, grid=1, block=3)
    assert machine.down(out, 4, np.int32).tolist() == [0, 131040, 131041, 131042]


@one_schedule
def test_an_integer_division_by_zero_does_not_end_the_process(machine: Any) -> None:
    faulty(machine).get_function("divide")(machine.zeros(3, np.int32), grid=1, block=1)
    assert "division by zero" in failure(machine, 719)


@one_schedule
def test_another_runtime_works_after_a_fault(make_machine: Callable[..., Any]) -> None:
    broken, sound = make_machine(), make_machine()
    faulty(broken).get_function("write_at")(None, 0, grid=4, block=1000)
    values = sound.zeros(5000, np.int32)
    faulty(sound).get_function("increment")(values, 5000, grid=20, block=256)
    assert sound.down(values, 5000, np.int32).tolist() == [1] * 5000
    failure(broken, 700)


@one_schedule
def test_blocking_launches_raise_at_the_call_that_is_to_blame(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(launch_blocking=True, schedule="lazy")
    with pytest.raises(DriverError, match="kernel trap"):
        faulty(machine).get_function("trap")(0, grid=1, block=1)


@one_schedule
def test_some_seed_finds_a_missing_wait(make_machine: Callable[..., Any]) -> None:
    def result(seed: int, *, waits: bool) -> list[int]:
        machine = make_machine(schedule=f"random:{seed}")
        runtime = machine.runtime
        increment = faulty(machine).get_function("increment")
        values, side = machine.zeros(64, np.int32), Stream(runtime=runtime)
        machine.synchronize()
        for _ in range(3):
            increment(values, 64, grid=1, block=64)
        if waits:
            side.wait_stream(current_stream(runtime=runtime))
        out = np.empty(64, np.int32)
        with stream(side):
            increment(values, 64, grid=1, block=64)
            memcpy(out, values, runtime=runtime)
        machine.synchronize()
        return sorted(set(out.tolist()))

    assert all(result(seed, waits=True) == [4] for seed in range(10))
    assert any(result(seed, waits=False) != [4] for seed in range(10))


@one_schedule
def test_use_after_free_is_found_in_every_runtime_of_a_driver(machine: Any) -> None:
    """A module for the second runtime does not make what the first one's allocator keeps accessible."""
    first = machine
    store = first.module('extern "C" __global__ void store(int *x) { x[0] = 1; }').get_function("store")
    with Runtime(driver=first.runtime.driver) as second:
        SourceModule('extern "C" __global__ void other(int *x) { x[0] = 2; }', runtime=second)
        kept, buffer = first.zeros(4, np.int32), first.zeros(4, np.int32)
        store(kept, grid=1, block=1)
        address = buffer.address
        buffer.close()  # its block stays with the allocator
        store(ctypes.c_void_p(address), grid=1, block=1)
        with pytest.raises(DriverError, match="no live allocation holds it"):
            first.synchronize()


@one_schedule
def test_what_kernels_may_touch_is_found_anew_only_where_it_has_changed(
    machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that launches do not cost more the more blocks there are."""
    store = machine.module('extern "C" __global__ void store(int *x) { x[0] = 1; }').get_function("store")
    found: list[str] = []
    for name in ("Accessible", "DriverMemory"):
        counted = getattr(host_loader, name)
        monkeypatch.setattr(
            host_loader, name, lambda *given, name=name, counted=counted: found.append(name) or counted(*given)
        )
    x, kept = machine.zeros(1, np.int32), [machine.zeros(1, np.int32) for _ in range(100)]
    for expected in (1, 2, 2, 2):
        store(x, grid=1, block=1)
        assert found.count("Accessible") == expected
    kept.pop().close()
    store(x, grid=1, block=1)
    assert found.count("Accessible") == 3
    later = machine.zeros(1, np.int32)
    store(later, grid=1, block=1)
    assert found.count("Accessible") == 4
    assert found.count("DriverMemory") == 1  # all that lay in a segment that was there
    address = machine.runtime.driver.mem_alloc(3 << 20, device=0)
    store(ctypes.c_void_p(address), grid=1, block=1)
    machine.synchronize()
    assert found.count("DriverMemory") == 2
    machine.runtime.driver.mem_free(address, device=0)
    store(ctypes.c_void_p(address), grid=1, block=1)
    with pytest.raises(DriverError, match="no live allocation holds it"):
        machine.synchronize()


SHADOW_TAKEN = """
import ctypes, gc, mmap

libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
no_reserve, no_replacement = 0x4000, 0x100000
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve | no_replacement
libc.mmap(0xFE000000000, 1 << 37, 0, flags, -1, 0)  # none of it may be read or written

import numpy as np
import cuplug
from cuplug.runtime.memory.copies import memcpy

cuplug.init(driver="sim")
for size in (500, 501, 502):
    module = cuplug.SourceModule(
        "__device__ int table[%d]; __global__ void fill(int* out) { *out = table[7] = sizeof table / 4; }" % size
    )
    out, host = cuplug.cuda.alloc(4), np.zeros(1, np.int32)
    module.get_function("fill")(out, grid=1, block=1)
    memcpy(host, out)
    print(*host)
    del module
    gc.collect()
"""


def test_memory_where_the_tables_of_checks_would_lie_is_left_alone(quick_compiler: None, kernel_cache: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHADOW_TAKEN],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "CUPLUG_CACHE_DIR": str(kernel_cache)},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["500", "501", "502"]), done.stderr


WHERE_IT_LIES = {
    "an index below 0, unsigned": ("x[n - 1u] = 1;", "from where 'x' points, did an index wrap around at 32 bits"),
    "a null pointer": (
        "int *p = (int *)malloc(1 << 30); x[1] = p[x[0]];",
        "malloc and new give one when their heap is full",
    ),
    "an index beyond a piece of the heap": (
        "int *p = (int *)malloc(16); x[0] = p[100 + n];",
        "the kernel follows a pointer to that, or leaves a variable of the source, or what malloc or new gave",
    ),
    "text as an address": ("x = (int *)0x6c6c6548636c6c60; *x = 1;", "takes what is no pointer for one"),
}


@one_schedule
@pytest.mark.parametrize(("body", "told"), WHERE_IT_LIES.values(), ids=WHERE_IT_LIES)
def test_an_address_of_no_allocation_is_told_by_what_it_may_come_from(machine: Any, body: str, told: str) -> None:
    source = f"__global__ void k(int *x, unsigned n) {{ {body} }}"
    machine.module(source).get_function("k")(machine.zeros(4, np.int32), 0, grid=1, block=1)
    assert told in failure(machine, 700)


@one_schedule
def test_an_address_of_the_hosts_memory_is_called_so(machine: Any) -> None:
    array = np.zeros(4, np.int32)
    machine.module("__global__ void k(int *x) { x[0] = 1; }").get_function("k")(array.ctypes.data, grid=1, block=1)
    assert "it is memory of the host: copy it to the device" in failure(machine, 700)


@one_schedule
def test_a_null_pointer_is_not_laid_to_a_heap_that_the_source_does_not_use(machine: Any) -> None:
    source = "// a new value\n__global__ void k(int **x) { x[0][0] = 1; }"
    machine.module(source).get_function("k")(machine.zeros(2, np.int32), grid=1, block=1)
    told = failure(machine, 700)
    assert "a null pointer" in told
    assert "heap" not in told


@one_schedule
def test_memory_that_was_freed_is_told_from_memory_behind_an_allocation(make_machine: Callable[..., Any]) -> None:
    machine = make_machine(allocator="caching")
    kept, freed = machine.zeros(4, np.int32), machine.zeros(1000, np.int32)
    address = int(freed) + 2048
    del freed
    machine.module("__global__ void k(int *x) { x[0] = 1; }").get_function("k")(address, grid=1, block=1)
    assert "in memory that was freed, or not given out yet" in failure(machine, 700)
    assert int(kept)
