"""``cuplug-trace top``: the state at the end of a trace that is still being written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.analysis.live_state import now
from cuplug.tools.foreign.load import load

from ..conftest import Command

SECOND = 1_000_000_000


def test_it_follows_a_trace_that_grows(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "growing.cuplug", {})
    writer.append(EventKind.SEGMENT_RESERVE, 0, 0, 0, 0, 0x1000, 4096, 4096, 0)
    for number in range(4):
        writer.append(EventKind.ALLOCATE, 0, number * SECOND // 2, 0, number % 2, 0x1000 + 512 * number, 512, 500, 0)
    (device,) = now(read_trace(writer.path), top=3)
    assert (device.requested, device.peak_requested, device.reserved) == (2000, 2000, 4096)
    assert device.unused == 0.5
    assert device.allocations_per_second == 2  # those of the last second: at 1 s and at 1.5 s
    assert [(one.stream, one.blocks, one.nbytes) for one in device.streams] == [(0, 2, 1000), (1, 2, 1000)]
    writer.append(EventKind.FREE, 0, 2 * SECOND, 0, 0, 0x1000, 512, 500, 0)
    (device,) = now(read_trace(writer.path), top=3)
    assert (device.requested, device.peak_requested) == (1500, 2000)
    writer.close()


def test_call_sites_of_what_is_live_are_named(small_trace: Path) -> None:
    first, _ = now(load(small_trace), top=3)
    assert [(site.where, site.nbytes) for site in first.sites] == [("backward (train.py:20)", 4000)]
    assert first.out_of_memory == 1


def test_without_a_terminal_it_prints_once(command: Command, small_trace: Path) -> None:
    result = command("top", small_trace)
    assert result.exit_code == 0, result.stderr
    assert "12 events, ended" in result.stdout
    assert "backward (train.py:20)" in result.stdout


def test_it_shows_one_device_alone_where_it_is_told_which(command: Command, small_trace: Path) -> None:
    told = command("watch", "--once", "--device", 1, small_trace).stdout
    assert "Device 1" in told
    assert "Device 0" not in told
    assert "Device 0" in command("watch", "--once", small_trace).stdout


def test_a_file_that_is_not_there_is_one_line(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "does not exist: start the program" in refused("top", tmp_path / "none")
