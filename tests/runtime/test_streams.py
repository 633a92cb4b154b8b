from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuplug.runtime.drivers.base import PER_THREAD_STREAM
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.streams.stream import ExternalStream, Stream, as_stream, current_stream, default_stream, stream

one_schedule = pytest.mark.one_schedule


@one_schedule
def test_the_default_stream_is_current_at_first(cuda: Any) -> None:
    assert cuda.current_stream() == cuda.default_stream()
    assert cuda.current_stream().cuda_stream == 0
    assert cuda.current_stream() is cuda.current_stream()


@one_schedule
def test_the_stream_context_switches_and_comes_back(cuda: Any) -> None:
    first, second = cuda.Stream(), cuda.Stream()
    with cuda.stream(first):
        assert cuda.current_stream() is first
        with cuda.stream(second):
            assert cuda.current_stream() is second
        assert cuda.current_stream() is first
    assert cuda.current_stream() == cuda.default_stream()


@one_schedule
def test_the_stream_context_comes_back_after_an_exception(cuda: Any) -> None:
    with pytest.raises(KeyError), cuda.stream(cuda.Stream()):
        raise KeyError
    assert cuda.current_stream() == cuda.default_stream()


@one_schedule
def test_one_stream_context_can_be_entered_inside_itself(cuda: Any) -> None:
    first, second = cuda.Stream(), cuda.Stream()
    context = cuda.stream(first)
    with context, cuda.stream(second):
        with context:
            assert cuda.current_stream() is first
        assert cuda.current_stream() is second
    assert cuda.current_stream() == cuda.default_stream()


@one_schedule
def test_a_stream_of_another_device_brings_its_device_and_both_come_back(cuda: Any) -> None:
    here, there, other = cuda.Stream(), cuda.Stream(device=1), cuda.Stream("cuda:1")
    cuda.set_stream(other)
    cuda.set_stream(here)
    with cuda.stream(there):
        assert cuda.current_device() == 1
        assert cuda.current_stream() is there
        assert cuda.current_stream(0) is here
    assert cuda.current_device() == 0
    assert cuda.current_stream() is here
    assert cuda.current_stream(1) is other
    cuda.set_stream(cuda.default_stream(1))
    cuda.set_stream(cuda.default_stream(0))


@one_schedule
def test_the_current_stream_is_kept_for_each_device(cuda: Any) -> None:
    there = cuda.Stream(1)
    with cuda.device(1), cuda.stream(there):
        with cuda.device(0):
            assert cuda.current_stream() == cuda.default_stream(0)
        assert cuda.current_stream() is there


@one_schedule
def test_no_stream_means_no_change(cuda: Any) -> None:
    with cuda.stream(cuda.Stream()) as chosen, cuda.stream(None) as nothing:
        assert nothing is None
        cuda.set_stream(None)
        assert cuda.current_stream() is chosen


@one_schedule
def test_stream_without_an_argument_is_refused_as_in_pytorch(cuda: Any) -> None:
    with pytest.raises(TypeError, match=r"stream\(\) missing 1 required positional argument: 'stream'"):
        cuda.stream()


@one_schedule
def test_each_thread_has_its_own_current_stream(cuda: Any) -> None:
    seen = []
    mine = cuda.Stream()

    def work() -> None:
        seen.append(cuda.current_stream())
        with cuda.stream(cuda.Stream()) as theirs:
            seen.append(theirs)
            seen.append(cuda.current_stream())

    with cuda.stream(mine):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert cuda.current_stream() is mine
    assert seen[0] == cuda.default_stream()
    assert seen[1] is seen[2] is not mine


@one_schedule
def test_streams_are_equal_when_they_are_one_stream_of_one_device(cuda: Any) -> None:
    first = cuda.Stream()
    again = cuda.ExternalStream(first.cuda_stream)
    assert first == again
    assert hash(first) == hash(again)
    assert first != cuda.Stream()
    assert cuda.default_stream(0) != cuda.default_stream(1)
    assert first != first.cuda_stream


@one_schedule
@pytest.mark.parametrize(
    "wrap",
    [
        lambda handle: SimpleNamespace(cuda_stream=handle, device_index=1),
        lambda handle: SimpleNamespace(ptr=handle, device_id=1),
        lambda handle: SimpleNamespace(handle=handle, device=SimpleNamespace(index=1)),
        lambda handle: SimpleNamespace(handle=SimpleNamespace(value=handle), device=1),
        lambda handle: SimpleNamespace(__cuda_stream__=lambda: (0, handle), device_index=1),
    ],
)
def test_streams_of_other_libraries_are_understood(cuda: Any, wrap: Any) -> None:
    own = cuda.Stream(1)
    foreign = wrap(own.cuda_stream)
    assert as_stream(foreign) == own
    with cuda.stream(foreign):
        assert cuda.current_stream() == own
    buffer = cuda.alloc(100, stream=foreign)
    assert (buffer.device, buffer.stream) == (1, own.cuda_stream)


