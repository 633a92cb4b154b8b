from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from cuplug import Buffer, CuplugError, OutOfMemoryError
from cuplug.runtime.machine.device import device
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.streams.stream import Stream, stream

one_schedule = pytest.mark.one_schedule
LARGE = 64 << 20


def _allocated(runtime: Runtime) -> int:
    return runtime.allocator(0).statistics().all.allocated_bytes.current


@one_schedule
def test_a_buffer_knows_its_memory(cuda: Any) -> None:
    buffer = cuda.alloc(1000)
    assert int(buffer) == buffer.address == buffer.__index__() != 0
    assert buffer.address % 512 == 0
    assert (buffer.nbytes, buffer.device, buffer.stream) == (1000, 0, 0)
    assert not buffer.closed
    assert repr(buffer) == f"<Buffer of 1000 bytes at {buffer.address:#x} on device 0>"


@one_schedule
def test_a_buffer_is_made_on_the_current_device_and_stream(cuda: Any) -> None:
    with cuda.device(1):
        assert cuda.alloc(10).device == 1
        with cuda.stream(cuda.Stream()) as chosen:
            assert cuda.alloc(10).stream == chosen.cuda_stream
    assert (cuda.alloc(10).device, cuda.alloc(10).stream) == (0, 0)


@one_schedule
def test_a_buffer_for_a_stream_of_another_device_is_made_there(cuda: Any) -> None:
    buffer = cuda.alloc(10, stream=cuda.Stream(1))
    assert buffer.device == 1
    assert cuda.current_device() == 0


@one_schedule
def test_a_dropped_buffer_gives_its_memory_back(runtime: Runtime) -> None:
    buffer = runtime.alloc(1000)
    assert _allocated(runtime) == 1024
    del buffer
    assert _allocated(runtime) == 0


@one_schedule
def test_closing_again_does_nothing(runtime: Runtime) -> None:
    buffer, other = runtime.alloc(1000), runtime.alloc(1000)
    for _ in range(3):
        buffer.close()
    assert buffer.closed
    assert _allocated(runtime) == 1024
    del buffer
    assert _allocated(runtime) == 1024
    other.close()


