"""Exceptions at any point of the simulator's calls: Ctrl-C, signals of timers, and whatever else is none of its own."""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cuplug.allocators.upstream import VirtualMemory, in_one_step
from cuplug.runtime.drivers import sim
from cuplug.runtime.drivers.base import LEGACY_STREAM
from cuplug.runtime.drivers.device_upstream import DeviceUpstream, EventFence, PinnedUpstream
from cuplug.runtime.drivers.sim import SimDriver

from ...timers import Cut

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]
SCHEDULES = pytest.mark.parametrize("schedule", ["eager", "lazy", "random:3"])
UNIT = 2 << 20
INTERRUPTS = int(os.environ.get("CUPLUG_INTERRUPTS", "1500"))
"""How many timer signals each schedule gets."""
EVERYWHERE = "CUPLUG_INTERRUPTS" in os.environ
"""Whether a line is tried in every step that reaches it under every schedule, rather than in one step of each kind,
under the eager schedule and under one of the two others."""

HERE = Path(sim.__file__).parent
TRACED = {*map(str, HERE.glob("*.py")), str(HERE.parent / "device_upstream.py")} - {str(HERE / "held_signals.py")}
SPARED = (
    "gc.enable()",  # only a tracer can interrupt between this line and the one before
    "self.body()",  # the tracer's own frame would be taken for the kernel's
)


class Injected(BaseException):
    """Stands for whatever may be raised anywhere."""


@dataclass
class Program:
    """A program on a simulated machine, which knows what it holds."""

    driver: SimDriver
    held: dict[str, int] = field(default_factory=dict)
    fences: list[EventFence] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        virtual = self.driver.virtual_memory(0)
        assert virtual is not None
        self.virtual: VirtualMemory = virtual
        self.upstream, self.pinned = DeviceUpstream(self.driver, 0), PinnedUpstream(self.driver, 0)
        self.host = ctypes.create_string_buffer(64)

    def __getitem__(self, name: str) -> int:
        return self.held[name]

    def make(self, name: str, made: int) -> None:
        self.held[name] = made

    def fence(self, stream: int) -> None:
        self.fences.append(self.upstream.fence(stream))  # type: ignore[arg-type]

    def gives_back(self, name: str, call: Callable[[], None]) -> None:
        call()
        del self.held[name]

    def state(self) -> tuple[object, ...]:
        return self.driver.live, self.driver.mem_info(), self.driver.reachable()

    def counts(self) -> dict[str, int]:
        """How many things of each kind it holds."""
        found = dict.fromkeys(("memory", "host", "range", "page", "stream"), 0)
        for name in self.held:
            kind = name.rstrip("0123456789")
            if kind in found:
                found[kind] += 1
        return found

    def live_counts(self) -> dict[str, int]:
        """How many there are."""
        live = self.driver.live
        return {
            "memory": live.allocations,
            "host": live.host_allocations,
            "range": live.ranges,
            "page": live.pages,
            "stream": live.streams,
        }

    def clean_up(self) -> None:
        """Give everything back."""
        driver, virtual = self.driver, self.virtual
        driver.synchronize()
        self.fences.clear()
        for position in range(driver.live.mappings):
            virtual.unmap(self["range"] + position * UNIT, UNIT)
        give_back: dict[str, Callable[[int], None]] = {
            "memory": driver.mem_free,
            "host": driver.host_free,
            "range": lambda address: virtual.free_range(address, 2 * UNIT),
            "page": virtual.release_page,
            "event": driver.event_destroy,
            "stream": driver.stream_destroy,
        }
        for name, made in self.held.items():
            give_back[name.rstrip("0123456789")](made)
        self.held.clear()