@one_schedule
def test_a_stream_shows_its_handle_by_everybodys_name(cuda: Any) -> None:
    own = cuda.Stream()
    assert own.__cuda_stream__() == (0, own.cuda_stream) == (0, own.handle)
    assert (str(own.device), own.device_index) == ("cuda:0", 0)


@one_schedule
@pytest.mark.parametrize("wrong", ["stream", 1.5, object(), True])
def test_what_is_no_stream_is_refused(cuda: Any, wrong: Any) -> None:
    with pytest.raises(TypeError, match="is not a stream"):
        cuda.alloc(100, stream=wrong)


@one_schedule
def test_both_names_of_the_legacy_stream_are_one_stream(cuda: Any) -> None:
    assert cuda.ExternalStream(1) == cuda.default_stream()


@one_schedule
def test_priorities_outside_the_drivers_range_become_the_nearest(runtime: Runtime) -> None:
    with runtime.on_device(0):
        least, greatest = runtime.driver.stream_priority_range()
    assert Stream(priority=-100, runtime=runtime).priority == greatest
    assert Stream(priority=100, runtime=runtime).priority == least


def test_query_and_synchronize_tell_when_work_is_done(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    buffer = runtime.alloc(1 << 20, stream=queue)
    memset(buffer, 1, stream=queue, runtime=runtime)
    queue.synchronize()
    assert queue.query()


def _copy_on_another_stream(runtime: Runtime, *, wait: bool) -> np.ndarray[Any, Any]:
    """What a second stream reads of what the default stream writes."""
    second = Stream(runtime=runtime)
    written, read = runtime.alloc(4096), runtime.alloc(4096)
    memset(written, 7, runtime=runtime)
    with stream(second):
        if wait:
            second.wait_stream(default_stream(runtime=runtime))
        memcpy(read, written, runtime=runtime)
    second.synchronize()
    result = np.empty(4096, np.uint8)
    memcpy(result, read, stream=second, runtime=runtime)
    return result


@pytest.mark.needs_sim
@one_schedule
def test_a_stream_that_does_not_wait_is_found_wrong_by_some_schedule_and_right_once_it_waits() -> None:
    wrong = 0
    for seed in range(20):
        with Runtime(driver=f"sim:schedule=random,seed={seed}") as runtime:
            wrong += not (_copy_on_another_stream(runtime, wait=False) == 7).all()
        with Runtime(driver=f"sim:schedule=random,seed={seed}") as runtime:
            assert (_copy_on_another_stream(runtime, wait=True) == 7).all()
    assert wrong


def test_a_stream_that_waits_reads_what_was_written(runtime: Runtime) -> None:
    assert (_copy_on_another_stream(runtime, wait=True) == 7).all()


def test_a_stream_may_wait_for_a_stream_of_another_device(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    here, there = Stream(0, runtime=runtime), Stream(1, runtime=runtime)
    source, target = runtime.alloc(4096, stream=here), runtime.alloc(4096, stream=there)
    memset(source, 9, stream=here, runtime=runtime)
    there.wait_stream(here)
    memcpy(target, source, stream=there, runtime=runtime)
    result = np.zeros(4096, np.uint8)
    memcpy(result, target, stream=there, runtime=runtime)
    there.synchronize()
    assert (result == 9).all()


# --- streams that go (PITFALLS: handles are reused after destruction; destroyed streams strand their cached blocks)


class _Spy:
    """Notes in which order the allocator hears of a stream's end and the driver destroys it."""

    def __init__(self, runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, int]] = []
        allocator, driver = runtime.allocator(0), runtime.driver
        forget, destroy = allocator.forget_stream, driver.stream_destroy

        def forget_stream(handle: int) -> None:
            self.calls.append(("forget", handle))
            forget(handle)

        def stream_destroy(handle: int) -> None:
            self.calls.append(("destroy", handle))
            destroy(handle)

        monkeypatch.setattr(allocator, "forget_stream", forget_stream)
        monkeypatch.setattr(driver, "stream_destroy", stream_destroy)


def test_the_allocator_forgets_a_stream_before_the_driver_destroys_it(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = _Spy(runtime, monkeypatch)
    queue = Stream(runtime=runtime)
    handle = queue.cuda_stream
    runtime.alloc(1000, stream=queue).close()
    del queue
    assert spy.calls == []  # a finaliser calls nobody
    kept = Stream(runtime=runtime)
    assert spy.calls == [("forget", handle)]
    runtime.close()
    assert ("destroy", handle) in spy.calls
    assert spy.calls.index(("forget", handle)) < spy.calls.index(("destroy", handle))
    del kept


@one_schedule
def test_a_dropped_streams_handle_serves_the_next_stream(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    handle = queue.cuda_stream
    del queue
    assert Stream(runtime=runtime).cuda_stream == handle


@one_schedule
def test_a_stream_that_is_current_is_not_dropped(runtime: Runtime) -> None:
    handle = Stream(runtime=runtime).cuda_stream
    with stream(ExternalStream(handle, runtime=runtime)):
        pass
    with stream(Stream(runtime=runtime)):
        gc.collect()
        other = Stream(runtime=runtime)
        assert other != current_stream(runtime=runtime)


@pytest.mark.needs_sim
@one_schedule
@pytest.mark.parametrize("seed", range(5))
def test_memory_of_a_dropped_stream_is_not_reused_before_its_work_is_done(seed: int) -> None:
    with Runtime(driver=f"sim:schedule=random,seed={seed}") as runtime:
        for _ in range(5):
            queue = Stream(runtime=runtime)
            buffer = runtime.alloc(1 << 20, stream=queue)
            memset(buffer, 1, stream=queue, runtime=runtime)
            del buffer, queue
            reused = runtime.alloc(1 << 20, stream=Stream(runtime=runtime))
            with runtime.on_device(0):
                pending = runtime.driver.pending_access(reused.address, 1 << 20, before_stream=reused.stream)
            assert not pending


@one_schedule
def test_work_of_a_dropped_stream_still_runs(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    buffer = runtime.alloc(4096, stream=queue)
    memset(buffer, 3, stream=queue, runtime=runtime)
    event = queue.record_event()
    del queue
    event.synchronize()
    result = np.empty(4096, np.uint8)
    memcpy(result, buffer, runtime=runtime)
    assert (result == 3).all()


@one_schedule
def test_a_buffer_may_outlive_its_stream(runtime: Runtime) -> None:
    buffer = runtime.alloc(1000, stream=Stream(runtime=runtime))
    other = runtime.alloc(1000)
    queue = Stream(runtime=runtime)
    other.record_stream(queue)
    del queue
    Stream(runtime=runtime)
    buffer.close()
    other.close()
    assert runtime.allocator(0).release_cached() > 0


# --- the per-thread default stream: one handle, a stream of its own in each thread


@pytest.mark.needs_sim
@one_schedule
def test_the_per_thread_streams_of_two_threads_do_not_share_their_cache() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        addresses, pending = [], []

        def work() -> None:
            buffer = runtime.alloc(1 << 20, stream=PER_THREAD_STREAM)
            addresses.append(buffer.address)
            assert buffer.stream == PER_THREAD_STREAM
            with runtime.on_device(0):
                pending.append(runtime.driver.pending_access(buffer.address, 1 << 20, before_stream=PER_THREAD_STREAM))
            memset(buffer, 1, stream=PER_THREAD_STREAM, runtime=runtime)

        work()
        work()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert addresses[0] == addresses[1]
        assert pending == [(), (), ()]


@pytest.mark.needs_sim
@one_schedule
def test_memory_of_a_threads_own_stream_can_be_given_back_by_another_thread(runtime: Runtime) -> None:
    def work() -> None:
        buffer = runtime.alloc(1 << 20, stream=PER_THREAD_STREAM)
        memset(buffer, 1, stream=PER_THREAD_STREAM, runtime=runtime)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert runtime.allocator(0).release_cached() > 0


@pytest.mark.needs_sim
def test_a_stream_with_queued_work_is_not_handed_out_again() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        buffer = runtime.alloc(64)
        first = Stream(runtime=runtime)
        handle = first.cuda_stream
        for value in range(9):  # asking whether it is done runs one operation
            memset(buffer, value, stream=first, runtime=runtime)
        del first
        second = Stream(runtime=runtime)
        assert second.cuda_stream != handle
        runtime.device(0).synchronize()
        third = Stream(runtime=runtime)
        assert third.cuda_stream == handle
