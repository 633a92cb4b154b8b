"""The core makes pages of the host in several threads, and exactly those that one thread would have made in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.native import is_available

from . import native_core as core

pytestmark = [
    pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler"),
    pytest.mark.skipif(not is_available(), reason="the core is not built"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core"),
]

DRIVER = r"""
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
typedef unsigned long long Address;
static Address top = 1ull << 40;
static atomic_int created, released, inside, together, attempts;
int refused_from = 1 << 30; /* the number of the first attempt that is refused */
int all_at_once = 0;        /* how many threads an attempt waits for */
int counts(int what) { return what == 0 ? created : what == 1 ? released : together; }
#define NOTHING(name) int name() { return 0; }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = attribute == 102, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &top, 0; }
int cuCtxGetCurrent(void **context) { return *context = &top, 0; }
int cuCtxPopCurrent_v2(void **context) { return *context = &top, 0; }
int cuMemAlloc_v2(Address *address, size_t nbytes) { return *address = top, top += nbytes, 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = 0, *total = 1ull << 36, 0; }
int cuStreamIsCapturing(void *stream, int *status) { return *status = 0, 0; }
int cuEventCreate(void **event, unsigned flags) { return *event = &top, 0; }
int cuMemGetAllocationGranularity(size_t *nbytes, const void *properties, int option) { return *nbytes = 2 << 20, 0; }
int cuMemAddressReserve(Address *address, size_t nbytes, size_t alignment, Address wanted, Address flags) {
  return *address = top, top += nbytes, 0;
}
int cuMemCreate(Address *handle, size_t nbytes, const int *properties, Address flags) {
  if (properties[2] != 3) return 2; /* the device is full */
  if (++inside > together) together = inside;
  struct timespec moment = {0, 1000000};
  for (int left = 5000; together < all_at_once && left > 0; --left) nanosleep(&moment, 0);
  int number = ++attempts;
  --inside;
  if (number >= refused_from) return 2;
  return *handle = ++created, 0;
}
int cuMemRelease(Address handle) { return ++released, 0; }
NOTHING(cuDevicePrimaryCtxRelease_v2) NOTHING(cuCtxPushCurrent_v2) NOTHING(cuMemFree_v2)
NOTHING(cuThreadExchangeStreamCaptureMode) NOTHING(cuEventRecord) NOTHING(cuEventQuery) NOTHING(cuEventSynchronize)
NOTHING(cuEventDestroy_v2) NOTHING(cuMemAddressFree) NOTHING(cuMemMap) NOTHING(cuMemSetAccess) NOTHING(cuMemUnmap)
"""
PROGRAM = r"""
import ctypes, sys
from cuplug.allocators import _native
MIB, U64 = 1 << 20, ctypes.c_uint64
fake = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
core = ctypes.CDLL(_native.__file__)
class Option(ctypes.Structure): _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]
ctypes.c_int.in_dll(fake, "all_at_once").value = 2
table, made, block = (ctypes.c_uint64 * 64)(), ctypes.c_void_p(), ctypes.c_void_p()
assert core.cuplug_cuda_upstream(0, table) == 0
option, one = Option(b"host", str(256 * MIB).encode()), ctypes.c_size_t(1)
assert core.cuplug_allocator_create(b"expandable", ctypes.byref(option), one, table, ctypes.byref(made)) == 0
def allocate(nbytes): return core.cuplug_allocate(made, U64(nbytes), U64(0), U64(0), ctypes.byref(block))
assert allocate(40 * MIB) == 0
print("pages", fake.counts(0), "several", fake.counts(2) >= 2)
ctypes.c_int.in_dll(fake, "refused_from").value = fake.counts(0) + 4
print("refused", allocate(80 * MIB), "kept", fake.counts(0) - fake.counts(1))
ctypes.c_int.in_dll(fake, "refused_from").value = 1 << 30
print("again", allocate(80 * MIB), "kept", fake.counts(0) - fake.counts(1))
core.cuplug_allocator_close(made)
print("left", fake.counts(0) - fake.counts(1))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the program prints over a driver that is full, and refuses the fourth page of the second block."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(DRIVER)
    command = ["gcc", "-w", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(folder / "driver.c")]
    subprocess.run(command, check=True, timeout=60)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_several_pages_are_made_at_the_same_time(said: list[str]) -> None:
    assert said[0] == "pages 20 several True"


def test_of_pages_made_at_the_same_time_none_is_left_where_one_is_refused(said: list[str]) -> None:
    assert said[1] == "refused 1 kept 20"


def test_after_a_refusal_the_same_is_made_again_and_all_goes_back_in_the_end(said: list[str]) -> None:
    assert said[2:] == ["again 0 kept 60", "left 0"]
