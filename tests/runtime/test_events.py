from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuplug import CuplugError, DriverError
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.streams.stream import Event, Stream


def test_an_event_that_marks_nothing_has_been_reached(runtime: Runtime) -> None:
    event = Event(runtime=runtime)
    assert event.query()
    event.synchronize()
    event.wait()
    assert (event.cuda_event, event.device) == (0, None)


def test_an_event_is_reached_when_the_work_before_it_is_done(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    buffer = runtime.alloc(4096, stream=queue)
    memset(buffer, 5, stream=queue, runtime=runtime)
    event = queue.record_event()
    event.synchronize()
    assert event.query()
    assert (str(event.device), event.device_index) == ("cuda:0", 0)
    assert event.cuda_event != 0


def test_a_stream_waits_for_the_recording_that_was_the_latest(runtime: Runtime) -> None:
    first, second = Stream(runtime=runtime), Stream(runtime=runtime)
    source, target = runtime.alloc(4096, stream=first), runtime.alloc(4096, stream=second)
    event = Event(runtime=runtime)
    memset(source, 1, stream=first, runtime=runtime)
    event.record(first)
    memset(source, 2, stream=first, runtime=runtime)
    first.record_event(event)
    second.wait_event(event)
    memcpy(target, source, stream=second, runtime=runtime)
    result = np.empty(4096, np.uint8)
    memcpy(result, target, stream=second, runtime=runtime)
    assert (result == 2).all()


def test_what_waits_for_an_event_keeps_waiting_when_the_event_is_dropped_and_used_again(runtime: Runtime) -> None:
    first, second, third = (Stream(runtime=runtime) for _ in range(3))
    source, target = runtime.alloc(4096, stream=first), runtime.alloc(4096, stream=second)
    memset(source, 1, stream=first, runtime=runtime)
    event = first.record_event()
    handle = event.cuda_event
    second.wait_event(event)
    del event
    again = third.record_event()
    assert again.cuda_event == handle
    memcpy(target, source, stream=second, runtime=runtime)
    result = np.empty(4096, np.uint8)
    memcpy(result, target, stream=second, runtime=runtime)
    assert (result == 1).all()


@pytest.mark.one_schedule
def test_the_time_between_two_events_is_measured_in_milliseconds(runtime: Runtime) -> None:
    start, end = Event(enable_timing=True, runtime=runtime), Event(enable_timing=True, runtime=runtime)
    buffer = runtime.alloc(64 << 20)
    start.record()
    memset(buffer, 1, runtime=runtime)
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 1000
    assert start.elapsed_time(start) == 0


@pytest.mark.one_schedule
def test_time_is_only_measured_between_recorded_events_made_for_it(runtime: Runtime) -> None:
    plain, timed, other = Event(runtime=runtime), Event(True, runtime=runtime), Event(True, runtime=runtime)
    timed.record()
    with pytest.raises(CuplugError, match="enable_timing=True"):
        timed.elapsed_time(plain)
    with pytest.raises(CuplugError, match="recorded before"):
        timed.elapsed_time(other)


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_the_time_to_an_event_that_was_not_reached_is_not_ready() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        start, end = Event(True, runtime=runtime), Event(True, runtime=runtime)
        start.record()
        end.record()
        with pytest.raises(DriverError, match="CUDA_ERROR_NOT_READY"):
            start.elapsed_time(end)


@pytest.mark.one_schedule
def test_an_event_belongs_to_the_device_it_was_first_recorded_on(make_runtime: Any) -> None:
    runtime = make_runtime(devices=2)
    event = Stream(0, runtime=runtime).record_event()
    with pytest.raises(CuplugError, match="belongs to device 0"):
        event.record(Stream(1, runtime=runtime))


@pytest.mark.one_schedule
def test_events_of_other_libraries_are_understood(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    event = queue.record_event()
    for foreign in (SimpleNamespace(cuda_event=event.cuda_event), SimpleNamespace(ptr=event.cuda_event)):
        queue.wait_event(foreign)
    with pytest.raises(TypeError, match="is not an event"):
        queue.wait_event("event")


@pytest.mark.one_schedule
def test_events_between_processes_are_refused(runtime: Runtime) -> None:
    with pytest.raises(ValueError, match="between processes"):
        Event(interprocess=True, runtime=runtime)


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_dropped_events_are_used_again(runtime: Runtime) -> None:
    queue = Stream(runtime=runtime)
    for _ in range(100):
        queue.record_event()
    assert runtime.driver.live.events == 1
