"""The CUDA driver on a GPU: modules, kernels, and streams that other libraries made."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import DriverError
from cuplug.runtime.drivers.base import LEGACY_STREAM, PER_THREAD_STREAM, Driver
from cuplug.runtime.drivers.cuda import CudaDriver

pytestmark = [pytest.mark.needs_gpu, pytest.mark.one_schedule]

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .global .align 4 .u32 counter = 41;
.visible .const .align 4 .u32 table[4] = {1, 2, 3, 4};
.extern .shared .align 4 .b8 dynamic[];

.visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 count) {
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [value]; ld.param.u32 %r2, [count];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r2;
  @%p bra DONE;
  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r1;
DONE: ret;
}

.visible .entry count_others(.param .u64 in, .param .u32 value, .param .u32 count, .param .u64 found) {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [in]; ld.param.u32 %r1, [value]; ld.param.u32 %r2, [count]; ld.param.u64 %rd5, [found];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p, %r6, %r2;
  @%p bra DONE;
  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd2, %rd3;
  ld.global.ca.u32 %r7, [%rd4];
  setp.eq.u32 %p, %r7, %r1;
  @%p bra DONE;
  cvta.to.global.u64 %rd6, %rd5;
  red.global.add.u32 [%rd6], 1;
DONE: ret;
}

.visible .entry increment() {
  .reg .b32 %r<3>;
  ld.global.u32 %r1, [counter]; add.u32 %r2, %r1, 1; st.global.u32 [counter], %r2;
  ret;
}

.visible .entry through_shared(.param .u64 out, .param .u32 offset) {
  .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [offset];
  mov.u32 %r2, dynamic; add.u32 %r3, %r2, %r1;
  st.shared.u32 [%r3], 1234; ld.shared.u32 %r4, [%r3];
  cvta.to.global.u64 %rd2, %rd1; st.global.u32 [%rd2], %r4;
  ret;
}

.visible .entry spin(.param .u64 cycles) {
  .reg .pred %p; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [cycles]; mov.u64 %rd2, %clock64;
AGAIN: mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; setp.lt.u64 %p, %rd4, %rd1;
  @%p bra AGAIN;
  ret;
}
"""
ONE = (1, 1, 1)
SPIN = struct.pack("Q", 100_000_000)
"""About 50 ms at 2 GHz."""


@pytest.fixture
def module(driver: Driver) -> int:
    return driver.module_load(PTX)


def test_a_kernel_gets_its_parameters(driver: CudaDriver, module: int, host: Any) -> None:
    fill = driver.module_function(module, "fill")
    address, count = driver.mem_alloc(4096), 1000
    driver.memset(address, 0, 4096, stream=LEGACY_STREAM)
    parameters = struct.pack("QII", address, 0xC0FFEE, count)
    for stream in (LEGACY_STREAM, PER_THREAD_STREAM, driver.stream_create()):
        driver.memset(address, 0, 4096, stream=stream)
        driver.launch(fill, (4, 1, 1), (256, 1, 1), shared=0, stream=stream, parameters=parameters)
        written = np.frombuffer(host.read(address, 4096, stream=stream), np.uint32)
        assert (written[:count] == 0xC0FFEE).all()
        assert (written[count:] == 0).all()


def test_parameters_may_be_any_bytes_like_object(driver: CudaDriver, module: int, host: Any) -> None:
    fill = driver.module_function(module, "fill")
    address = driver.mem_alloc(512)
    for value, kind in ((1, bytearray), (2, memoryview), (3, type("Mine", (bytes,), {}))):
        parameters = kind(struct.pack("QII", address, value, 1))
        driver.launch(fill, ONE, ONE, shared=0, stream=LEGACY_STREAM, parameters=parameters)
        assert host.read(address, 4) == struct.pack("I", value)


def test_a_kernel_without_parameters_and_a_global_symbol(driver: CudaDriver, module: int, host: Any) -> None:
    increment = driver.module_function(module, "increment")
    address, nbytes = driver.module_global(module, "counter")
    assert nbytes == 4
    assert host.read(address, 4) == struct.pack("I", 41)
    host.write(address, struct.pack("I", 99))
    driver.launch(increment, ONE, ONE, shared=0, stream=LEGACY_STREAM, parameters=b"")
    assert host.read(address, 4) == struct.pack("I", 100)
    table, nbytes = driver.module_global(module, "table")
    assert host.read(table, nbytes) == struct.pack("4I", 1, 2, 3, 4)


def test_the_driver_knows_a_kernels_parameters_and_needs(driver: Driver, module: int) -> None:
    fill, increment = (driver.module_function(module, name) for name in ("fill", "increment"))
    assert driver.function_parameters(fill) == [(0, 8), (8, 4), (12, 4)]
    assert driver.function_parameters(increment) == []
    attributes = driver.function_attributes(fill)
    assert attributes.max_threads_per_block == 1024
    assert attributes.num_regs > 0
    assert attributes.shared_bytes == 0


