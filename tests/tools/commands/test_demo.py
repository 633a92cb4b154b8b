"""The demo's table is true: its figures are those of the allocators, of the traces, and of the history itself."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from cuplug.plugins.tracing.reader import read_trace
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.replaying.demonstration import LeftOut, bundled_allocators, history, obstacle_to_resets, run_one
from cuplug.tools.reporters.demo_text import print_comparison
from rich.console import Console

from ..conftest import Command

PEAK_REQUESTED = 6_036_082_576


def test_the_demo_compares_every_bundled_allocator_or_says_why_not(command: Command, tmp_path: Path) -> None:
    result = command("demo", "--driver", "sim:memory=140GiB", "--output", tmp_path / "new" / "folder")
    assert result.exit_code == 0, result.output
    assert "bump is left out: at the end of 23 of the 23 iterations" in " ".join(result.stdout.split())
    lines = [re.split(r"\s{2,}", line.strip()) for line in result.stdout.splitlines()]
    shown = [name for name in bundled_allocators() if name != "bump"]
    assert shown in lines
    table = {line[0]: [line[1 + place] for place in range(len(line) - 1)] for line in lines}
    for place, name in enumerate(shown):
        requested, allocated, reserved, calls = (
            int(table[row][place].replace(",", ""))
            for row in ("peak requested, bytes", "peak allocated, bytes", "peak reserved, bytes", "driver calls")
        )
        assert requested == PEAK_REQUESTED
        assert requested <= allocated <= reserved
        device = summarize(read_trace(tmp_path / "new" / "folder" / f"{name}.cuplug")).devices[0]
        assert device.reserved.nbytes == reserved
        assert sum(device.driver_calls.values()) == calls
        assert device.allocations == 16_841
        assert "went wrong" not in result.stdout
        assert str(tmp_path / "new" / "folder" / f"{name}.cuplug") in result.stdout


def test_a_device_that_is_too_small_is_reported(tmp_path: Path) -> None:
    outcome = run_one(history(), "caching", "sim:memory=5GiB", tmp_path, lambda _more: None)
    assert outcome.problem.startswith("event ")
    assert "OutOfMemoryError" in outcome.problem
    text = io.StringIO()
    console = Console(file=text, width=140)
    print_comparison([outcome], [LeftOut("bump", "for a reason")], console)
    shown = text.getvalue()
    assert "caching went wrong: event" in shown
    assert "bump is left out: for a reason." in shown
    assert summarize(read_trace(outcome.trace)).devices[0].out_of_memory


def test_the_same_history_gives_the_same_trace_but_for_times(tmp_path: Path) -> None:
    traces = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run_one(history(), "caching", "sim:memory=140GiB,schedule=random,seed=7", tmp_path / name, lambda _more: None)
        traces.append(read_trace(tmp_path / name / "caching.cuplug"))
    assert len(traces[0].events) > 30_000
    assert traces[0].canonical() == traces[1].canonical()


def test_the_obstacle_is_found_in_the_history_and_not_assumed() -> None:
    trace = history()
    assert "3 blocks that were allocated in it (9.4 to 37.5 MiB" in obstacle_to_resets(trace)
    assert obstacle_to_resets(trace, marker="no such marker") == ""


@pytest.mark.parametrize("output", ["/dev/null/x"])
def test_a_folder_that_cannot_be_made_gives_one_line(command: Command, output: str) -> None:
    result = command("demo", "-d", "sim", "-o", output)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("cuplug-trace: cannot write to /dev/null/x")
    assert len(result.stderr.splitlines()) == 1
