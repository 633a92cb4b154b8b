"""Copies, fills and kernels of PyCUDA's programs do not leave the memory that they begin in."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.interop.pycuda.stand_in import pycuda_driver as drv
from cuplug.runtime.interop.pycuda.stand_in.device_contexts import library_memory
from cuplug.runtime.interop.pycuda.stand_in.pycuda_compiler import SourceModule
from cuplug.runtime.interop.pycuda.stand_in.pycuda_gpuarray import GPUArray
from cuplug.runtime.machine.default_runtime import default_runtime

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("sim")]

NBYTES = 512
SIXTY_FOUR = np.ones(NBYTES // 4)  # float64, of which there are twice as many bytes


def rows(target: Any = None, source: Any = None) -> Any:
    copy = drv.Memcpy2D()
    copy.set_dst_device(target) if target is not None else copy.set_dst_host(np.zeros((4, 192), np.uint8))
    copy.set_src_device(source) if source is not None else copy.set_src_host(np.zeros((4, 192), np.uint8))
    copy.width_in_bytes = copy.src_pitch = copy.dst_pitch = 192
    copy.height = 4
    return copy()


BEYOND: dict[str, Any] = {
    "htod": lambda memory: drv.memcpy_htod(memory, SIXTY_FOUR),
    "htod, queued": lambda memory: drv.memcpy_htod_async(memory, SIXTY_FOUR),
    "dtoh": lambda memory: drv.memcpy_dtoh(np.empty_like(SIXTY_FOUR), memory),
    "dtoh, queued": lambda memory: drv.memcpy_dtoh_async(np.empty_like(SIXTY_FOUR), memory),
    "dtod, to": lambda memory: drv.memcpy_dtod(memory, drv.mem_alloc(2 * NBYTES), 2 * NBYTES),
    "dtod, from": lambda memory: drv.memcpy_dtod(drv.mem_alloc(2 * NBYTES), memory, 2 * NBYTES),
    "peer": lambda memory: drv.memcpy_peer(memory, drv.mem_alloc(2 * NBYTES), NBYTES + 1),
    "d8": lambda memory: drv.memset_d8(memory, 1, NBYTES + 1),
    "d16": lambda memory: drv.memset_d16(memory, 1, NBYTES // 2 + 1),
    "d32": lambda memory: drv.memset_d32(memory, 1, NBYTES),
    "d32, queued": lambda memory: drv.memset_d32_async(memory, 1, NBYTES),
    "d2d8": lambda memory: drv.memset_d2d8(memory, 256, 1, 100, 3),
    "rows, to": lambda memory: rows(target=memory),
    "rows, from": lambda memory: rows(source=memory),
    "an address in it": lambda memory: drv.memcpy_htod(int(memory) + 256, np.zeros(257, np.uint8)),
    "a device array": lambda memory: drv.memcpy_htod(GPUArray(128, np.float32, gpudata=memory), SIXTY_FOUR),
}


@pytest.mark.parametrize("call", BEYOND.values(), ids=BEYOND)
def test_what_leaves_an_allocation_is_refused_and_touches_no_neighbour(call: Any) -> None:
    before, memory, behind = (drv.to_device(np.full(NBYTES, 7, np.uint8)) for _ in range(3))
    with pytest.raises(drv.LogicError, match=r"the allocation has 512, and ends \d+ bytes before that"):
        call(memory)
    for neighbour in (before, behind):
        assert (drv.from_device(neighbour, NBYTES, np.uint8) == 7).all()


def test_what_ends_with_an_allocation_is_fine() -> None:
    memory = drv.mem_alloc(NBYTES)
    drv.memcpy_htod(int(memory) + 256, np.full(256, 9, np.uint8))
    drv.memset_d8(int(memory), 4, 256)
    drv.memset_d2d8(memory, 256, 3, 10, 2)
    found = drv.from_device(memory, NBYTES, np.uint8)
    assert (found[10:256] == 4).all()
    assert (found[266:] == 9).all()
    assert (found[:10] == 3).all()


def test_twice_the_size_is_explained() -> None:
    with pytest.raises(drv.LogicError, match="NumPy makes float64"):
        drv.memcpy_htod(drv.mem_alloc(NBYTES), SIXTY_FOUR)


def test_memory_that_was_given_back_is_refused() -> None:
    kept, memory = drv.mem_alloc(NBYTES), drv.mem_alloc(NBYTES)
    address = int(memory)
    memory.free()
    with pytest.raises(drv.LogicError, match="no live allocation holds it"):
        drv.memset_d8(address, 1, 4)
    drv.memset_d8(kept, 1, 4)


def test_variables_of_modules_and_page_locked_memory_can_be_copied_to() -> None:
    module = SourceModule("__device__ float table[8]; __global__ void f() {}")
    address, nbytes = module.get_global("table")
    locked = drv.pagelocked_empty(8, np.float32)
    locked[:] = 3
    drv.memcpy_htod(address, locked)
    drv.memcpy_dtoh(locked, address)
    assert nbytes == 32
    assert (locked == 3).all()


def test_memory_of_cuplugs_own_is_bounded_too() -> None:
    buffer = cuplug.cuda.alloc(NBYTES)
    drv.memset_d8(int(buffer), 1, NBYTES)
    with pytest.raises(drv.LogicError, match="the allocation has 512"):
        drv.memset_d8(int(buffer), 1, NBYTES + 1)


WRITE = "__global__ void w(float *a, int n) { int i = threadIdx.x; if (i < n) a[i] = 1; }"


@pytest.mark.parametrize("module_first", [True, False])
def test_a_kernel_that_reaches_into_the_next_block_is_reported_with_both(module_first: bool) -> None:
    if not module_first:  # as programs do that are begun as such: see install()
        default_runtime().keep_blocks_apart()
        memory, behind = drv.mem_alloc(NBYTES), drv.mem_alloc(NBYTES)
    write = SourceModule(WRITE).get_function("w")
    if module_first:
        memory, behind = drv.mem_alloc(NBYTES), drv.mem_alloc(NBYTES)
    write(memory, np.int32(128), block=(128, 1, 1))
    drv.Context.synchronize()
    write(memory, np.int32(200), block=(256, 1, 1))
    with pytest.raises(drv.LaunchError) as raised:
        drv.Context.synchronize()
    text = str(raised.value)
    assert "thread (128, 0, 0) writes 4 bytes" in text
    assert re.search(r"in line 1 of the kernel's source \(.*\), `__global__ void w", text)
    assert f"0 bytes behind the end of the 512 bytes at {int(memory):#x} that 'a' points to" in text
    assert f"512 bytes before the 512 bytes at {int(behind):#x}" in text
    with suppress(DriverError):  # which the end of a failed device is
        cuplug.shutdown()


def test_a_numpy_array_for_a_pointer_says_what_to_wrap_it_in() -> None:
    write = SourceModule(WRITE).get_function("w")
    with pytest.raises(TypeError, match=r"parameter #0 .*wrap it in In, Out or InOut"):
        write(np.ones(4, np.float32), np.int32(4), block=(4, 1, 1))


FAULTY = """
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