def steps() -> list[tuple[str, Callable[[Program], object]]]:
    """A program that makes every call, one after the other."""
    return [
        ("makes", lambda p: p.make("memory1", p.driver.mem_alloc(1000))),
        ("makes", lambda p: p.make("memory2", p.driver.mem_alloc(2000))),
        ("makes", lambda p: p.make("memory3", p.driver.mem_alloc(2 * UNIT + 1))),
        ("gives back", lambda p: p.gives_back("memory1", lambda: p.driver.mem_free(p["memory1"]))),
        ("makes", lambda p: p.make("memory4", p.upstream.reserve(600))),
        ("makes", lambda p: p.make("host1", p.driver.host_alloc(5000))),
        ("makes", lambda p: p.make("host2", p.pinned.reserve(5000))),
        ("makes", lambda p: p.make("stream1", p.driver.stream_create())),
        ("makes", lambda p: p.make("stream2", p.driver.stream_create(non_blocking=False))),
        ("makes", lambda p: p.make("event1", p.driver.event_create())),
        ("queues", lambda p: p.driver.memset(p["memory3"], 7, 64, stream=p["stream1"])),
        ("queues", lambda p: p.driver.memset(p["memory3"], 7, 16, width=4, stream=p["stream2"])),
        ("queues", lambda p: p.driver.event_record(p["event1"], stream=p["stream1"])),
        ("queues", lambda p: p.driver.stream_wait_event(p["stream2"], p["event1"])),
        (
            "queues",
            lambda p: p.driver.memcpy_htod(p["memory2"], ctypes.addressof(p.host), 64, stream=p["stream1"]),
        ),
        ("queues", lambda p: p.driver.memcpy_htod(p["memory2"], p["host1"], 64, stream=p["stream2"])),
        ("queues", lambda p: p.driver.memcpy_dtod(p["memory3"], p["memory2"], 64, stream=p["stream2"])),
        ("queues", lambda p: p.driver.memcpy_peer(p["memory3"], 0, p["memory2"], 0, 64, stream=p["stream1"])),
        ("queues", lambda p: p.driver.memcpy_dtoh(p["host1"], p["memory3"], 64, stream=LEGACY_STREAM)),
        ("queues", lambda p: p.driver.memcpy_dtoh(ctypes.addressof(p.host), p["memory3"], 64, stream=p["stream2"])),
        ("queues", lambda p: p.driver.launch_host(lambda: p.ran.append(1), stream=p["stream1"])),
        ("queues", lambda p: p.fence(p["stream1"])),
        ("queues", lambda p: p.fence(LEGACY_STREAM)),
        ("asks", lambda p: p.driver.event_query(p["event1"])),
        ("asks", lambda p: p.driver.stream_query(p["stream1"])),
        ("retires", lambda p: p.fences[0].done()),
        ("retires", lambda p: p.fences[1].wait()),
        ("asks", lambda p: p.driver.event_synchronize(p["event1"])),
        ("asks", lambda p: p.driver.stream_synchronize(p["stream1"])),
        ("asks", lambda p: p.driver.synchronize()),
        ("asks", lambda p: p.upstream.memory_info()),
        ("asks", lambda p: p.driver.pending_access(p["memory3"], 64, before_stream=LEGACY_STREAM)),
        ("makes", lambda p: p.make("range", p.virtual.reserve_range(2 * UNIT))),
        ("makes", lambda p: p.make("page1", p.virtual.create_page(UNIT))),
        ("makes", lambda p: p.make("page2", p.virtual.create_page(UNIT))),
        ("makes", lambda p: p.virtual.map(p["range"], UNIT, p["page1"])),
        ("makes", lambda p: p.virtual.map(p["range"] + UNIT, UNIT, p["page2"])),
        ("grants", lambda p: p.virtual.set_access(p["range"], 2 * UNIT)),
        ("queues", lambda p: p.driver.memset(p["range"], 5, 2 * UNIT, stream=LEGACY_STREAM)),
        ("asks", lambda p: p.driver.synchronize()),
        ("gives back", lambda p: p.gives_back("page2", lambda: p.virtual.release_page(p["page2"]))),
        ("gives back", lambda p: p.virtual.unmap(p["range"], 2 * UNIT)),
        ("gives back", lambda p: p.gives_back("page1", lambda: p.virtual.release_page(p["page1"]))),
        ("gives back", lambda p: p.gives_back("range", lambda: p.virtual.free_range(p["range"], 2 * UNIT))),
        ("gives back", lambda p: p.gives_back("event1", lambda: p.driver.event_destroy(p["event1"]))),
        ("gives back", lambda p: p.gives_back("stream2", lambda: p.driver.stream_destroy(p["stream2"]))),
        ("gives back", lambda p: p.gives_back("host1", lambda: p.driver.host_free(p["host1"]))),
        ("gives back", lambda p: p.gives_back("host2", lambda: p.pinned.release(p["host2"]))),
        ("gives back", lambda p: p.gives_back("memory2", lambda: p.driver.mem_free(p["memory2"]))),
        ("gives back", lambda p: p.gives_back("memory4", lambda: p.upstream.release(p["memory4"]))),
        ("gives back", lambda p: p.gives_back("memory3", lambda: p.driver.mem_free(p["memory3"]))),
    ]


