from __future__ import annotations

import array
import mmap
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuplug import CuplugError, DeviceMismatchError, DriverError, Runtime
from cuplug.runtime.machine.device import device, enable_peer_access, synchronize
from cuplug.runtime.memory.copies import copy_pieces, memcpy, memset
from cuplug.runtime.memory.pinned import alloc_pinned
from cuplug.runtime.streams.stream import Stream, current_stream, stream
from hypothesis import given
from hypothesis import strategies as st

one_schedule = pytest.mark.one_schedule
PATTERN = np.arange(4096, dtype=np.uint32)
NBYTES = PATTERN.nbytes


def _read(runtime: Runtime, buffer: Any, queue: Any = None) -> np.ndarray[Any, Any]:
    result = np.zeros(NBYTES, np.uint8)
    memcpy(result, buffer, stream=queue, runtime=runtime)
    return result.view(np.uint32)


def _foreign(buffer: Any, **more: Any) -> Any:
    """Device memory as another library shows it."""
    interface = {"shape": (64, 64), "typestr": "<u4", "data": (buffer.address, False), "version": 3, **more}
    return SimpleNamespace(__cuda_array_interface__=interface, device=buffer.device)


def test_a_copy_to_a_device_and_back_is_the_same(runtime: Runtime) -> None:
    buffer = runtime.alloc(NBYTES)
    memcpy(buffer, PATTERN, runtime=runtime)
    assert (_read(runtime, buffer) == PATTERN).all()


@pytest.mark.parametrize(
    "wrap",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: array.array("I", data.tolist()),
        lambda data: data.reshape(64, 64),
        lambda data: np.asfortranarray(data.reshape(64, 64).T),
        lambda data: np.concatenate([data, data])[4096:],
    ],
)
@one_schedule
def test_anything_with_the_buffer_protocol_can_be_copied_from(runtime: Runtime, wrap: Any) -> None:
    buffer = runtime.alloc(NBYTES)
    memcpy(buffer, wrap(PATTERN), runtime=runtime)
    assert (_read(runtime, buffer) == PATTERN).all()


@one_schedule
def test_anything_writable_with_the_buffer_protocol_can_be_copied_to(runtime: Runtime) -> None:
    buffer = runtime.alloc(NBYTES)
    memcpy(buffer, PATTERN, runtime=runtime)
    for target in (bytearray(NBYTES), mmap.mmap(-1, NBYTES), array.array("I", [0] * 4096), np.zeros((64, 64), "u4")):
        memcpy(target, buffer, runtime=runtime)
        current_stream(runtime=runtime).synchronize()
        assert bytes(target) == PATTERN.tobytes()


def test_a_copy_within_a_device_runs_in_the_order_of_its_stream(runtime: Runtime) -> None:
    first, second = runtime.alloc(NBYTES), runtime.alloc(NBYTES)
    memcpy(first, PATTERN, runtime=runtime)
    memcpy(second, first, runtime=runtime)
    memset(first, 0, runtime=runtime)
    assert (_read(runtime, second) == PATTERN).all()