twice = SourceModule('''
__global__ void twice(float *a, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    float v = a[i];
    a[i] = 2 * v;
}
''').get_function("twice")
a = np.ones(100, np.float32)
twice(cuda.InOut(a), np.int32(100), block=(128, 1, 1))
print(a)
"""


def test_a_bad_launch_is_told_once_and_shortly(tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(FAULTY)
    command = [sys.executable, "-m", "cuplug.interop.pycuda", "-d", "sim", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert len(lines) <= 8, done.stderr
    assert lines[1].lstrip().startswith(f'File "{program}", line 16')
    told = [line for line in lines if "twice, block (0, 0, 0), thread (100, 0, 0) reads 4 bytes" in line]
    assert len(told) == 1
    assert re.search(
        r"in line 5 of the kernel's source \(.*\), `float v = a\[i\];`: .*behind the end of the 400 bytes .*'a' points",
        told[0],
    )


def test_a_copy_beyond_a_variable_of_a_module_is_refused() -> None:
    address, _ = SourceModule("__constant__ float table[8]; __global__ void f() {}").get_global("table")
    with pytest.raises(drv.LogicError, match=r"the variable has 32, and ends 32 bytes before that\. Twice the size"):
        drv.memcpy_htod(address, np.ones(8))
    drv.memcpy_htod(address, np.ones(8, np.float32))


def test_a_variable_that_lay_where_one_of_another_module_lies_does_not_count() -> None:
    memory = library_memory()
    memory.note_variable(0x1010, 12)
    memory.note_variable(0x1000, 64)
    memory.check("a copy", 0x1010, 48)
    with pytest.raises(DriverError, match="the variable has 64, and ends 8 bytes before that"):
        memory.check("a copy", 0x1010, 56)


@pytest.mark.parametrize("source", [[1.0, 2.0], "memory"])
def test_what_is_no_memory_of_the_host_is_called_so(source: Any) -> None:
    memory = drv.mem_alloc(8)
    with pytest.raises(
        TypeError, match=r"is no memory of the host: pass a NumPy array\. Copies take the destination first"
    ):
        drv.memcpy_htod(np.zeros(2, np.float32), memory if source == "memory" else source)


def test_more_dynamic_shared_memory_than_48_kib_is_to_be_asked_for() -> None:
    source = "extern __shared__ int most[]; __global__ void f(int *x) { most[16383] = 5; x[0] = most[16383]; }"
    kernel, out = SourceModule(source).get_function("f"), np.zeros(1, np.int32)
    with pytest.raises(
        drv.LogicError, match=r"65536 bytes of dynamic shared memory, which may have 49152: call set_att"
    ):
        kernel(drv.Out(out), block=(1, 1, 1), shared=65536)
    kernel.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536)
    kernel(drv.Out(out), block=(1, 1, 1), shared=65536)
    assert out[0] == 5


def test_kernels_allocate_as_much_as_the_limit_of_the_heap_says() -> None:
    source = "__global__ void f(int *given) { void *p = malloc(16 << 20); given[0] = p != nullptr; free(p); }"
    kernel, heap = SourceModule(source).get_function("f"), drv.limit.MALLOC_HEAP_SIZE
    before, found = drv.Context.get_limit(heap), []
    for nbytes in (before, 32 << 20, before):
        drv.Context.set_limit(heap, nbytes)
        given = np.zeros(1, np.int32)
        kernel(drv.Out(given), block=(1, 1, 1))
        found.append(given[0])
    assert found == [0, 1, 0]
