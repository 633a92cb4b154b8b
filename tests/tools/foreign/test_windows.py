"""Windows cut at random out of histories, recorded and generated: figures at every event are those of the whole."""

from __future__ import annotations

import lzma
import pickle
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.tools.analysis.blocks import curves, find_blocks
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.one_replay import Work, run
from cuplug.tools.replaying.one_replay import history as history_of
from cuplug.tools.replaying.replayer import replay
from cuplug.tools.replaying.run_figures import Curve

TRACES = Path(__file__).parents[2] / "data" / "traces"
PAGE = 2 << 20

Entry = dict[str, Any]


@dataclass
class Machine:
    """What a device holds, followed event by event: an account of its own of what PyTorch's entries mean."""

    blocks: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """By address: requested bytes, stream, state."""
    segments: dict[int, tuple[int, int]] = field(default_factory=dict)
    pages: dict[int, int] = field(default_factory=dict)
    """The stream of each mapped page."""

    def take(self, entry: Entry) -> None:
        action, at, size = entry["action"], entry.get("addr", 0), entry["size"]
        if action == "alloc":
            self.blocks[at] = size, entry["stream"], "active_allocated"
        elif action == "free_requested":
            self.blocks[at] = *self.blocks[at][:2], "active_pending_free"
        elif action == "free_completed":
            self.blocks.pop(at)
        elif action == "segment_alloc":
            self.segments[at] = size, entry["stream"]
        elif action == "segment_free":
            self.segments.pop(at)
        elif action == "segment_map":
            self.pages |= dict.fromkeys(range(at, at + size, PAGE), entry["stream"])
        elif action == "segment_unmap":
            for page in range(at, at + size, PAGE):
                self.pages.pop(page)

    def figures(self) -> tuple[int, int, int, int]:
        """Bytes requested, allocated, active and reserved."""
        live = [size for size, _, state in self.blocks.values() if state == "active_allocated"]
        reserved = sum(size for size, _ in self.segments.values()) + PAGE * len(self.pages)
        every = [size for size, _, _ in self.blocks.values()]
        return sum(live), sum(map(rounded, live)), sum(map(rounded, every)), reserved

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments, as PyTorch writes them."""
        held = [(at, size, stream, False) for at, (size, stream) in self.segments.items()]
        for page, stream in sorted(self.pages.items()):
            if held and held[-1][3] and held[-1][0] + held[-1][1] == page and held[-1][2] == stream:
                held[-1] = held[-1][0], held[-1][1] + PAGE, stream, True
            else:
                held.append((page, PAGE, stream, True))
        found = []
        for at, size, stream, expandable in held:
            pieces: list[dict[str, Any]] = []
            end = at
            for address in sorted(block for block in self.blocks if at <= block < at + size):
                if address > end:
                    pieces.append({"address": end, "size": address - end, "requested_size": 0, "state": "inactive"})
                requested, _, state = self.blocks[address]
                end = address + rounded(requested)
                pieces.append({"address": address, "size": end - address, "requested_size": requested, "state": state})
            if end < at + size:
                pieces.append({"address": end, "size": at + size - end, "requested_size": 0, "state": "inactive"})
            found.append(
                {
                    "device": 0, "address": at, "total_size": size, "stream": stream, "is_expandable": expandable,
                    "blocks": pieces,
                }
            )  # fmt: skip
        return found


def rounded(size: int) -> int:
    return -(-size // 512) * 512


def history(seed: int, count: int = 400) -> list[Entry]:
    """A program that nobody wrote, on an allocator that never existed: segments, mapped pages, streams, late frees."""
    choose = random.Random(seed)
    machine, entries = Machine(), []

    def note(action: str, addr: int, size: int, stream: int) -> None:
        entries.append(
            {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 50 + len(entries) // 3}
        )
        machine.take(entries[-1])

    while len(entries) < count:
        kind = choose.randrange(8)
        by_state: dict[str, list[int]] = {"active_allocated": [], "active_pending_free": []}
        for address, (_, _, state) in machine.blocks.items():
            by_state[state].append(address)
        if kind <= 2:
            pieces = [
                (piece["address"], piece["size"], segment["stream"])
                for segment in machine.snapshot()
                for piece in segment["blocks"]
                if piece["state"] == "inactive"
            ]
            if pieces:
                address, size, stream = choose.choice(pieces)
                note("alloc", address, choose.randint(1, size), stream)
        elif kind == 3 and by_state["active_allocated"]:
            address = choose.choice(by_state["active_allocated"])
            note("free_requested", address, *machine.blocks[address][:2])
        elif kind == 4 and by_state["active_pending_free"]:
            address = choose.choice(by_state["active_pending_free"])
            note("free_completed", address, *machine.blocks[address][:2])
        elif kind == 5:
            taken = {at // PAGE + page for at, (size, _) in machine.segments.items() for page in range(size // PAGE)}
            first, pages = choose.randrange(1, 60), choose.randint(1, 4)
            if not taken & set(range(first, first + pages)):
                note("segment_alloc", first * PAGE, pages * PAGE, choose.randrange(3))
        elif kind == 6:
            first, pages = choose.randrange(100, 140), choose.randint(1, 3)
            stream = machine.pages.get((first - 1) * PAGE, choose.randrange(3))
            if not any((first + page) * PAGE in machine.pages for page in range(pages)):
                note("segment_map", first * PAGE, pages * PAGE, stream)
        else:
            empty = [
                piece for piece in machine.snapshot() if not any(b["state"] != "inactive" for b in piece["blocks"])
            ]
            if empty:
                one = choose.choice(empty)
                note(
                    "segment_unmap" if one["is_expandable"] else "segment_free", one["address"], one["total_size"],
                    one["stream"],
                )  # fmt: skip
    return entries


@lru_cache(2)
def recorded(name: str) -> list[Entry]:
    data = pickle.loads(lzma.decompress((TRACES / f"{name}.pickle.xz").read_bytes()))
    entries: list[Entry] = data["device_traces"][0]
    return entries


def window(path: Path, entries: list[Entry], segments: Iterable[dict[str, Any]]) -> Trace:
    path.write_bytes(pickle.dumps({"device_traces": [entries], "segments": list(segments)}, 4))
    return load(path)


def figures(trace: Trace) -> list[tuple[int, ...]]:
    memory = curves(trace.events, find_blocks(trace.events, completed_apart=trace.completed_apart))
    each = (memory.requested, memory.allocated, memory.active, memory.reserved)
    return list(zip(*(curve[trace.begin :].tolist() for curve in each), strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_random_windows_of_generated_histories_have_the_figures_of_the_whole(tmp_path: Path, seed: int) -> None:
    entries, choose, machine = history(seed), random.Random(-seed - 1), Machine()
    begin, end = sorted(choose.sample(range(len(entries) + 1), 2))
    told = []
    for entry in entries[:end]:
        machine.take(entry)
        told.append(machine.figures())
    trace = window(tmp_path / "w.pickle", entries[begin:end], machine.snapshot())
    assert figures(trace) == told[begin:]
    assert "of another moment" not in trace.note
    assert "not the state" not in trace.note


@pytest.mark.parametrize("name", ["stream_prefetch", "serving"])
def test_random_windows_of_recorded_histories_have_the_figures_and_torchs_peak_of_the_whole(
    tmp_path: Path, name: str
) -> None:
    entries, choose, machine = recorded(name)[:20_000], random.Random(name), Machine()
    ends = {min(begin + count, len(entries)): begin for begin, count in (
        (0, 1000), (choose.randrange(5000), 1000), (choose.randrange(9000), 3000), (19_000, 1000),
        *((choose.randrange(19_000), choose.randint(1, 900)) for _ in range(3)),
    )}  # fmt: skip
    told = []
    for at, entry in enumerate(entries, 1):
        machine.take(entry)
        told.append(machine.figures() if any(begin < at <= end for end, begin in ends.items()) else (0, 0, 0, 0))
        if at in ends:
            path = tmp_path / f"{at}.pickle"
            trace = window(path, entries[ends[at] : at], machine.snapshot())
            assert figures(trace) == told[ends[at] :]
            if entry["action"] != "segment_alloc":  # else what it was reserved for is not in the window
                replayed = run(Work(str(path), "caching:preset=torch")).result
                assert replayed.peak_reserved_bytes == max(reserved for *_, reserved in told[ends[at] :])
                assert replayed.driver_calls.get("cuMemAlloc", 0) == sum(
                    entry["action"] == "segment_alloc" for entry in entries[ends[at] : at]
                )


def test_a_replay_in_python_begins_with_the_recorded_segments_as_the_native_one(tmp_path: Path) -> None:
    entries, machine = recorded("stream_prefetch")[:12_000], Machine()
    for entry in entries:
        machine.take(entry)
    path = tmp_path / "w.pickle"
    window(path, entries[-500:], machine.snapshot())
    chosen = run(Work(str(path), "caching:preset=torch", curve=True))
    past, reserved = history_of(str(path)), dict[int, Curve]()
    python = replay(
        past.programs_for("caching:preset=torch", None),
        lambda upstream: CachingAllocator(upstream, preset="torch"),
        allocator="caching:preset=torch",
        curves=reserved,
    )
    assert chosen.result.peak_reserved_bytes == python.peak_reserved_bytes == machine.figures()[3]
    assert chosen.result.driver_calls == python.driver_calls == {}
    assert chosen.result.peak_allocated_bytes == python.peak_allocated_bytes
    assert chosen.result.peak_requested_bytes == python.peak_requested_bytes
    assert chosen.curves == past.timed(reserved)


def test_on_less_memory_than_was_held_a_replay_begins_with_the_blocks_alone(tmp_path: Path) -> None:
    entries, machine = recorded("stream_prefetch")[:12_000], Machine()
    for entry in entries:
        machine.take(entry)
    path = tmp_path / "w.pickle"
    window(path, entries[-500:], machine.snapshot())
    held = machine.figures()[3]
    assert run(Work(str(path), "caching:preset=torch", held)).result.peak_reserved_bytes == held
    less = run(Work(str(path), "caching:preset=torch", held - PAGE)).result
    assert not less.failure
    assert less.peak_reserved_bytes < held - PAGE


@pytest.mark.parametrize("name", ["stream_prefetch", "serving"])
def test_segments_of_another_moment_are_passed_over_and_it_is_said(tmp_path: Path, name: str) -> None:
    entries, machine, told = recorded(name)[:20_000], Machine(), []
    for at, entry in enumerate(entries):
        machine.take(entry)
        if at < 1000:
            told.append(machine.figures())
    first = window(tmp_path / "first.pickle", entries[:1000], machine.snapshot())
    assert figures(first) == told
    assert "not the state in which its history ended" in first.note
    later = window(tmp_path / "later.pickle", entries[9000:10_000], machine.snapshot())
    assert "not the state in which its history ended" in later.note
    assert min(reserved for *_, reserved in figures(later)) > 0  # where it shows blocks, there were segments


def test_segments_alone_are_the_state_at_one_moment(tmp_path: Path) -> None:
    machine = Machine()
    for entry in history(5):
        machine.take(entry)
    trace = window(tmp_path / "s.pickle", [], machine.snapshot())
    memory = curves(trace.events, find_blocks(trace.events, completed_apart=True))
    last = [int(curve[-1]) for curve in (memory.requested, memory.allocated, memory.active, memory.reserved)]
    assert tuple(last) == machine.figures()
    assert np.all(trace.events["time"] == 0)
