"""Mutated files: whatever is in them, reading gives a trace or one TraceError of one line, and what can be read can be
summarised and reduced to a program. CUPLUG_FUZZ sets how many files (for example 100000)."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest
from cuplug.allocators.errors import TraceError
from cuplug.plugins.tracing.trace_in_memory import Trace
from cuplug.tools.analysis.report_data import pack
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.program import decode

FILES = int(os.environ.get("CUPLUG_FUZZ", "600"))


@pytest.fixture
def seeds(small_trace: Path, tmp_path: Path) -> list[bytes]:
    import pickle

    from cuplug.tools.foreign.snapshot_writer import snapshot

    pickled = pickle.dumps(snapshot(load(small_trace)), protocol=4)
    log = b"Thread,Time,Action,Pointer,Size,Stream\n1,1:2:3:4,allocate,0x10,20,0x0\n1,1:2:4:4,free,0x10,20,0x0\n"
    return [small_trace.read_bytes(), pickled, gzip.compress(pickled), log]


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 40))):
        if not changed:
            break
        at = chance.randrange(len(changed))
        how = chance.randrange(5)
        if how == 0:
            changed[at] = chance.randrange(256)
        elif how == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif how == 2:
            del changed[at : at + chance.randrange(1, 64)]
        elif how == 3:
            changed[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 16)))
        else:
            other = chance.randrange(len(changed))
            changed[at : at + 8] = changed[other : other + 8]
    return bytes(changed[: chance.randrange(len(changed) + 1)]) if chance.random() < 0.1 else bytes(changed)


def told_of_a_replay(trace: Trace) -> list[str]:
    """The lines with which a replay of it is refused: it may have a block larger than any device, say."""
    try:
        decode(trace)
    except TraceError as error:
        return str(error).splitlines()
    return []


@pytest.mark.filterwarnings("ignore:.*encountered in.*:RuntimeWarning")
def test_mutated_files_give_a_trace_or_one_line(seeds: list[bytes], tmp_path: Path) -> None:
    chance = random.Random(20250)
    path = tmp_path / "mutated"
    read = 0
    for number in range(FILES):
        path.write_bytes(mutated(seeds[number % len(seeds)], chance))
        try:
            trace = load(path)
        except TraceError as error:
            lines = str(error).splitlines()
        else:
            lines = []
        assert len(lines) <= 1, lines
        if lines:
            continue
        read += 1
        summarize(trace)
        assert len(told_of_a_replay(trace)) <= 1
        for device in trace.devices:
            pack(trace, device)
    assert 0 < read < FILES
