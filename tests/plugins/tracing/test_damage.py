"""Damaged files: every one is read in part or refused in one line, and nothing hangs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load

MUTANTS = 2000


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "t.cuplug"
    writer = TraceWriter(path)
    writer.describe(driver="sim", allocators={"0": "caching"}, devices=[{"ordinal": 0, "name": "x"}])
    thread, name = writer.thread("MainThread"), writer.name("marker")
    stack = writer.stack([("a.py", 1, "f"), ("b.py", 2, "g" * 70)])
    for number in range(20):
        kind = EventKind(number % 12 + 1)
        requested = name if kind is EventKind.MARKER else 100 * number
        writer.append(kind, number % 2, 1000 * number, thread, 0, 512 * (number % 5), 512, requested, stack)
    writer.close()
    return path.read_bytes()


def mutate(data: bytes, choose: random.Random) -> bytes:
    mutant = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 5, 40))):
        at = (
            choose.randrange(len(mutant))
            if choose.random() < 0.3
            else choose.choice((0, 36, 4096)) + choose.randrange(200)
        )
        at %= len(mutant)
        change = choose.randrange(5)
        if change == 0:
            mutant[at] ^= 1 << choose.randrange(8)
        elif change == 1:
            mutant[at] = choose.choice((0, 1, 127, 128, 240, 241, 242, 243, 244, 255))
        elif change == 2:
            mutant[at : at + 8] = choose.randbytes(8)
        elif change == 3:
            del mutant[at : at + choose.randrange(1, 100)]
        else:
            mutant[at:at] = choose.randbytes(choose.randrange(1, 60))
        if not mutant:
            break
    return bytes(mutant)


def load_or_line(path: Path) -> Trace | str:
    try:
        return load(path)
    except TraceError as error:
        return str(error)


def test_mutated_traces_are_read_or_refused_in_one_line(tmp_path: Path, whole: bytes) -> None:
    choose = random.Random(20)
    path = tmp_path / "t.cuplug"
    refused = 0
    for _ in range(MUTANTS):
        path.write_bytes(mutate(whole, choose))
        trace = load_or_line(path)
        if isinstance(trace, str):
            refused += 1
            assert "\n" not in trace
            continue
        summarize(trace)
        for event in trace.events:
            trace.stack(event["context"])
            trace.name(event["requested"])
    assert 0 < refused < MUTANTS


def test_random_bytes_are_refused_in_one_line(tmp_path: Path) -> None:
    choose = random.Random(21)
    path = tmp_path / "t"
    starts = (b"", b"\x80\x04", b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x89CUPLUG\n")
    for number in range(500):
        path.write_bytes(starts[number % 5] + choose.randbytes(choose.randrange(1, 300)))
        with pytest.raises(TraceError) as caught:
            load(path)
        assert "\n" not in str(caught.value)
