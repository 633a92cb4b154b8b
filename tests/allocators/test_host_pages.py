"""``expandable:host=``: what the device has no room for lies on the host, is right there, and is the first to go.

``CUPLUG_SEEDS=10000`` runs that many random programs, ``CUPLUG_SEEDS=5000:10000`` those from the 5000th on. By default
they are 200, and 2,000 with ``CUPLUG_THOROUGH``.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.address_spaces import AddressSpaces
from cuplug.allocators.errors import CuplugError, DriverError, OutOfMemoryError
from cuplug.allocators.events import EventKind
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.planned import PlannedAllocator
from cuplug.allocators.stamps import Stamps
from cuplug.allocators.tags import ON_HOST, here, memory_tag
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.plugins.conformance.workbench import Bench, Lane, Live
from cuplug.runtime.drivers.sim import SimDriver

pytestmark = pytest.mark.needs_sim

MIB = 1 << 20
PAGE = 2 * MIB
CHUNK = 40
FORMS: dict[str, Any] = {"python": ExpandableAllocator}
if is_available():
    from cuplug.allocators.native.strategies import NativeExpandable

    FORMS["native"] = NativeExpandable

Make = Callable[..., Any]


@pytest.fixture(params=sorted(FORMS))
def make(request: pytest.FixtureRequest) -> Make:
    return FORMS[request.param]


def on_host(allocator: Any) -> int:
    return int(allocator.statistics().all.host_bytes.current)


def segments(allocator: Any) -> dict[bool, int]:
    """Bytes on the device (False) and on the host (True), by the map."""
    found = {False: 0, True: 0}
    for segment in allocator.segments():
        found[segment.host] += segment.nbytes
    return found


# --- the last step before the error


def test_what_the_device_has_no_room_for_lies_on_the_host_and_counts_as_such(make: Make) -> None:
    upstream = NullUpstream(64 * MIB)
    allocator = make(upstream, host=40 * MIB)
    blocks = [allocator.allocate(20 * MIB, stream=0) for _ in range(5)]
    counted = allocator.statistics()
    assert segments(allocator) == {False: 60 * MIB, True: 40 * MIB}
    assert (upstream.used_bytes, upstream.used_host_bytes) == (60 * MIB, 40 * MIB)
    assert (counted.all.host_bytes.current, counted.large.host_bytes.peak) == (40 * MIB, 40 * MIB)
    assert (counted.all.reserved_bytes.current, counted.num_ooms) == (100 * MIB, 0)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(20 * MIB, stream=0)
    for block in blocks:
        allocator.free(block)
    allocator.close()
    assert (upstream.used_bytes, upstream.used_host_bytes) == (0, 0)


def test_without_the_option_nothing_is_ever_asked_of_the_host(make: Make) -> None:
    upstream = NullUpstream(32 * MIB)
    allocator = make(upstream)
    allocator.allocate(20 * MIB, stream=0)
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(20 * MIB, stream=0)
    assert upstream.calls["cuMemCreate (host)"] == 0


def test_the_hook_is_asked_first_and_the_program_is_told_once(make: Make) -> None:
    allocator = make(NullUpstream(32 * MIB), host=128 * MIB)
    happened: list[Any] = []
    allocator.on_out_of_memory = lambda nbytes, stream: bool(happened.append("asked"))
    allocator.on_beyond = lambda nbytes, stream: happened.append((nbytes, stream, on_host(allocator)))
    for _ in range(3):
        allocator.allocate(20 * MIB, stream=7)
    assert happened == ["asked", (20 * MIB, 7, 20 * MIB), "asked"]


def test_a_warning_that_is_an_error_loses_nothing(make: Make) -> None:
    allocator = make(NullUpstream(32 * MIB), host=64 * MIB)

    def refuse(nbytes: int, stream: int) -> None:
        raise RuntimeWarning("as with -W error")

    allocator.on_beyond = refuse
    allocator.allocate(20 * MIB, stream=0)
    with pytest.raises(RuntimeWarning):
        allocator.allocate(20 * MIB, stream=0)
    assert allocator.statistics().all.allocation.current == 1


def test_what_a_program_answers_when_it_is_told_is_not_looked_at(make: Make) -> None:
    """It may be an array, which is neither true nor false."""
    allocator = make(NullUpstream(32 * MIB), host=64 * MIB)
    allocator.on_beyond = lambda nbytes, stream: np.zeros(2)
    blocks = [allocator.allocate(20 * MIB, stream=0) for _ in range(2)]
    assert on_host(allocator) == blocks[1].nbytes


def test_the_limit_is_for_the_device_alone(make: Make) -> None:
    allocator = make(NullUpstream(), host=64 * MIB, memory_limit=20 * MIB)
    for _ in range(4):
        allocator.allocate(20 * MIB, stream=0)
    assert segments(allocator) == {False: 20 * MIB, True: 60 * MIB}
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(20 * MIB, stream=0)


def test_a_host_that_refuses_is_out_of_memory_and_loses_nothing(make: Make) -> None:
    upstream = NullUpstream(32 * MIB, host_bytes=30 * MIB)
    if make is not ExpandableAllocator:
        pytest.skip("the core's own null upstream has a host without end")  # pragma: no cover
    allocator = make(upstream, host=1 << 40)
    allocator.allocate(20 * MIB, stream=0)
    allocator.allocate(20 * MIB, stream=0)
    before = allocator.segments()
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(20 * MIB, stream=0)
    assert [s for s in allocator.segments() if s.host] == [s for s in before if s.host]


def test_a_plan_goes_on_behind_a_request_that_lies_on_the_host() -> None:
    upstream = NullUpstream(64 * MIB)
    allocator = PlannedAllocator(upstream, learn=3, host=256 * MIB)
    for _ in range(6):
        blocks = [allocator.allocate(nbytes * MIB, stream=0) for nbytes in (20, 12, 30, 16)]
        for block in blocks:
            allocator.free(block)
    served = allocator.served()
    assert served.requests == 24
    assert on_host(allocator) > 0


# --- back to the device


def test_a_new_block_takes_the_devices_memory_where_that_is_free_again(make: Make) -> None:
    allocator = make(NullUpstream(64 * MIB), host=64 * MIB)
    blocks = [allocator.allocate(20 * MIB, stream=0) for _ in range(5)]
    for block in blocks:
        allocator.free(block)
    allocator.allocate(60 * MIB, stream=0)
    (used,) = [segment for segment in allocator.segments() if any(b.state != "inactive" for b in segment.blocks)]
    assert not used.host


def test_free_host_pages_serve_the_next_block_there_also_on_other_streams_and_of_other_sizes(make: Make) -> None:
    upstream = NullUpstream(32 * MIB)
    allocator = make(upstream, host=128 * MIB)
    full = allocator.allocate(32 * MIB, stream=0)
    for _ in range(4):
        block = allocator.allocate(24 * MIB, stream=0)
        allocator.free(block)
        others = [allocator.allocate(12 * MIB, stream=1) for _ in range(2)]
        for block in others:
            allocator.free(block)
    assert on_host(allocator) <= 32 * MIB
    assert full.live


def test_beyond_a_quarter_free_host_pages_go_once_more_is_mapped_and_empty_cache_takes_all(make: Make) -> None:
    allocator = make(NullUpstream(64 * MIB), host=64 * MIB)
    kept = allocator.allocate(40 * MIB, stream=0)
    blocks = [allocator.allocate(30 * MIB, stream=0) for _ in range(2)]
    assert on_host(allocator) == 60 * MIB
    for block in blocks:
        allocator.free(block)
    others = [allocator.allocate(8 * MIB, stream=stream) for stream in (1, 2, 3)]  # the second finds the fence passed
    assert 0 < on_host(allocator) <= 16 * MIB
    allocator.release_cached()
    assert on_host(allocator) == 0
    assert all(block.live for block in (kept, *others))


# --- on purpose


def test_what_is_tagged_for_the_host_goes_there_at_once_and_to_the_device_where_the_host_is_full(make: Make) -> None:
    allocator = make(NullUpstream(256 * MIB), host=32 * MIB)
    with memory_tag("states", where="host"):
        blocks = [allocator.allocate(12 * MIB, stream=0) for _ in range(4)]
    assert {segment.tag for segment in allocator.segments()} == {"states"}
    assert segments(allocator) == {False: 24 * MIB, True: 24 * MIB}
    with memory_tag("states"):
        allocator.allocate(2 * MIB, stream=0)
    assert segments(allocator) == {False: 26 * MIB, True: 24 * MIB}
    assert here.tag & ON_HOST == 0
    assert all(block.live for block in blocks)


def test_what_lies_on_the_host_sleeps_and_wakes_there(make: Make) -> None:
    upstream = NullUpstream(256 * MIB)
    allocator = make(upstream, host=64 * MIB)
    with memory_tag("sleepers", where="host"):
        block = allocator.allocate(24 * MIB, stream=0)
    with memory_tag("sleepers"):
        other = allocator.allocate(10 * MIB, stream=0)
    address = block.address
    assert allocator.sleep("sleepers") == 34 * MIB
    assert (on_host(allocator), segments(allocator)[True]) == (0, 24 * MIB)
    with memory_tag("sleepers", where="host"), pytest.raises(CuplugError, match="asleep"):
        allocator.allocate(MIB, stream=0)
    assert allocator.wake("sleepers") == 34 * MIB
    assert (on_host(allocator), block.address) == (24 * MIB, address)
    allocator.free(block)
    allocator.free(other)
    allocator.close()


def test_a_private_pool_keeps_its_host_pages_until_it_ends(make: Make) -> None:
    pool = 7 | 3 << 48
    allocator = make(NullUpstream(32 * MIB), host=128 * MIB)
    full = allocator.allocate(30 * MIB, stream=7)
    block = allocator.allocate(20 * MIB, stream=pool)
    address = block.address
    allocator.free(block)
    other = allocator.allocate(20 * MIB, stream=7)
    assert on_host(allocator) == 40 * MIB  # what is recorded comes back to the pool's addresses
    allocator.release_cached()
    assert on_host(allocator) == 40 * MIB
    again = allocator.allocate(20 * MIB, stream=pool)
    assert again.address == address
    allocator.free(again)
    allocator.forget_stream(pool)
    allocator.release_cached()
    assert on_host(allocator) == 20 * MIB
    assert full.live
    assert other.live


# --- refusals


def test_an_upstream_without_host_pages_is_refused_by_name() -> None:
    upstream = NullUpstream()
    assert upstream.virtual is not None
    upstream.virtual.has_host_pages = False
    with pytest.raises(DriverError, match="host="):
        ExpandableAllocator(upstream, host=MIB)
    ExpandableAllocator(upstream).close()


def test_a_negative_size_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="host is -1"):
        make(NullUpstream(), host=-1)


# --- what observers are told


def test_pages_of_the_host_have_events_of_their_own_that_add_up(make: Make) -> None:
    allocator = make(NullUpstream(32 * MIB), host=128 * MIB)
    seen: dict[EventKind, int] = dict.fromkeys(EventKind, 0)

    def observe(kind: EventKind, time: int, thread: int, stream: int, address: int, nbytes: int, *rest: int) -> None:
        seen[kind] += nbytes

    allocator.attach(observe)
    blocks = [allocator.allocate(20 * MIB, stream=0) for _ in range(4)]
    assert (seen[EventKind.PAGE_CREATE], seen[EventKind.HOST_PAGE_CREATE]) == (20 * MIB, 60 * MIB)
    for block in blocks:
        allocator.free(block)
    allocator.release_cached()
    assert (seen[EventKind.PAGE_RELEASE], seen[EventKind.HOST_PAGE_RELEASE]) == (20 * MIB, 60 * MIB)
    assert seen[EventKind.PAGE_MAP] == seen[EventKind.PAGE_UNMAP]


# --- random programs


def seeds() -> range:
    usual = "2000" if "CUPLUG_THOROUGH" in os.environ else "200"
    first, _, end = os.environ.get("CUPLUG_SEEDS", usual).rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("first", seeds()[::CHUNK])
def test_random_programs_find_their_contents_on_both_sides_whatever_fails(first: int) -> None:
    used = 0
    for seed in range(first, min(first + CHUNK, seeds().stop)):
        try:
            used += run(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed} fails; run it alone with CUPLUG_SEEDS={seed}:{seed + 1}") from error
    assert used or seeds().stop - first < CHUNK


@pytest.mark.parametrize("fault", ["it does not wait", "host pages serve the device", "too many host pages"])
def test_faults_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "it does not wait":
        monkeypatch.setattr(Stamps, "wait", lambda self, stamp: None)
    elif fault == "host pages serve the device":
        every = ExpandableAllocator._movable_spaces
        both = lambda self, host=False: [*every(self, host=True), *every(self, host=False)]  # noqa: E731
        monkeypatch.setattr(ExpandableAllocator, "_movable_spaces", both)
    else:
        monkeypatch.setattr(AddressSpaces, "check_room", lambda self, nbytes, host: None)

    def is_caught(seed: int) -> bool:
        try:
            run(seed, "python")
        except AssertionError:
            return True
        return False

    assert any(map(is_caught, range(80)))


def run(seed: int, form: str = "") -> int:
    """One program of random operations on the simulator. The bench checks each, and what queued work finds in memory.

    Returns the most bytes that lay on the host.
    """
    choose = random.Random(seed)
    capacity, host = choose.choice((16, 24, 48)) * MIB, choose.choice((8, 24, 64)) * MIB
    factory = partial(
        FORMS[form or choose.choice(sorted(FORMS))],
        aliases=choose.choice((0, 1, 4)),
        host=host,
        memory_limit=choose.choice((None, None, 12 * MIB)),
    )
    drivers = partial(SimDriver, schedule=f"random:{seed}", host_memory=choose.choice((host, host // 2, 1 << 30)))
    failures = choose.choice((0.0, 0.0, 0.3, 0.8))
    with Bench(factory, drivers, capacity=capacity, streams=choose.randint(1, 3)) as bench:
        program = Program(bench, choose, failures)
        for _ in range(choose.randint(20, 50)):
            program.step()
            assert bench.upstream.held_on_host <= host
            bench.check_upstream()
        bench.allocator.release_cached()
        bench.verify()
        return int(bench.allocator.statistics().all.host_bytes.peak)


class Program:
    """Random operations. With ``failures``, in that part of them a call upstream fails."""

    def __init__(self, bench: Bench, choose: random.Random, failures: float) -> None:
        self.bench, self.choose, self.failures = bench, choose, failures

    def step(self) -> None:
        """One operation. One that fails upstream has changed nothing."""
        bench, choose = self.bench, self.choose
        what, lane = choose.random(), choose.choice(bench.lanes)
        if what < 0.5 or not bench.live:
            nbytes = choose.choice((choose.randint(1, 4096), choose.randint(1, MIB), choose.randint(MIB, 16 * MIB)))
            self.allocate(nbytes, lane)
        elif what < 0.8:
            live = choose.choice(bench.live)
            with self.failing():
                bench.free(live)
        elif what < 0.95:
            bench.touch(choose.choice(bench.live), lane)
        elif what < 0.97:
            with self.failing(), suppress(DriverError, OutOfMemoryError):
                bench.allocator.release_cached()
        else:
            bench.synchronize()

    def allocate(self, nbytes: int, lane: Lane) -> None:
        bench = self.bench
        try:
            with self.failing():
                block = bench.allocator.allocate(nbytes, stream=lane.handle)
        except (DriverError, OutOfMemoryError):
            if self.failures:
                bench.allocator.release_cached()  # also what the driver would not take back
            bench.verify()
            return
        live = Live(block, lane) if self.failures else None  # what fails on the device may send a block to the host
        if live is None:
            live = bench.took(block, nbytes, lane)
        else:
            bench.ledger.allocated(block)
            bench.live.append(live)
        if self.choose.random() < 0.8:
            bench.touch(live)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Within, one call of the virtual memory fails, or none."""
        left = self.choose.randint(1, 12) if self.choose.random() < self.failures else 0

        def before(name: str) -> None:
            nonlocal left
            if not left or not name.startswith("virtual."):
                return
            left -= 1
            if not left and name.startswith("virtual.create") and self.choose.random() < 0.5:
                raise OutOfMemoryError(f"{name} was told to find nothing")
            if not left:
                raise DriverError(999, "CUDA_ERROR_UNKNOWN", f"{name} was told to fail")

        self.bench.upstream.before_call = before
        try:
            yield
        finally:
            self.bench.upstream.before_call = None
