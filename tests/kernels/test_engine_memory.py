"""Where this machine has no memory for the engine's own tables, a launch fails and says so; nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.runtime.kernels.simulator.host_compiler import HEADERS, find_compiler

pytestmark = [pytest.mark.needs_sim, pytest.mark.usefixtures("needs_compiler")]

FAILING = """
#include <stdlib.h>
extern "C" { __attribute__((visibility("default"))) int failing_at = -1; }
static bool fails() { return failing_at >= 0 && failing_at-- == 0; }
static void* failing_realloc(void* at, size_t n) { return fails() ? nullptr : realloc(at, n); }
static void* failing_malloc(size_t n) { return fails() ? nullptr : malloc(n); }
static void* failing_calloc(size_t m, size_t n) { return fails() ? nullptr : calloc(m, n); }
#define realloc failing_realloc
#define malloc failing_malloc
#define calloc failing_calloc
"""
# A process has one engine: the tables lie at fixed addresses. So each of these is a process of its own.
BEGIN = """
import ctypes, sys
import numpy as np
import cuplug
from cuplug.allocators.errors import DriverError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.kernels.simulator import engine
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy

made = engine._engine = engine.Engine(open(sys.argv[1], "rb").read())
failing = ctypes.c_int.in_dll(made._library, "failing_at")
SOURCE = '''
__global__ void chain(int *x, int n) {
    if (threadIdx.x == 0) {
        __threadfence();
        for (int i = 0; i < n; ++i) atomicAdd(&x[i], 1);
        __threadfence();
    }
}
'''
runtime = Runtime(driver="sim", allocator="caching")
def launched(check, succeed):
    "What a launch ends with of which so many requests for memory succeed, and whether one failed."
    x = runtime.alloc(160)
    memcpy(x, np.zeros(40, np.int32), runtime=runtime)
    chain = SourceModule(SOURCE, runtime=runtime, check=check).get_function("chain")
    failing.value = succeed
    chain(x, 40, grid=80, block=32)
    failed, failing.value = failing.value < 0, -1
    device = runtime.driver._devices.made[0]
    fault, device.failure = device.failure, None  # for another attempt
    if fault is None:
        found = np.zeros(40, np.int32)
        memcpy(found, x, runtime=runtime)
        assert (found == 80).all(), found
    return fault, failed
"""
LAUNCHES = """
for check in (True, "races"):
    launched(check, 1 << 30)
    for succeed in range(400):
        fault, failed = launched(check, succeed)
        if not failed:
            break
        assert fault.code == 701 and "this machine has no memory left" in str(fault), fault
    print(check, succeed > 0, fault is None)
"""
TEXTURES = """
failing.value = 0
try:
    made.show_image(16)
except MemoryError as error:
    print(error)
made.show_image(16)
made.show_image(16, shown=False)
"""
TAKEN = """
launched(True, 1 << 30)
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
private, no_reserve, no_replacement = 0x22, 0x4000, 0x100000
table = (0x2000_0000_0000 >> 3) + (1 << 20)  # of memory from 8 MiB on
print(libc.mmap(table, 1 << 30, 0, private | no_reserve | no_replacement, -1, 0) == table)
kept = runtime.alloc(64 << 20)
print(launched(True, 1 << 30)[0])
print(launched(False, 1 << 30)[0])
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine, in which the memory that is asked for next can fail."""
    folder: Path = tmp_path_factory.mktemp("engine")
    (folder / "failing.h").write_text(FAILING)
    compiler = find_compiler()
    source = str(HEADERS / "engine" / "engine.cpp")
    command = [*compiler.flags(), "-O1", "-include", "failing.h", "-shared", "-o", "engine.so", source, "-lpthread"]
    done = compiler.run(command, str(folder))
    assert done.returncode == 0, done.stderr
    return folder / "engine.so"


def said(program: str, image: Path, kernel_cache: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, str(image)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "CUPLUG_CACHE_DIR": str(kernel_cache)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_launch_without_memory_for_its_tables_fails_and_says_so(image: Path, kernel_cache: Path) -> None:
    assert said(LAUNCHES, image, kernel_cache) == ["True True True", "races True True"]


def test_a_texture_that_there_is_no_memory_to_know_is_refused(image: Path, kernel_cache: Path) -> None:
    assert said(TEXTURES, image, kernel_cache) == ["no memory is left on this machine to know one more texture"]


def test_a_launch_that_cannot_be_checked_is_refused_and_not_checked_wrongly(image: Path, kernel_cache: Path) -> None:
    """Something else lies where the table of a live buffer should."""
    taken, checked, unchecked = said(TAKEN, image, kernel_cache)
    assert taken == "True"
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in checked
    assert "compile kernels with check=False" in checked
    assert unchecked == "None"
