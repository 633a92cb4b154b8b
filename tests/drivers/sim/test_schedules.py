"""When the simulator runs queued work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cuplug.runtime.drivers.base import LEGACY_STREAM
from cuplug.runtime.drivers.sim import SimDriver
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]
SEEDS = range(40)


def note(ran: list[str], name: str) -> Callable[[], None]:
    return lambda: ran.append(name)


def queue_three(driver: SimDriver) -> tuple[list[str], int, int]:
    """Two operations on one stream and one on another."""
    ran: list[str] = []
    first, second = driver.stream_create(), driver.stream_create()
    driver.launch_host(note(ran, "a1"), stream=first)
    driver.launch_host(note(ran, "a2"), stream=first)
    driver.launch_host(note(ran, "b"), stream=second)
    return ran, first, second


def test_eager_runs_work_when_it_is_queued(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="eager")
    ran, first, _ = queue_three(driver)
    assert ran == ["a1", "a2", "b"]
    assert driver.stream_query(first)


def test_lazy_runs_only_what_is_waited_for(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran, first, second = queue_three(driver)
    assert ran == []
    driver.stream_synchronize(second)
    assert ran == ["b"]
    driver.stream_synchronize(first)
    assert ran == ["b", "a1", "a2"]


def test_lazy_runs_what_an_event_needs_on_other_streams(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran, first, second = queue_three(driver)
    event = driver.event_create()
    driver.event_record(event, stream=first)
    driver.stream_wait_event(second, event)
    driver.launch_host(note(ran, "c"), stream=second)
    driver.launch_host(note(ran, "a3"), stream=first)
    driver.stream_synchronize(second)
    assert "a3" not in ran
    assert sorted(ran) == ["a1", "a2", "b", "c"]
    assert ran[-1] == "c"


def test_a_lazy_query_makes_one_operation_of_progress(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran, first, _ = queue_three(driver)
    assert not driver.stream_query(first)
    assert ran == ["a1"]
    assert not driver.stream_query(first)
    assert ran == ["a1", "a2"]
    assert driver.stream_query(first)


def test_a_waiting_device_runs_everything(make_sim: MakeSim) -> None:
    for schedule in ("lazy", "random:3"):
        driver = make_sim(schedule=schedule)
        ran, _, _ = queue_three(driver)
        driver.synchronize()
        assert sorted(ran) == ["a1", "a2", "b"]
        assert driver.operations_executed == 3


def test_random_finds_every_legal_order_and_no_other(make_sim: MakeSim) -> None:
    orders = set()
    for seed in SEEDS:
        driver = make_sim(schedule="random", seed=seed)
        ran, _, _ = queue_three(driver)
        driver.synchronize()
        orders.add("".join(ran))
    assert orders == {"a1a2b", "a1ba2", "ba1a2"}


def test_the_same_seed_gives_the_same_run(make_sim: MakeSim) -> None:
    def log(**options: Any) -> list[tuple[int, int, str]]:
        driver = make_sim(**options)
        streams = [driver.stream_create() for _ in range(4)]
        address = driver.mem_alloc(4096)
        for turn in range(50):
            driver.memset(address, turn, 16, stream=streams[turn % 4])
        driver.synchronize()
        return driver.log

    assert log(schedule="random", seed=7) == log(schedule="random:7")
    assert log(schedule="random", seed=7) != log(schedule="random", seed=8)


def racy_sum(driver: SimDriver, *, fenced: bool) -> bytes:
    """A producer and a consumer on two streams. Unless ``fenced``, the consumer forgets to wait."""
    producer, consumer, event = driver.stream_create(), driver.stream_create(), driver.event_create()
    source, target = driver.mem_alloc(64), driver.mem_alloc(64)
    driver.memset(source, 0, 64, stream=LEGACY_STREAM)
    driver.synchronize()
    driver.memset(source, 1, 64, stream=producer)
    if fenced:
        driver.event_record(event, stream=producer)
        driver.stream_wait_event(consumer, event)
    driver.memcpy_dtod(target, source, 64, stream=consumer)
    driver.synchronize()
    result = bytes(driver.view(target, 64))
    driver.close()
    return result


def test_a_race_that_eager_never_shows_is_found_from_a_seed_and_found_again(make_sim: MakeSim) -> None:
    right, wrong = bytes([1]) * 64, bytes(64)
    assert {racy_sum(make_sim(schedule="eager"), fenced=False) for _ in SEEDS} == {right}
    found = [seed for seed in SEEDS if racy_sum(make_sim(schedule="random", seed=seed), fenced=False) == wrong]
    assert found
    assert len(found) < len(SEEDS)
    for seed in found[:3]:
        assert racy_sum(make_sim(schedule=f"random:{seed}"), fenced=False) == wrong
    assert {racy_sum(make_sim(schedule="random", seed=seed), fenced=True) for seed in SEEDS} == {right}


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:1", "random:2"])
def test_simulated_time_depends_on_the_program_alone(make_sim: MakeSim, schedule: str) -> None:
    def elapsed(schedule: str) -> float:
        driver = make_sim(schedule=schedule)
        streams = [driver.stream_create(non_blocking=False), driver.stream_create(), LEGACY_STREAM]
        address = driver.mem_alloc(64 << 20)
        events = [driver.event_create(timing=True) for _ in range(2)]
        driver.event_record(events[0], stream=streams[0])
        for turn in range(6):
            driver.memset(address, turn, 64 << 20, stream=streams[turn % 3])
            driver.event_record(events[1], stream=streams[turn % 3])
            driver.stream_wait_event(streams[(turn + 1) % 3], events[1])
        driver.synchronize()
        return driver.event_elapsed_ms(*events)

    assert elapsed(schedule) == elapsed("eager") > 6 * 0.03


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random:1", "random:2"])
def test_simulated_time_keeps_to_the_legacy_streams_order(make_sim: MakeSim, schedule: str) -> None:
    driver = make_sim(schedule=schedule)
    blocking, free = driver.stream_create(non_blocking=False), driver.stream_create()
    address = driver.mem_alloc(64 << 20)
    ends = [driver.event_create(timing=True) for _ in range(4)]
    driver.memset(address, 1, 64 << 20, stream=free)  # about 35 microseconds each
    for event, stream in zip(ends, (blocking, LEGACY_STREAM, blocking, free), strict=True):
        driver.memset(address, 1, 64 << 20, stream=stream)
        driver.event_record(event, stream=stream)
    driver.synchronize()
    assert driver.event_elapsed_ms(ends[0], ends[1]) > 0.03
    assert driver.event_elapsed_ms(ends[1], ends[2]) > 0.03
    assert driver.event_elapsed_ms(ends[0], ends[3]) > 0.03
    assert driver.event_elapsed_ms(ends[3], ends[2]) > 0.03


@pytest.mark.parametrize("schedule", ["", "eagre", "random:", "random:x", "lazy:3"])
def test_an_unknown_schedule_is_refused_with_the_known_ones(schedule: str) -> None:
    with pytest.raises(ValueError, match="eager, lazy, random, random:SEED"):
        SimDriver(schedule=schedule)


# --- order, against a model

STREAMS = ("legacy", "blocking1", "blocking2", "free1", "free2")
STEPS = st.lists(
    st.tuples(st.sampled_from(("launch", "record", "wait", "sync")), st.sampled_from(STREAMS), st.integers(0, 2)),
    max_size=25,
)


class Order:
    """What must have run before what, said by CUDA's rules alone."""

    def __init__(self) -> None:
        self.before: list[set[int]] = []
        self.last: dict[str, set[int]] = {name: set() for name in STREAMS}
        self.events: list[set[int]] = [set(), set(), set()]

    def add(self, stream: str, extra: set[int] = frozenset()) -> int:  # type: ignore[assignment]
        waits = set(extra) | self.last[stream]
        if stream == "legacy":
            waits |= self.last["blocking1"] | self.last["blocking2"]
        elif stream.startswith("blocking"):
            waits |= self.last["legacy"]
        number = len(self.before)
        self.before.append(waits)
        self.last[stream] = waits | {number}
        return number