def test_a_copy_between_devices_needs_no_peer_access_and_no_waiting_by_the_caller(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    here = runtime.alloc(NBYTES)
    with device(1, runtime=runtime):
        queue = Stream(runtime=runtime)
        with stream(queue):
            there = runtime.alloc(NBYTES)
            memset(there, 1, runtime=runtime)
    memcpy(here, PATTERN, runtime=runtime)
    with stream(queue):
        memcpy(there, here, runtime=runtime)
        assert (_read(runtime, there) == PATTERN).all()
    memset(here, 0, runtime=runtime)
    memcpy(here, there, runtime=runtime)
    assert (_read(runtime, here) == PATTERN).all()


def test_a_copy_between_devices_may_be_queued_on_a_stream_of_either(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    for ordinal in (0, 1):
        queue = Stream(ordinal, runtime=runtime)
        source, target = runtime.alloc(NBYTES, stream=Stream(0, runtime=runtime)), None
        with device(1, runtime=runtime):
            target = runtime.alloc(NBYTES)
        memcpy(source, PATTERN, runtime=runtime)
        queue.wait_stream(current_stream(0, runtime=runtime))
        memcpy(target, source, stream=queue, runtime=runtime)
        queue.synchronize()
        assert (_read(runtime, target) == PATTERN).all()


def test_a_copy_uses_the_current_stream_of_its_memorys_device(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    queue = Stream(1, runtime=runtime)
    with stream(queue):
        buffer = runtime.alloc(NBYTES)
        with device(0, runtime=runtime):
            memcpy(buffer, PATTERN, runtime=runtime)
        result = _read(runtime, buffer)
    assert (result == PATTERN).all()


@one_schedule
def test_a_stream_of_a_device_without_access_is_refused(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    buffer, queue = runtime.alloc(NBYTES), Stream(1, runtime=runtime)
    with pytest.raises(DeviceMismatchError, match=r"is device 0's and the stream is device 1's"):
        memcpy(buffer, PATTERN, stream=queue, runtime=runtime)
    with pytest.raises(DeviceMismatchError, match=r"enable_peer_access\(1, 0\)"):
        memset(buffer, 0, stream=queue, runtime=runtime)


@one_schedule
def test_a_stream_of_a_peer_with_access_is_allowed(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    if not runtime.driver.can_access_peer(1, 0):
        pytest.skip("these devices cannot be peers")
    buffer, other, queue = runtime.alloc(NBYTES), runtime.alloc(NBYTES), Stream(1, runtime=runtime)
    memcpy(buffer, PATTERN, runtime=runtime)
    queue.wait_stream(0)
    enable_peer_access(1, 0, runtime=runtime)
    memcpy(other, buffer, stream=queue, runtime=runtime)
    queue.synchronize()
    assert (_read(runtime, other) == PATTERN).all()


# --- host memory


@pytest.mark.needs_sim
def test_pageable_memory_may_be_dropped_or_changed_at_once(runtime: Runtime) -> None:
    buffer, source = runtime.alloc(NBYTES), PATTERN.copy()
    memcpy(buffer, source, runtime=runtime)
    source[:] = 0
    del source
    assert (_read(runtime, buffer) == PATTERN).all()


def test_pinned_memory_is_not_used_again_before_the_copies_that_use_it_are_done(runtime: Runtime) -> None:
    buffers = []
    for value in range(20):
        pinned = alloc_pinned(NBYTES, runtime=runtime)
        pinned.array[:] = value
        buffers.append(runtime.alloc(NBYTES))
        memcpy(buffers[-1], pinned, runtime=runtime)
        del pinned
    for value, buffer in enumerate(buffers):
        assert (_read(runtime, buffer).view(np.uint8) == value).all()


def test_a_view_of_pinned_memory_counts_as_pinned_memory(runtime: Runtime) -> None:
    buffers = []
    for value in range(20):
        with alloc_pinned(2 * NBYTES, runtime=runtime) as pinned:
            view = pinned.array[NBYTES:].view(np.uint32).reshape(64, 64)
            view[:] = value
            buffers.append(runtime.alloc(NBYTES))
            memcpy(buffers[-1], memoryview(view), runtime=runtime)
            del view
    for value, buffer in enumerate(buffers):
        assert (_read(runtime, buffer) == value).all()


def test_a_copy_into_pinned_memory_has_happened_once_the_stream_was_synchronised(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    buffer, pinned = runtime.alloc(NBYTES, stream=queue), alloc_pinned(NBYTES, runtime=runtime)
    memcpy(buffer, PATTERN, stream=queue, runtime=runtime)
    memcpy(pinned, buffer, stream=queue, runtime=runtime)
    queue.synchronize()
    assert (pinned.array.view(np.uint32) == PATTERN).all()


class _PageLocked:
    """Page-locked memory that another library made."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        with runtime.on_device(0):
            self.address = runtime.driver.host_alloc(NBYTES)
        self.__array_interface__ = {
            "version": 3,
            "shape": (4096,),
            "typestr": "<u4",
            "data": (self.address, False),
        }

    def __del__(self) -> None:
        with self.runtime.on_device(0):
            self.runtime.driver.host_free(self.address)


@pytest.mark.needs_sim
@one_schedule
def test_memory_that_others_locked_is_kept_until_the_copy_is_done() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        buffer = runtime.alloc(NBYTES)
        locked = np.asarray(_PageLocked(runtime))
        locked[:] = PATTERN
        memcpy(buffer, locked, runtime=runtime)
        before = runtime.driver.live.host_allocations
        del locked
        assert runtime.driver.live.host_allocations == before == 1
        assert (_read(runtime, buffer) == PATTERN).all()
        memcpy(buffer, np.asarray(_PageLocked(runtime)), runtime=runtime)
        assert runtime.driver.live.host_allocations <= 1  # the first has gone: its copy was done
        current_stream(runtime=runtime).synchronize()


@pytest.mark.needs_sim
@one_schedule
def test_waiting_for_a_stream_lets_go_of_what_its_copies_have_borrowed_and_of_nothing_else() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        ends: list[Callable[[], None]] = [
            lambda: first.synchronize(),
            lambda: synchronize(runtime=runtime),
        ]
        for end in ends:
            first, second = Stream(runtime=runtime), Stream(runtime=runtime)
            buffers = [runtime.alloc(NBYTES, stream=queue) for queue in (first, second)]
            memcpy(buffers[0], np.asarray(_PageLocked(runtime)), stream=first, runtime=runtime)
            memcpy(buffers[1], np.asarray(_PageLocked(runtime)), stream=second, runtime=runtime)
            second.synchronize()
            assert runtime.driver.live.host_allocations == 1
            end()
            assert runtime.driver.live.host_allocations == 0


@pytest.mark.needs_sim
@one_schedule
def test_a_refused_copy_borrows_nothing() -> None:
    with Runtime(driver="sim") as runtime:
        buffer = runtime.alloc(NBYTES)
        runtime.driver.fail_next("memcpy_htod", 1)
        with pytest.raises(DriverError, match="INVALID_VALUE"):
            memcpy(buffer, np.asarray(_PageLocked(runtime)), runtime=runtime)
        assert runtime.driver.live.host_allocations == 0


@pytest.mark.needs_sim
@one_schedule
def test_many_threads_copy_from_memory_that_others_locked() -> None:
    """Each thread on a stream of its own and, in every other step, on the one that all share."""
    with Runtime(driver="sim:schedule=random,seed=3") as runtime:
        errors: list[BaseException] = []
        begin = threading.Barrier(8)

        def work() -> None:
            try:
                own = Stream(runtime=runtime)
                buffer, shared = runtime.alloc(NBYTES, stream=own), runtime.alloc(NBYTES)
                begin.wait()
                for _ in range(100):
                    memcpy(buffer, np.asarray(_PageLocked(runtime)), stream=own, runtime=runtime)
                    memcpy(shared, np.asarray(_PageLocked(runtime)), runtime=runtime)
                own.synchronize()
            except BaseException as error:
                errors.append(error)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
        synchronize(runtime=runtime)
        assert not errors
        assert runtime.driver.live.host_allocations == 0


# --- other libraries' device memory


def test_device_memory_of_other_libraries_can_be_copied(runtime: Runtime) -> None:
    buffer, other = runtime.alloc(NBYTES), runtime.alloc(NBYTES)
    memcpy(_foreign(buffer), PATTERN, runtime=runtime)
    memcpy(_foreign(other, strides=(256, 4)), _foreign(buffer, strides=None), runtime=runtime)
    assert (_read(runtime, _foreign(other)) == PATTERN).all()


def test_the_stream_on_which_others_make_their_contents_is_waited_for(runtime: Runtime) -> None:
    theirs, ours = Stream(runtime=runtime), Stream(runtime=runtime)
    buffer = runtime.alloc(NBYTES, stream=theirs)
    memset(buffer, 1, stream=theirs, runtime=runtime)
    result = np.zeros(NBYTES, np.uint8)
    memcpy(result, _foreign(buffer, stream=theirs.cuda_stream), stream=ours, runtime=runtime)
    assert (result == 1).all()


@one_schedule
def test_strided_memory_is_refused(runtime: Runtime) -> None:
    buffer = runtime.alloc(NBYTES)
    with pytest.raises(ValueError, match="contiguous"):
        memcpy(buffer, np.zeros((64, 128), np.uint32)[:, ::2], runtime=runtime)
    with pytest.raises(ValueError, match="contiguous"):
        memcpy(_foreign(buffer, strides=(512, 4)), PATTERN, runtime=runtime)


# --- wrong calls


@one_schedule
def test_sizes_that_differ_are_refused(runtime: Runtime) -> None:
    buffer = runtime.alloc(100)
    with pytest.raises(ValueError, match="cannot copy 90 bytes to memory of 100 bytes"):
        memcpy(buffer, bytes(90), runtime=runtime)
    with pytest.raises(ValueError, match="cannot copy 95 bytes from memory of 90 to memory of 100 bytes"):
        memcpy(buffer, bytes(90), 95, runtime=runtime)
    with pytest.raises(ValueError, match="cannot copy -1 bytes"):
        memcpy(buffer, bytes(90), -1, runtime=runtime)
    memcpy(buffer, bytes(90), 90, runtime=runtime)


@one_schedule
def test_read_only_and_host_only_copies_are_refused(runtime: Runtime) -> None:
    buffer = runtime.alloc(8)
    with pytest.raises(ValueError, match="read-only"):
        memcpy(bytes(8), buffer, runtime=runtime)
    with pytest.raises(ValueError, match=r"numpy\.copyto"):
        memcpy(bytearray(8), bytes(8), runtime=runtime)
    with pytest.raises(TypeError, match="a copy cannot take int"):
        memcpy(buffer, 5, runtime=runtime)


@one_schedule
def test_a_closed_buffer_cannot_be_copied(runtime: Runtime) -> None:
    buffer = runtime.alloc(8)
    buffer.close()
    with pytest.raises(CuplugError, match="was closed"):
        memcpy(buffer, bytes(8), runtime=runtime)


@one_schedule
def test_copies_and_fills_of_nothing_do_nothing(runtime: Runtime) -> None:
    empty = runtime.alloc(0)
    memcpy(empty, b"", runtime=runtime)
    memcpy(np.empty(0), empty, runtime=runtime)
    memcpy(empty, runtime.alloc(0), runtime=runtime)
    memcpy(empty, alloc_pinned(0, runtime=runtime), runtime=runtime)
    memset(empty, 1, runtime=runtime)


@pytest.mark.parametrize(("width", "value"), [(1, 0xAB), (2, 0xABCD), (4, 0xDEADBEEF)])
def test_filling_writes_elements_of_one_two_or_four_bytes(runtime: Runtime, width: int, value: int) -> None:
    buffer = runtime.alloc(NBYTES)
    memset(buffer, value, width=width, runtime=runtime)
    memset(buffer, 0, 100, runtime=runtime)
    result = _read(runtime, buffer).view(f"u{width}")
    assert (result[100 // width :] == value).all()
    assert (result[: 100 // width] == 0).all()


@one_schedule
def test_wrong_fills_are_refused(runtime: Runtime) -> None:
    buffer = runtime.alloc(10)
    for arguments, message in (
        ({"value": 256}, "holds 0 to 255"),
        ({"value": -1}, "holds 0 to 255"),
        ({"value": 0, "width": 3}, "width is 1, 2 or 4"),
        ({"value": 0, "width": 4}, "cannot fill 10 of 10 bytes with elements of 4"),
        ({"value": 0, "nbytes": 11}, "cannot fill 11 of 10 bytes"),
    ):
        with pytest.raises(ValueError, match=message):
            memset(buffer, **arguments, runtime=runtime)
    with pytest.raises(ValueError, match="not writable device memory"):
        memset(bytearray(10), 0, runtime=runtime)


# --- a model: three buffers and a host copy of each


_BUFFERS = st.integers(0, 2)
_OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("upload"), _BUFFERS, st.integers(0, 255), st.booleans()),
        st.tuples(st.just("fill"), _BUFFERS, st.integers(0, 255), st.integers(0, 64)),
        st.tuples(st.just("copy"), _BUFFERS, _BUFFERS, st.integers(0, 64)),
        st.tuples(st.just("renew"), _BUFFERS, st.just(0), st.just(0)),
    ),
    max_size=30,
)


@pytest.mark.needs_sim
@one_schedule
@given(operations=_OPERATIONS, seed=st.integers(0, 1000))
def test_any_sequence_of_copies_does_what_it_does_in_host_memory(operations: Any, seed: int) -> None:
    with Runtime(driver=f"sim:devices=2,schedule=random,seed={seed}") as runtime:
        streams = [Stream(ordinal, runtime=runtime) for ordinal in (0, 0, 1)]
        buffers = [runtime.alloc(64, stream=queue) for queue in streams]
        model = [np.zeros(64, np.uint8) for _ in streams]
        for buffer, queue in zip(buffers, streams, strict=True):
            memset(buffer, 0, stream=queue, runtime=runtime)
        for kind, target, second, third in operations:
            queue = streams[target]
            if kind == "upload":
                source: Any = alloc_pinned(64, runtime=runtime) if third else np.empty(64, np.uint8)
                np.asarray(source)[:] = model[target][:] = second
                memcpy(buffers[target], source, stream=queue, runtime=runtime)
                del source
            elif kind == "fill":
                memset(buffers[target], second, third, stream=queue, runtime=runtime)
                model[target][:third] = second
            elif kind == "copy" and target != second:
                queue.wait_stream(streams[second])
                memcpy(buffers[target], buffers[second], third, stream=queue, runtime=runtime)
                streams[second].wait_stream(queue)
                model[target][:third] = model[second][:third]
            elif kind == "renew":
                old, buffers[target] = buffers[target], runtime.alloc(64, stream=queue)
                memcpy(buffers[target], old, stream=queue, runtime=runtime)
                del old
        for buffer, queue, expected in zip(buffers, streams, model, strict=True):
            result = np.empty(64, np.uint8)
            memcpy(result, buffer, stream=queue, runtime=runtime)
            assert (result == expected).all()


def test_a_fill_waits_for_the_stream_on_which_others_make_the_contents(runtime: Runtime) -> None:
    theirs, ours = Stream(runtime=runtime), Stream(runtime=runtime)
    buffer = runtime.alloc(NBYTES, stream=theirs)
    memcpy(buffer, PATTERN, stream=theirs, runtime=runtime)
    memset(_foreign(buffer, stream=theirs.cuda_stream), 7, stream=ours, runtime=runtime)
    for queue in (ours, theirs, ours):
        assert (_read(runtime, buffer, queue).view(np.uint8) == 7).all()


@pytest.mark.parametrize("how", [memcpy, copy_pieces])
def test_a_copy_to_another_device_stands_between_what_both_do_before_and_after(make_runtime: Any, how: Any) -> None:
    runtime = make_runtime(devices=2)
    queues = [Stream(ordinal, runtime=runtime) for ordinal in range(2)]
    with stream(queues[0]), stream(queues[1]):
        source, target = (runtime.alloc(NBYTES, stream=queue) for queue in queues)
        memcpy(source, PATTERN, stream=queues[0], runtime=runtime)
        memset(target, 9, stream=queues[1], runtime=runtime)
        if how is memcpy:
            memcpy(target, source, runtime=runtime)
        else:
            copy_pieces(runtime, 1, 0, [(target.address, source.address, NBYTES)])
        memset(source, 5, stream=queues[0], runtime=runtime)
        assert (_read(runtime, target, queues[1]) == PATTERN).all()
        for queue in queues:
            queue.synchronize()
        assert (_read(runtime, target, queues[1]) == PATTERN).all()