@one_schedule
def test_many_threads_may_close_one_buffer(runtime: Runtime) -> None:
    for _ in range(50):
        buffer, barrier = runtime.alloc(1000), threading.Barrier(4)

        def close(buffer: Buffer = buffer, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            buffer.close()

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _allocated(runtime) == 0
    statistics = runtime.allocator(0).statistics().all
    assert statistics.allocation.freed == 50


@one_schedule
def test_the_context_manager_closes_also_after_an_exception(runtime: Runtime) -> None:
    with pytest.raises(KeyError), runtime.alloc(1000) as buffer:
        raise KeyError
    assert buffer.closed
    assert _allocated(runtime) == 0


@one_schedule
@pytest.mark.parametrize(
    "use",
    [
        int,
        lambda buffer: buffer.nbytes,
        lambda buffer: buffer.device,
        lambda buffer: buffer.stream,
        lambda buffer: buffer.address,
        lambda buffer: buffer.record_stream(0),
        lambda buffer: buffer.__cuda_array_interface__,
        Buffer.__enter__,
    ],
)
def test_a_closed_buffer_cannot_be_used(runtime: Runtime, use: Any) -> None:
    buffer = runtime.alloc(1000)
    buffer.close()
    with pytest.raises(CuplugError, match="was closed"):
        use(buffer)
    assert repr(buffer) == "<Buffer, closed>"


@one_schedule
def test_a_buffer_of_no_bytes_has_address_zero(runtime: Runtime) -> None:
    buffer = runtime.alloc(0)
    assert (int(buffer), buffer.nbytes, buffer.device) == (0, 0, 0)
    buffer.record_stream(Stream(runtime=runtime))
    buffer.close()
    assert buffer.closed


@one_schedule
@pytest.mark.parametrize(("wrong", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), ([], TypeError)])
def test_a_wrong_size_is_refused(runtime: Runtime, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        runtime.alloc(wrong)


@one_schedule
def test_the_array_interface_shows_bytes(cuda: Any) -> None:
    queue = cuda.Stream()
    interface = cuda.alloc(1000, stream=queue).__cuda_array_interface__
    assert interface["version"] == 3
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((1000,), "|u1", None)
    assert interface["stream"] == queue.cuda_stream
    assert cuda.alloc(1000).__cuda_array_interface__["stream"] == 1  # the legacy stream: 0 is forbidden


# --- PITFALLS: each block owns its allocator; the current one may have changed


@one_schedule
def test_a_buffer_goes_back_to_its_own_allocator(make_runtime: Any) -> None:
    first, second = make_runtime(), make_runtime(allocator="direct")
    buffer = first.alloc(1000)
    other = second.alloc(1000)
    assert _allocated(first) == 1024
    del buffer
    assert (_allocated(first), _allocated(second)) == (0, 1024)
    del other


@one_schedule
def test_a_buffer_dropped_on_another_device_goes_back_to_its_own(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2, allocator="direct")
    buffer = runtime.alloc(LARGE)
    with device(1, runtime=runtime):
        del buffer
        assert _allocated(runtime) == 0
        assert runtime.allocator(0).release_cached() in (0, LARGE)
        assert runtime.driver.current_device() == 1


# --- PITFALLS: a finaliser may run on a thread with no current context, or another device's


@one_schedule
def test_a_buffer_may_be_dropped_on_a_thread_that_has_no_device(make_runtime: Any) -> None:
    runtime = make_runtime(allocator="direct")
    held = [runtime.alloc(1000)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert _allocated(runtime) == 0
    runtime.allocator(0).release_cached()
    assert runtime.allocator(0).statistics().all.reserved_bytes.current == 0


# --- streams


def test_memory_is_reusable_at_once_on_its_own_stream(runtime: Runtime) -> None:
    with stream(Stream(runtime=runtime)):
        buffer = runtime.alloc(LARGE)
        memset(buffer, 1, runtime=runtime)
        address = buffer.address
        del buffer
        assert runtime.alloc(LARGE).address == address


def test_memory_is_not_reused_while_a_recorded_stream_may_use_it(runtime: Runtime) -> None:
    other = Stream(runtime=runtime)
    source, target = runtime.alloc(LARGE), runtime.alloc(LARGE, stream=other)
    memset(source, 1, runtime=runtime)
    other.wait_stream(0)
    memcpy(target, source, stream=other, runtime=runtime)
    source.record_stream(other)
    del source
    reused = runtime.alloc(LARGE)
    memset(reused, 2, runtime=runtime)
    result = np.empty(LARGE, np.uint8)
    memcpy(result, target, stream=other, runtime=runtime)
    assert (result == 1).all()


@pytest.mark.needs_sim
@one_schedule
def test_forgetting_to_record_a_stream_is_found_by_some_schedule() -> None:
    wrong = 0
    for seed in range(20):
        with Runtime(driver=f"sim:schedule=random,seed={seed}") as runtime:
            other = Stream(runtime=runtime)
            source, target = runtime.alloc(4096), runtime.alloc(4096, stream=other)
            memset(source, 1, runtime=runtime)
            other.wait_stream(0)
            memcpy(target, source, stream=other, runtime=runtime)
            del source
            memset(runtime.alloc(4096), 2, runtime=runtime)
            result = np.empty(4096, np.uint8)
            memcpy(result, target, stream=other, runtime=runtime)
            wrong += not (result == 1).all()
    assert wrong


# --- memory runs short


@pytest.mark.needs_sim
@one_schedule
def test_out_of_memory_says_what_was_asked_and_loses_nothing(make_runtime: Any) -> None:
    runtime = make_runtime(memory="64MiB")
    held = [runtime.alloc(16 << 20) for _ in range(3)]
    with pytest.raises(OutOfMemoryError, match=r"Tried to allocate 32\.00 MiB"):
        runtime.alloc(32 << 20)
    assert _allocated(runtime) == 48 << 20
    held.pop()
    assert runtime.alloc(16 << 20).nbytes == 16 << 20


@pytest.mark.needs_sim
@one_schedule
def test_memory_cached_for_a_dropped_stream_is_found_when_memory_runs_short(make_runtime: Any) -> None:
    runtime = make_runtime(memory="64MiB")
    queue = Stream(runtime=runtime)
    buffer = runtime.alloc(48 << 20, stream=queue)
    memset(buffer, 1, stream=queue, runtime=runtime)
    del buffer, queue
    assert runtime.alloc(48 << 20).nbytes == 48 << 20