@given(steps=STEPS, schedule=st.sampled_from(("eager", "lazy", *(f"random:{seed}" for seed in range(20)))))
def test_work_runs_in_an_order_that_cuda_allows(steps: list[tuple[str, str, int]], schedule: str) -> None:
    driver = SimDriver(schedule=schedule)
    driver.set_device(0)
    handles = {
        "legacy": LEGACY_STREAM,
        "blocking1": driver.stream_create(non_blocking=False),
        "blocking2": driver.stream_create(non_blocking=False),
        "free1": driver.stream_create(),
        "free2": driver.stream_create(),
    }
    events = [driver.event_create() for _ in range(3)]
    order, ran, launched = Order(), list[int](), set[int]()
    for step, stream, event in steps:
        if step == "launch":
            number = order.add(stream)
            launched.add(number)
            driver.launch_host(lambda number=number: ran.append(number), stream=handles[stream])
        elif step == "record":
            order.add(stream)
            order.events[event] = set(order.last[stream])
            driver.event_record(events[event], stream=handles[stream])
        elif step == "wait":
            order.add(stream, order.events[event])
            driver.stream_wait_event(handles[stream], events[event])
        else:
            driver.stream_synchronize(handles[stream])
            assert order.last[stream] & launched <= set(ran)
    driver.synchronize()
    driver.close()
    assert sorted(ran) == sorted(launched)
    place = {number: position for position, number in enumerate(ran)}
    for number, position in place.items():
        assert all(place[earlier] < position for earlier in order.before[number] if earlier in place)