class Tracer:
    """Counts the lines of the simulator as they are reached, and raises at one of them."""

    def __init__(self, at: tuple[str, int] | None = None) -> None:
        self.at = at
        self.lines: list[tuple[str, int]] = []

    def run(self, call: Callable[[], object]) -> None:
        enter = self._enter  # see ``_traced`` in plugins/conformance/stepping.py
        sys.settrace(enter)
        try:
            call()
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in TRACED else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self.lines.append((frame.f_code.co_filename, frame.f_lineno))
            if self.at == self.lines[-1]:
                sys.settrace(None)
                raise Injected
        return self._line


def in_another_thread(call: Callable[[], object]) -> None:
    """Whether another thread gets through: one that hung would be left behind, and the test fails."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive(), "a lock was left held: another thread waits for ever"


def check_all_is_there(driver: SimDriver) -> None:
    """Nothing is held, and all the memory can be had in one piece, in both of its forms."""
    live = driver.live
    assert live == type(live)(0, 0, 0, 0, 0, 0, 0)
    free, total = driver.mem_info()
    assert free == total
    driver.mem_free(driver.mem_alloc(total))
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    virtual.release_page(virtual.create_page(total))
    assert driver.mem_info() == (total, total)


@SCHEDULES
def test_an_exception_at_any_line_leaves_the_state_before_or_after_and_everything_usable(
    make_sim: MakeSim, schedule: str
) -> None:
    tried = 0
    seen: set[tuple[tuple[str, int], str]] = set()
    for number, (kind, step) in enumerate(steps()):
        reference = Program(make_sim(schedule=schedule, memory=64 << 20))
        for _, earlier in steps()[:number]:
            earlier(reference)
        tracer = Tracer()
        tracer.run(lambda step=step, reference=reference: step(reference))  # type: ignore[misc]
        places = [
            line
            for line in dict.fromkeys(tracer.lines)
            if (line, kind) not in seen and linecache.getline(*line).strip() not in SPARED
        ]
        if not EVERYWHERE:
            seen.update((line, kind) for line in places)
        reference.clean_up()
        reference.driver.close()
        if not EVERYWHERE and schedule != "eager":
            places = [line for line in places if line[1] % 2 == (schedule == "lazy")]
        for at in places:
            tried += 1
            program = Program(make_sim(schedule=schedule, memory=64 << 20))
            driver = program.driver
            for _, earlier in steps()[:number]:
                earlier(program)
            before = program.state()
            injecting = Tracer(at)
            try:
                injecting.run(lambda step=step, program=program: step(program))  # type: ignore[misc]
            except Injected:
                pass
            else:  # a line that runs once in a process
                driver.close()
                continue
            where = "{}:{} in step {}".format(*at, number)
            print(where)  # pytest shows it if what follows fails
            in_another_thread(lambda driver=driver: driver.set_device(0) or driver.synchronize())  # type: ignore[misc]
            driver.mem_info()
            assert gc.isenabled(), where
            if kind not in ("queues", "retires", "grants"):  # what is run, destroyed or allowed by then stays so
                assert program.state() == before, where
            assert program.counts() == program.live_counts(), where
            step(program)  # it can be done again
            program.clean_up()
            check_all_is_there(driver)
            driver.close()
    assert tried > (500 if schedule == "eager" else 250)


@SCHEDULES
def test_signals_at_any_moment_lose_nothing(make_sim: MakeSim, timer: Cut, schedule: str) -> None:
    """Another thread works on the machine all the while."""
    driver = make_sim(schedule=schedule, memory=256 << 20)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    upstream = DeviceUpstream(driver, 0)
    chosen = random.Random(11)
    memory: list[int] = []
    pages: list[int] = []
    events: list[int] = []
    fences: list[Any] = []
    stream = driver.stream_create()
    target = driver.mem_alloc(4096)
    stop = threading.Event()
    errors: list[BaseException] = []

    def work_elsewhere() -> None:
        try:
            driver.set_device(0)
            while not stop.is_set():
                address = driver.mem_alloc(3 << 20)
                driver.memset(address, 3, 64, stream=LEGACY_STREAM)
                driver.stream_synchronize(LEGACY_STREAM)
                driver.mem_free(address)
        except BaseException as error:
            errors.append(error)

    def six_calls() -> None:
        for _ in range(6):
            kind = chosen.randrange(8)
            if kind == 0:
                memory.extend(in_one_step(upstream.reserve, chosen.choice([100, 5000, 1 << 20, 3 << 20])))
            elif kind == 1 and memory:
                if [*in_one_step(upstream.release, memory[-1])]:
                    del memory[-1]
            elif kind == 2:
                pages.extend(in_one_step(virtual.create_page, UNIT))
            elif kind == 3 and pages:
                if [*in_one_step(virtual.release_page, pages[-1])]:
                    del pages[-1]
            elif kind == 4:
                events.extend(in_one_step(driver.event_create))
                driver.event_record(events[-1], stream=stream)
            elif kind == 5 and events:
                if [*in_one_step(driver.event_destroy, events[-1])]:
                    del events[-1]
            elif kind == 6:
                driver.memset(target, chosen.randrange(256), 4096, stream=stream)
                fences.append(upstream.fence(stream))
            elif fences:
                fences[-1].wait()
                del fences[-1]

    elsewhere = threading.Thread(target=work_elsewhere, daemon=True)
    elsewhere.start()
    came = 0
    while came < INTERRUPTS:
        if not timer(six_calls, chosen.uniform(1e-6, 2e-4)):
            continue
        came += 1
        live = driver.live
        assert len(memory) + 1 <= live.allocations <= len(memory) + 2
        assert len(pages) == live.pages
        assert len(events) + len(fences) >= live.events - 1
        if came % 50 == 0:
            for give_back, held in (
                (driver.mem_free, memory),
                (virtual.release_page, pages),
                (driver.event_destroy, events),
            ):
                while held:
                    give_back(held.pop())
            fences.clear()
            live = driver.live
            assert (live.allocations - 1, live.pages, live.events) in [(0, 0, 0), (1, 0, 0)]
    stop.set()
    elsewhere.join(300)
    assert not elsewhere.is_alive()
    assert errors == []
    for give_back, held in ((driver.mem_free, memory), (virtual.release_page, pages), (driver.event_destroy, events)):
        for handle in held:
            give_back(handle)
    fences.clear()
    driver.mem_free(target)
    driver.stream_destroy(stream)
    driver.synchronize()
    check_all_is_there(driver)
    assert gc.isenabled()


@pytest.mark.parametrize("wait", ["synchronize", "stream_synchronize", "event_synchronize"])
def test_ctrl_c_while_waiting_is_raised_and_leaves_the_device_usable(make_sim: MakeSim, wait: str) -> None:
    """The wait runs the kernel, which ends first, as on a GPU."""
    driver = make_sim(schedule="lazy")
    stream, event, ran = driver.stream_create(), driver.event_create(), list[str]()

    def kernel() -> None:
        signal.raise_signal(signal.SIGINT)
        ran.append("to its end")

    driver.launch_host(kernel, stream=stream)
    driver.event_record(event, stream=stream)
    waits: dict[str, Callable[[], None]] = {
        "synchronize": driver.synchronize,
        "stream_synchronize": lambda: driver.stream_synchronize(stream),
        "event_synchronize": lambda: driver.event_synchronize(event),
    }
    with pytest.raises(KeyboardInterrupt):
        waits[wait]()
    assert ran == ["to its end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    waits[wait]()
    driver.launch_host(lambda: ran.append("again"), stream=stream)
    driver.synchronize()
    assert ran == ["to its end", "again"]


def test_ctrl_c_while_another_thread_is_in_a_call_is_raised_at_once(make_sim: MakeSim) -> None:
    driver = make_sim()
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        driver.set_device(0)
        driver.launch_host(lambda: (entered.set(), leave.wait(300)), stream=LEGACY_STREAM)

    other = threading.Thread(target=work)
    other.start()
    entered.wait(300)
    main = threading.main_thread().ident
    assert main is not None
    signalling = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal may come at either line
        signalling.start()
        driver.synchronize()
    leave.set()
    signalling.join()
    other.join()
    driver.synchronize()


def test_a_second_ctrl_c_stops_a_kernel_that_does_not_end(make_sim: MakeSim) -> None:
    driver = make_sim()

    def kernel() -> None:
        while True:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        driver.launch_host(kernel, stream=LEGACY_STREAM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(Exception, match="launch_host on device 0 was interrupted"):
        driver.synchronize()


def test_a_kernel_that_there_is_no_stack_left_to_call_runs_later(make_sim: MakeSim) -> None:
    driver = make_sim(schedule="lazy")
    ran: list[int] = []
    driver.launch_host(lambda: ran.append(1), stream=LEGACY_STREAM)
    refused = 0

    def deeper() -> None:
        nonlocal refused
        try:
            deeper()
        except RecursionError:
            refused += 1
        if not ran:
            try:
                driver.synchronize()
            except (RecursionError, ctypes.ArgumentError):  # which ctypes makes of it
                refused += 1

    deeper()
    assert refused > 1
    assert ran == [1]
    driver.synchronize()
