"""Replays in the native core have the results of those in Python, to the byte and the character."""

from __future__ import annotations

import gc
import random
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators import native
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.events import EventKind
from cuplug.plugins.manager import default_manager
from cuplug.plugins.specs import hookimpl
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, Header, Trace
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.analysis.candidates import candidates, defaults
from cuplug.tools.replaying import one_replay
from cuplug.tools.replaying.least_memory import FitWork, fit_one
from cuplug.tools.replaying.one_replay import Outcome, Work
from cuplug.tools.replaying.program import Program, decode
from cuplug.tools.replaying.replayer import replay

MIB = 1 << 20

needs_core = pytest.mark.skipif(not native.is_available(), reason=f"the native core: {native.why_not()}")


def made_trace(seed: int, count: int, *, devices: int = 1, source: str = "cuplug", careless: bool = False) -> Trace:
    """A random history. A careless one has lost events, frees of nothing, and reused addresses."""
    chance = random.Random(seed)
    events = np.zeros(count, EVENT_DTYPE)
    live: dict[int, list[tuple[int, int, int]]] = {device: [] for device in range(devices)}
    next_address = 512
    for place in range(count):
        device = chance.randrange(devices)
        held = live[device]
        kind = chance.choices([EventKind.ALLOCATE, EventKind.FREE, EventKind.RECORD_STREAM, EventKind.FENCE_PASSED,
                               EventKind.OUT_OF_MEMORY, EventKind.PAGE_MAP], [50, 38, 4, 6, 1, 1])[0]  # fmt: skip
        size, stream = int(2 ** (chance.random() * 25)), chance.choice([0, 5, 7])
        address = chance.randrange(1, 12) * 512 if careless else next_address
        if kind == EventKind.ALLOCATE:
            size = 0 if careless and chance.random() < 0.1 else size
            next_address += 1 << 26
            held.append((address, size, stream))
        elif kind != EventKind.OUT_OF_MEMORY and held and not careless:
            take = chance.randrange(len(held))
            address, size, stream = held[take]
            if kind in (EventKind.FREE, EventKind.FENCE_PASSED):
                del held[take]
        events[place] = (place * 1000, address, size, size, stream, 0, 0, device, kind)
    return Trace(Header(fields={"source": source}), events, path="made")


def decoded_by_rule(trace: Trace, device: int) -> dict[str, Any]:
    """What ``decode`` says, event by event."""
    always_waits = trace.header.source == "pytorch"
    rows = [(place, row) for place, row in enumerate(trace.events) if row["device"] == device]
    last = max((place for place, row in enumerate(trace.events) if row["kind"] == EventKind.ALLOCATE), default=-1)
    steps: list[int] = []
    events: list[int] = []
    sizes: list[int] = []
    streams: list[int] = []
    live: dict[int, int] = {}
    waits: set[int] = set()
    unmatched = 0

    def take(place: int, *taken: int) -> None:
        steps.extend(taken)
        events.extend([place] * len(taken))

    for place, row in rows:
        kind, address, nbytes = int(row["kind"]), int(row["address"]), int(row["requested"])
        if kind == EventKind.ALLOCATE and nbytes:
            if address in live:
                unmatched += 1
                take(place, -live.pop(address))
            sizes.append(nbytes)
            streams.append(int(row["stream"]))
            live[address] = len(sizes)
            take(place, len(sizes))
        elif kind == EventKind.OUT_OF_MEMORY and nbytes and place > last:
            sizes.append(nbytes)
            streams.append(int(row["stream"]))
            take(place, len(sizes), -len(sizes))
        elif kind == EventKind.RECORD_STREAM and address in live:
            waits.add(live[address])
        elif kind in (EventKind.FREE, EventKind.FENCE_PASSED):
            if address not in live:
                unmatched += kind == EventKind.FREE
            elif kind == EventKind.FENCE_PASSED or not (always_waits or live[address] in waits):
                take(place, -live.pop(address))
    return {"steps": steps, "events": events, "sizes": sizes, "streams": streams, "unmatched": unmatched}


