from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from cuplug import CuplugError, Runtime
from cuplug.runtime.drivers.base import PER_THREAD_STREAM
from cuplug.runtime.memory.copies import memcpy
from cuplug.runtime.memory.pinned import alloc_pinned, pinned_allocator
from cuplug.runtime.streams.stream import ExternalStream, Stream

pytestmark = pytest.mark.one_schedule
NBYTES = 1 << 20


def test_pinned_memory_shows_itself_to_numpy(runtime: Runtime) -> None:
    pinned = alloc_pinned(100, runtime=runtime)
    pinned.array[:] = np.arange(100)
    assert (np.asarray(pinned) == np.arange(100)).all()
    assert np.asarray(pinned).ctypes.data == pinned.address
    assert pinned.array.dtype == np.uint8
    assert len(pinned) == pinned.nbytes == 100
    assert np.array(pinned, copy=True).ctypes.data != pinned.address
    assert np.asarray(pinned, dtype=np.int32).dtype == np.int32


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have the buffer protocol from Python 3.12 on")
def test_pinned_memory_has_the_buffer_protocol(runtime: Runtime) -> None:
    pinned = alloc_pinned(100, runtime=runtime)
    memoryview(pinned)[0] = 7
    assert pinned.array[0] == 7


def test_pinned_memory_is_used_again(runtime: Runtime) -> None:
    address = alloc_pinned(100_000, runtime=runtime).address
    assert alloc_pinned(100_000, runtime=runtime).address == address


def test_pinned_memory_is_kept_by_the_arrays_on_it(runtime: Runtime) -> None:
    pinned = alloc_pinned(100, runtime=runtime)
    address, array = pinned.address, pinned.array[10:20].view(np.uint16)
    pinned.close()
    pinned.close()
    assert alloc_pinned(100, runtime=runtime).address != address
    array[:] = 5
    del array
    assert alloc_pinned(100, runtime=runtime).address == address


@pytest.mark.parametrize(
    "use", [lambda pinned: pinned.array, np.asarray, lambda pinned: pinned.nbytes, lambda pinned: pinned.__enter__()]
)
def test_a_closed_pinned_buffer_cannot_be_used(runtime: Runtime, use: Any) -> None:
    with alloc_pinned(100, runtime=runtime) as pinned:
        assert not pinned.closed
    assert pinned.closed
    assert repr(pinned) == "<PinnedBuffer, closed>"
    with pytest.raises(CuplugError, match="was closed"):
        use(pinned)


def test_pinned_memory_may_be_used_on_streams_of_several_devices(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    pinned = alloc_pinned(4096, runtime=runtime)
    pinned.array[:] = 3
    queues = [Stream(ordinal, runtime=runtime) for ordinal in (0, 1)]
    buffers = [runtime.alloc(4096, stream=queue) for queue in queues]
    for buffer, queue in zip(buffers, queues, strict=True):
        memcpy(buffer, pinned, stream=queue, runtime=runtime)
    del pinned
    alloc_pinned(4096, runtime=runtime).array[:] = 4
    for buffer, queue in zip(buffers, queues, strict=True):
        result = np.empty(4096, np.uint8)
        memcpy(result, buffer, stream=queue, runtime=runtime)
        assert (result == 3).all()


@pytest.mark.needs_sim
def test_pinned_memory_goes_back_to_the_driver_with_the_cache() -> None:
    with Runtime(driver="sim") as runtime:
        alloc_pinned(100, runtime=runtime).close()
        assert runtime.driver.live.host_allocations == 1
        assert pinned_allocator(runtime).release_cached() > 0
        assert runtime.driver.live.host_allocations == 0


def test_a_pinned_buffer_that_outlives_its_runtime_is_harmless(make_runtime: Any) -> None:
    runtime = make_runtime()
    pinned = alloc_pinned(100, runtime=runtime)
    runtime.close()
    with pytest.raises(CuplugError, match="shut down"):
        pinned.array  # noqa: B018
    pinned.close()


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_memory_that_another_threads_own_stream_uses_is_not_handed_out_before_that_has_passed() -> None:
    """All threads name their own default streams by one handle. A fence must not take this thread's for the other's."""
    with Runtime(driver="sim:schedule=lazy") as runtime:
        pinned, buffer = alloc_pinned(NBYTES, runtime=runtime), runtime.alloc(NBYTES)
        pinned.array[:] = 1

        def copy() -> None:
            memcpy(buffer, pinned, stream=ExternalStream(PER_THREAD_STREAM, runtime=runtime), runtime=runtime)

        thread = threading.Thread(target=copy)
        thread.start()
        thread.join()
        pinned.close()
        alloc_pinned(NBYTES // 2, runtime=runtime)  # takes back what was closed, and makes the fence
        ExternalStream(PER_THREAD_STREAM, runtime=runtime).synchronize()  # this thread's own
        for _ in range(2):
            alloc_pinned(NBYTES, runtime=runtime).array[:] = 2
        result = np.zeros(NBYTES, np.uint8)
        memcpy(result, buffer, runtime=runtime)
        assert (result == 1).all()
