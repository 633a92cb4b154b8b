"""The replay engine, on histories written by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.events import EventKind
from cuplug.allocators.upstream import Upstream
from cuplug.allocators.upstreams import TimedUpstream
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, NO_DEVICE, Header, Trace
from cuplug.tools.replaying.program import Program, decode
from cuplug.tools.replaying.replayer import replay

MIB = 1 << 20
ALLOCATE, FREE, RECORD, PASSED = (
    EventKind.ALLOCATE,
    EventKind.FREE,
    EventKind.RECORD_STREAM,
    EventKind.FENCE_PASSED,
)


def trace(*entries: tuple[EventKind, int, int], source: str = "cuplug", device: int = 0) -> Trace:
    """A trace of (kind, address, requested bytes) on stream 5."""
    events = np.zeros(len(entries), EVENT_DTYPE)
    for event, (kind, address, requested) in zip(events, entries, strict=True):
        event["kind"], event["address"], event["requested"] = kind, address, requested
        event["stream"], event["device"] = 5, NO_DEVICE if kind is EventKind.MARKER else device
    return Trace(Header(fields={"source": source}), events, path="by hand")


def steps(*entries: tuple[EventKind, int, int], source: str = "cuplug") -> list[int]:
    (program,) = decode(trace(*entries, source=source))
    return list(program.steps)


def test_a_block_without_recorded_streams_is_available_when_it_is_freed() -> None:
    assert steps((ALLOCATE, 512, 100), (FREE, 512, 100), (ALLOCATE, 512, 7)) == [1, -1, 2]


def test_a_block_with_recorded_streams_is_available_when_its_fence_has_passed() -> None:
    history = [(ALLOCATE, 512, 100), (RECORD, 512, 100), (FREE, 512, 100), (ALLOCATE, 1024, 7), (PASSED, 512, 100)]
    assert steps(*history) == [1, 2, -1]
    assert steps(*history[:-1]) == [1, 2]  # its free was asked for, and never completed


def test_pytorchs_blocks_are_all_available_when_their_free_has_completed() -> None:
    history = [(ALLOCATE, 512, 100), (FREE, 512, 100), (ALLOCATE, 1024, 7), (PASSED, 512, 100), (FREE, 1024, 7)]
    assert steps(*history, source="pytorch") == [1, 2, -1]


def test_what_was_asked_for_in_vain_at_the_end_is_asked_for_again() -> None:
    out_of_memory = EventKind.OUT_OF_MEMORY
    assert steps((ALLOCATE, 512, 100), (out_of_memory, 0, 7), (ALLOCATE, 1024, 7), (FREE, 512, 100)) == [1, 2, -1]
    assert steps((ALLOCATE, 512, 100), (out_of_memory, 0, 7), (FREE, 512, 100)) == [1, 2, -2, -1]
    programs = decode(trace((ALLOCATE, 512, 3 * MIB), (out_of_memory, 0, 6 * MIB)))
    assert replay(programs, DirectAllocator, allocator="direct", memory=8 * MIB).out_of_memory_events == 1
    assert replay(programs, DirectAllocator, allocator="direct", memory=16 * MIB).out_of_memory_events == 0


def test_what_began_before_the_recording_is_passed_over_and_counted() -> None:
    (program,) = decode(trace((FREE, 512, 100), (ALLOCATE, 512, 100), (ALLOCATE, 512, 50), (FREE, 4096, 1)))
    assert (program.steps.tolist(), program.unmatched) == ([1, -1, 2], 3)


def test_sizes_streams_and_places_go_with_the_steps() -> None:
    (program,) = decode(
        trace((EventKind.SEGMENT_RESERVE, 512, 9), (EventKind.MARKER, 0, 1), (ALLOCATE, 512, 100), (FREE, 512, 100))
    )
    columns = [column.tolist() for column in (program.sizes, program.streams, program.events)]
    assert (columns, program.total_events) == ([[100], [5], [2, 3]], 3)


def test_every_device_has_a_program_of_its_own_and_figures_are_sums() -> None:
    first, second = trace((ALLOCATE, 512, 1000)), trace((ALLOCATE, 512, 3000), device=1)
    both = Trace(first.header, np.concatenate([first.events, second.events]), path="two")
    programs = decode(both)
    assert [program.device for program in programs] == [0, 1]
    result = replay(programs, DirectAllocator, allocator="direct")
    assert (result.peak_requested_bytes, result.peak_reserved_bytes, result.events) == (4000, 1024 + 3072, 2)
    assert result.driver_calls == {"cuMemAlloc": 2}


def test_a_trace_without_device_events_cannot_be_replayed() -> None:
    with pytest.raises(ValueError, match="nothing to replay"):
        replay(decode(trace((EventKind.MARKER, 0, 1))), DirectAllocator, allocator="direct")


def test_the_result_has_the_promised_keys() -> None:
    result = replay(decode(trace((ALLOCATE, 512, 1000))), DirectAllocator, allocator="direct").as_dict()
    assert list(result) == [
        "trace", "allocator", "events", "peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes",
        "reserved_over_requested", "driver_calls", "driver_time_us", "driver_time_share",
        "out_of_memory_events", "seconds",
        "events_per_second",
    ]  # fmt: skip
    assert (result["trace"], result["allocator"], result["reserved_over_requested"]) == ("by hand", "direct", 1.024)


def test_an_allocation_that_fails_is_named_and_the_replay_goes_on() -> None:
    history = [(ALLOCATE, 512, 2 * MIB), (ALLOCATE, 1 << 30, 9 * MIB), (FREE, 1 << 30, 9 * MIB), (ALLOCATE, 4096, MIB)]
    result = replay(decode(trace(*history)), DirectAllocator, allocator="direct", memory=8 * MIB)
    assert result.out_of_memory_events == 1
    assert result.failure.startswith("event 1, allocating 9437184 bytes of stream 0x5 on device 0: OutOfMemoryError")
    assert result.peak_requested_bytes == 3 * MIB


class RaisesOnFree(CachingAllocator):
    def free(self, block: Block) -> None:
        raise RuntimeError("a plugin's fault")


class Loses(DirectAllocator):
    def _release_all(self) -> None:
        """A planted fault: forget what is held."""

    def _poll(self) -> None: ...


_RAISED = (
    "event 1, freeing 100 bytes of stream 0x5 on device 0: RuntimeError: a plugin's fault. That is after 50.0 % of the "
    "history; until then its program holds 100 bytes at most, at its peak 100 bytes."
)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (RaisesOnFree, _RAISED),
        (Loses, "the allocator lost 512 bytes: close() did not give them back"),
    ],
)
def test_a_faulty_allocator_is_a_failure_of_the_replay(factory: Callable[[Upstream], Allocator], expected: str) -> None:
    result = replay(decode(trace((ALLOCATE, 512, 100), (FREE, 512, 100))), factory, allocator="faulty")
    assert result.failure == expected


def test_progress_adds_up_to_the_steps() -> None:
    entries = [entry for index in range(10_000) for entry in ((ALLOCATE, 512, index + 1), (FREE, 512, index + 1))]
    done: list[int] = []
    programs = decode(trace(*entries))
    result = replay(programs, CachingAllocator, allocator="caching", progress=done.append)
    assert sum(done) == len(programs[0].steps) == 20_000
    assert len(done) > 1
    assert result.events == 20_000


def test_a_real_upstream_is_counted_and_timed() -> None:
    upstreams: list[NullUpstream] = []

    def make_upstream(device: int) -> Upstream:
        upstreams.append(NullUpstream())
        return TimedUpstream(upstreams[0])

    used: list[tuple[int, int]] = []

    def stream(device: int, recorded: int) -> int:
        used.append((device, recorded))
        return 77

    result = replay(
        decode(trace((ALLOCATE, 512, 100), (FREE, 512, 100))),
        DirectAllocator,
        allocator="direct",
        make_upstream=make_upstream,
        stream=stream,
    )
    assert result.driver_calls == {"cuMemAlloc": 1, "cuMemFree": 1} == upstreams[0].calls
    assert result.driver_time_us > 0
    assert used == [(0, 5)]


def test_timed_virtual_memory_passes_everything_on() -> None:
    null = NullUpstream()
    timed = TimedUpstream(null)
    virtual = timed.virtual
    assert virtual is not None
    at, page = virtual.reserve_range(2 * MIB), virtual.create_page(2 * MIB)
    virtual.map(at, 2 * MIB, page)
    virtual.set_access(at, 2 * MIB)
    virtual.unmap(at, 2 * MIB)
    virtual.release_page(page)
    virtual.free_range(at, 2 * MIB)
    assert timed.calls == null.calls
    assert timed.memory_info() == null.memory_info()
    assert timed.fence(0).done()


def test_a_program_can_be_replayed_on_many_allocators(history: Callable[[str], list[Program]]) -> None:
    programs = history("stream_prefetch")
    first = replay(programs, DirectAllocator, allocator="direct")
    again = replay(programs, DirectAllocator, allocator="direct")
    assert first.peak_reserved_bytes == again.peak_reserved_bytes
    assert first.driver_calls == again.driver_calls == {"cuMemAlloc": 10_969, "cuMemFree": 10_964}