@pytest.mark.parametrize("source", ["cuplug", "pytorch"])
@pytest.mark.parametrize("careless", [False, True])
def test_a_history_is_decoded_as_the_rules_say_event_by_event(source: str, careless: bool) -> None:
    for seed in range(40):
        trace = made_trace(seed, 300, devices=2, source=source, careless=careless)
        for program in decode(trace):
            expected = decoded_by_rule(trace, program.device)
            found = {name: getattr(program, name) for name in expected}
            assert {name: np.asarray(column).tolist() for name, column in found.items()} == expected


def in_python(monkeypatch: pytest.MonkeyPatch, work: Work) -> Outcome:
    with monkeypatch.context() as patch:
        patch.setattr(one_replay, "null_upstream", _python_upstream)
        return one_replay.run(work)


def _python_upstream(_allocator: str, memory: int | None, ordinal: int = 0) -> Any:
    return one_replay.NullUpstream(*() if memory is None else (memory,), ordinal=ordinal)


def timeless(outcome: Outcome) -> Outcome:
    return replace(outcome, result=replace(outcome.result, seconds=0.0))


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = tmp_path / "made.cuplug"
    write_trace(made_trace(1, 900, devices=2), path)
    return str(path)


@needs_core
@pytest.mark.parametrize(("memory", "stop"), [(None, False), (150 * MIB, False), (150 * MIB, True)])
def test_every_candidate_has_the_same_result_in_the_core_as_in_python(
    path: str, memory: int | None, stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = default_manager().describe_allocators()
    for selection in dict.fromkeys([*candidates(entries, limited=True), *defaults(entries)]):
        work = Work(path, selection, memory, stop_at_failure=stop, curve=True)
        assert timeless(one_replay.run(work)) == timeless(in_python(monkeypatch, work)), selection


@needs_core
def test_memory_fails_in_the_core_as_in_python(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = one_replay.run(Work(path, "caching", 150 * MIB))
    assert found.result.out_of_memory_events > 0
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate" in found.result.failure
    assert found.result.failure == in_python(monkeypatch, Work(path, "caching", 150 * MIB)).result.failure


@needs_core
@pytest.mark.parametrize("allocator", ["caching", "caching:preset=torch", "expandable", "direct", "bump"])
def test_the_least_memory_found_is_that_of_replays_in_python(
    path: str, allocator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = fit_one(FitWork(path, allocator))
    monkeypatch.setattr(one_replay, "null_upstream", _python_upstream)
    assert fit_one(FitWork(path, allocator)) == fast


@needs_core
def test_only_what_the_core_has_is_replayed_there() -> None:
    entries = default_manager().describe_allocators()
    names = [entry.name for entry in entries if entry.plugin == "cuplug" and not entry.only_replays]
    assert {type(one_replay.null_upstream(name, None)).__name__ for name in names} == {"NativeNullUpstream"}
    manager = default_manager()
    manager.register(ThirdParty(), "third party")
    try:
        assert type(one_replay.null_upstream("theirs", None)).__name__ == "NullUpstream"
    finally:
        manager.unregister("third party")


class ThirdParty:
    @hookimpl
    def cuplug_allocators(self) -> dict[str, Any]:
        return {"theirs": DirectAllocator}


@needs_core
def test_an_allocator_goes_with_the_last_reference_to_it_and_its_host_memory_too() -> None:
    allocator = default_manager().make_allocator("caching", one_replay.null_upstream("caching", None))
    allocator.attach(lambda *_event: None)
    allocator.free(allocator.allocate(1000, stream=0))
    gone = weakref.ref(allocator)
    gc.disable()
    try:
        del allocator
        assert gone() is None
    finally:
        gc.enable()


@needs_core
def test_ctrl_c_ends_a_replay_in_the_core(path: str) -> None:
    def interrupt(_steps: int) -> None:
        raise KeyboardInterrupt

    programs: list[Program] = one_replay.history(path).programs
    with pytest.raises(KeyboardInterrupt):
        replay(
            programs,
            lambda upstream: default_manager().make_allocator("caching", upstream),
            allocator="caching",
            make_upstream=lambda _device: one_replay.null_upstream("caching", None),
            progress=interrupt,
        )