def test_a_kernel_may_use_all_the_shared_memory_that_there_is(driver: CudaDriver, module: int, host: Any) -> None:
    kernel = driver.module_function(module, "through_shared")
    address, stream = driver.mem_alloc(512), driver.stream_create()
    most = driver.device_properties(0).shared_memory_per_block_optin
    assert most > 48 << 10
    parameters = struct.pack("QI", address, most - 4)
    driver.launch(kernel, ONE, ONE, shared=most, stream=stream, parameters=parameters)
    assert host.read(address, 4, stream=stream) == struct.pack("I", 1234)
    with pytest.raises(DriverError, match=f"{most + 1} bytes of dynamic shared memory") as caught:
        driver.launch(kernel, ONE, ONE, shared=most + 1, stream=stream, parameters=parameters)
    assert caught.value.code == 1


def test_a_launch_that_cannot_be_is_refused(driver: CudaDriver, module: int) -> None:
    fill = driver.module_function(module, "fill")
    for stream in (LEGACY_STREAM, driver.stream_create()):
        with pytest.raises(DriverError, match=r"block \(4096, 1, 1\)") as caught:
            driver.launch(fill, ONE, (4096, 1, 1), shared=0, stream=stream, parameters=struct.pack("QII", 0, 0, 0))
        assert caught.value.code == 1


def test_what_a_module_does_not_have_is_not_found(driver: Driver, module: int) -> None:
    for ask in (driver.module_function, driver.module_global):
        with pytest.raises(DriverError, match="nothing_like_it") as caught:
            ask(module, "nothing_like_it")
        assert caught.value.code == 500


def test_source_that_is_not_ptx_is_refused_with_the_drivers_log(driver: Driver) -> None:
    with pytest.raises(DriverError, match="ptxas") as caught:
        driver.module_load(PTX.replace(b"ld.global.u32 %r1", b"ld.globe.u32 %r1"))
    assert caught.value.name == "CUDA_ERROR_INVALID_PTX"
    with pytest.raises(DriverError):
        driver.module_load(b"neither PTX nor a cubin")


def test_a_module_is_unloaded_once(driver: Driver, module: int) -> None:
    driver.module_unload(module)
    with pytest.raises(DriverError) as caught:
        driver.module_unload(module)
    assert caught.value.code == 400


# --- what belongs to others


@pytest.fixture
def libcuda() -> Any:
    library = ctypes.CDLL("libcuda.so.1")
    library.cuCtxGetCurrent.argtypes = [ctypes.c_void_p]
    library.cuStreamDestroy_v2.argtypes = [ctypes.c_void_p]
    return library


@pytest.fixture
def foreign_stream(driver: Driver, libcuda: Any) -> Iterator[int]:
    """A stream that the driver has not made."""
    stream = ctypes.c_void_p()
    assert libcuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    assert stream.value
    yield stream.value
    libcuda.cuStreamDestroy_v2(stream)


def test_streams_of_others_are_accepted_in_every_call(
    driver: Driver, module: int, host: Any, foreign_stream: int
) -> None:
    first, second, event = driver.mem_alloc(4096), driver.mem_alloc(4096), driver.event_create()
    fill = driver.module_function(module, "fill")
    pinned = host.pinned(bytes(4096))
    driver.memcpy_htod(second, host.pageable(b"\7" * 4096), 4096, stream=foreign_stream)
    driver.memset(first, 1, 4096, stream=foreign_stream)
    driver.launch(
        fill, ONE, (8, 1, 1), shared=0, stream=foreign_stream, parameters=struct.pack("QII", first, 0x05050505, 8)
    )
    driver.memcpy_dtod(second, first, 64, stream=foreign_stream)
    driver.memcpy_dtoh(pinned, second, 4096, stream=foreign_stream)
    driver.event_record(event, stream=foreign_stream)
    own = driver.stream_create()
    driver.stream_wait_event(own, event)
    driver.stream_wait_event(foreign_stream, event)
    driver.stream_synchronize(own)
    assert driver.event_query(event)
    assert host.at(pinned, 4096) == b"\5" * 32 + b"\1" * 32 + b"\7" * 4032
    driver.stream_synchronize(foreign_stream)
    assert driver.stream_query(foreign_stream)


def test_streams_of_others_are_not_destroyed(driver: Driver, foreign_stream: int) -> None:
    own = driver.stream_create()
    driver.stream_destroy(own)
    for stream in (own, foreign_stream, LEGACY_STREAM, PER_THREAD_STREAM):
        with pytest.raises(DriverError) as caught:
            driver.stream_destroy(stream)
        assert caught.value.code == 400


@pytest.fixture
def other_context(driver: Driver, libcuda: Any) -> Iterator[int]:
    """Another context than the device's primary one, current in CUDA as another library leaves it."""
    import pycuda.driver

    context = pycuda.driver.Device(0).make_context()
    yield context.handle
    context.pop()
    context.detach()


