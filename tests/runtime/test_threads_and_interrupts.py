"""Eight threads use two devices and ten streams of each, while interrupts strike one of them, the main thread."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from cuplug.runtime.machine.buffer import Buffer
from cuplug.runtime.machine.device import device, synchronize
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.streams.stream import Stream, stream

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # of signals in the collector
]

THREADS, DEVICES, STREAMS = 8, 2, 10
INTERRUPTS = int(os.environ.get("CUPLUG_INTERRUPTS", "150"))
LEAST_STEPS = 60
SIZES = (100, 4096, 70_000, 1 << 20, 3 << 20)
PATIENCE_S = 120


class Injection(KeyboardInterrupt):
    """The interrupt that a test plants."""


class Program:
    """Allocates on any stream, writes what only it knows, uses it on other streams, reads it again, and frees it."""

    def __init__(self, runtime: Runtime, streams: list[list[Stream]], seed: int) -> None:
        self._runtime = runtime
        self._streams = streams
        self._random = random.Random(seed)
        self._held: list[tuple[Buffer, int]] = []
        self._value = seed

    def step(self) -> None:
        choose, runtime = self._random, self._runtime
        ordinal = choose.randrange(DEVICES)
        queue = choose.choice(self._streams[ordinal])
        with device(ordinal, runtime=runtime), stream(queue):
            nbytes = choose.choice(SIZES)
            buffer = runtime.alloc(nbytes)
            self._value = self._value % 250 + 1
            value = self._value
            memset(buffer, value, runtime=runtime)
            other = choose.choice(self._streams[ordinal])
            other.wait_stream(queue)
            buffer.record_stream(other)
            self._held.append((buffer, value))
            self._read(buffer, value, other)
        while len(self._held) > 5:
            del self._held[choose.randrange(len(self._held))]

    def _read(self, buffer: Buffer, value: int, queue: Stream) -> None:
        found = np.zeros(buffer.nbytes, np.uint8)
        memcpy(found, buffer, stream=queue, runtime=self._runtime)
        queue.synchronize()
        assert (found == value).all(), f"{buffer!r} was filled with {value} and holds {set(found.tolist())}"

    def finish(self) -> None:
        """What an interrupt has left is whole, and all of it goes."""
        for buffer, value in self._held:
            synchronize(buffer.device, runtime=self._runtime)
            found = np.zeros(buffer.nbytes, np.uint8)
            memcpy(found, buffer, runtime=self._runtime)
            assert (found == value).all(), f"{buffer!r} was filled with {value} and holds {set(found.tolist())}"
        self._held.clear()


@pytest.mark.parametrize("allocator", ["caching", "expandable", "direct"])
@pytest.mark.one_schedule
def test_interrupts_of_the_main_thread_cost_no_thread_anything(allocator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: None)  # an interrupt of a finaliser is forgotten
    with Runtime(allocator=allocator, driver=f"sim:devices={DEVICES}") as runtime:
        streams = [[Stream(ordinal, runtime=runtime) for _ in range(STREAMS)] for ordinal in range(DEVICES)]
        struck = _run_all(runtime, streams)
        assert struck >= INTERRUPTS
        gc.collect()
        for ordinal in range(DEVICES):
            synchronize(ordinal, runtime=runtime)
            found = runtime.allocator(ordinal)
            found.release_cached()
            counted = found.statistics().all
            assert (counted.allocated_bytes.current, counted.active.current, counted.reserved_bytes.current) == (
                0,
                0,
                0,
            )
            assert not found.live_blocks()
        assert runtime.driver.live.allocations == 0  # type: ignore[attr-defined]


def _run_all(runtime: Runtime, streams: list[list[Stream]]) -> int:
    """Run the programs until enough interrupts have struck. Returns how many did."""
    enough = threading.Event()
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        program, steps = Program(runtime, streams, seed), 0
        try:
            while steps < LEAST_STEPS or not enough.is_set():
                program.step()
                steps += 1
                if failures:
                    return
            program.finish()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(1, THREADS)]
    for thread in threads:
        thread.start()
    try:
        struck = _interrupted(Program(runtime, streams, THREADS), lambda: bool(failures))
    finally:
        enough.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads), "a lock stays held"
    if failures:
        raise failures[0]
    return struck


def _interrupted(program: Program, is_over: Callable[[], bool]) -> int:
    """Steps of the main thread, each with a timer set, until enough of these have broken one off."""

    def interrupt(*_arguments: object) -> None:
        raise Injection

    choose, struck = random.Random(1), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while struck < INTERRUPTS and not is_over():
            try:
                try:
                    signal.setitimer(signal.ITIMER_REAL, choose.uniform(20e-6, 3e-3))
                    program.step()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Injection:
                struck += 1
        program.finish()
    finally:
        signal.signal(signal.SIGALRM, before)
    return struck