def test_every_call_works_while_another_library_has_its_context_current(
    driver: CudaDriver, libcuda: Any, module: int, host: Any, other_context: int
) -> None:
    current = ctypes.c_void_p()
    fill = driver.module_function(module, "fill")
    stream, event = driver.stream_create(), driver.event_create(timing=True)
    address, pinned = driver.mem_alloc(1 << 20), driver.host_alloc(1 << 20)
    virtual = driver.virtual_memory(0)
    for used in (stream, LEGACY_STREAM, PER_THREAD_STREAM):
        driver.memset(address, 3, 1 << 20, stream=used)
        driver.launch(
            fill, ONE, (4, 1, 1), shared=0, stream=used, parameters=struct.pack("QII", address, 0x04040404, 4)
        )
        driver.event_record(event, stream=used)
        driver.stream_wait_event(used, event)
        driver.memcpy_dtoh(pinned, address, 1 << 20, stream=used)
        driver.stream_synchronize(used)
        assert driver.event_query(event)
        assert driver.stream_query(used)
        assert host.at(pinned, 1 << 20) == b"\4" * 16 + b"\3" * ((1 << 20) - 16)
        libcuda.cuCtxGetCurrent(ctypes.byref(current))
        assert current.value == other_context
    driver.synchronize()
    if virtual is not None:
        base, page = virtual.reserve_range(virtual.granularity), virtual.create_page(virtual.granularity)
        virtual.map(base, virtual.granularity, page)
        virtual.set_access(base, virtual.granularity)
        driver.memset(base, 9, 16, stream=stream)
        assert host.read(base, 16, stream=stream) == b"\t" * 16
        virtual.unmap(base, virtual.granularity)
        virtual.release_page(page)
        virtual.free_range(base, virtual.granularity)
    before = driver.mem_info()[0]
    driver.mem_free(driver.mem_alloc(64 << 20))
    driver.mem_free(address)
    driver.host_free(pinned)
    driver.event_destroy(event)
    driver.stream_destroy(stream)
    driver.module_unload(module)
    assert driver.mem_info()[0] >= before
    libcuda.cuCtxGetCurrent(ctypes.byref(current))
    assert current.value == other_context


@pytest.mark.parametrize("nbytes", [4, 4096, 65536, 65537, 1 << 20, 1 << 24])
def test_pageable_memory_was_read_when_the_call_returns_however_busy_the_stream(
    driver: Driver, module: int, host: Any, nbytes: int
) -> None:
    stream, spin = driver.stream_create(), driver.module_function(module, "spin")
    address, source = driver.mem_alloc(nbytes), host.pageable(b"\7" * nbytes)
    driver.launch(spin, ONE, ONE, shared=0, stream=stream, parameters=SPIN)
    driver.memcpy_htod(address, source, nbytes, stream=stream)
    ctypes.memset(source, 9, nbytes)
    driver.launch(spin, ONE, ONE, shared=0, stream=stream, parameters=SPIN)
    assert host.read(address, nbytes, stream=stream) == b"\7" * nbytes


def test_queries_do_not_wait(driver: Driver, module: int) -> None:
    stream, event, spin = driver.stream_create(), driver.event_create(), driver.module_function(module, "spin")
    driver.launch(spin, ONE, ONE, shared=0, stream=stream, parameters=SPIN)
    driver.event_record(event, stream=stream)
    assert not driver.event_query(event)
    assert not driver.stream_query(stream)
    driver.event_synchronize(event)
    assert driver.event_query(event)
    assert driver.stream_query(stream)


def test_kernels_see_through_one_address_what_kernels_before_wrote_through_another(driver: Driver, module: int) -> None:
    virtual = driver.virtual_memory(0)
    if virtual is None:
        pytest.skip("this installation has no virtual memory")
    unit = virtual.granularity
    base, page = virtual.reserve_range(2 * unit), virtual.create_page(unit)
    for address in (base, base + unit):
        virtual.map(address, unit, page)
        virtual.set_access(address, unit)
    stream, found = driver.stream_create(), driver.mem_alloc(512)
    driver.memset(found, 0, 512, stream=stream)
    fill, count_others = (driver.module_function(module, name) for name in ("fill", "count_others"))
    count = unit // 4
    grid = (-(-count // 256), 1, 1)
    for turn in range(2000):
        written, read = (base, base + unit) if turn % 3 else (base + unit, base)
        parameters = struct.pack("QII", written, turn, count)
        driver.launch(fill, grid, (256, 1, 1), shared=0, stream=stream, parameters=parameters)
        for address in (read, written, read):
            parameters = struct.pack("QIIQ", address, turn, count, found)
            driver.launch(count_others, grid, (256, 1, 1), shared=0, stream=stream, parameters=parameters)
    host = driver.host_alloc(64)
    driver.memcpy_dtoh(host, found, 4, stream=stream)
    driver.stream_synchronize(stream)
    assert ctypes.c_uint32.from_address(host).value == 0
    driver.host_free(host)
    driver.mem_free(found)
    driver.stream_destroy(stream)
    virtual.unmap(base, 2 * unit)
    virtual.release_page(page)
    virtual.free_range(base, 2 * unit)
