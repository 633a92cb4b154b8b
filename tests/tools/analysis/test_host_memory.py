"""What lies on the host for want of room is told: by a warning, by figures and maps, and by a trace's summary."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuplug.plugins.tracing.reader import read_trace
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.memory_stats import memory_snapshot, memory_stats, memory_summary
from cuplug.tools.analysis.summarize import summarize

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

MIB = 1 << 20


def test_warning_figures_map_and_trace_say_how_much_stood_on_the_host(tmp_path: Path) -> None:
    runtime = Runtime("expandable:host=64MiB", SimDriver(memory=32 * MIB), tmp_path / "run.cuplug")
    with pytest.warns(RuntimeWarning, match=r"no room for 20\.00 MiB.*host=") as told:
        buffers = [runtime.alloc(20 * MIB) for _ in range(3)]
    assert [Path(one.filename) for one in told] == [Path(__file__)]
    figures, (device, there, *_) = memory_stats(runtime=runtime), memory_snapshot(runtime=runtime)
    assert (figures["host_bytes.all.current"], figures["host_bytes.all.peak"]) == (40 * MIB, 40 * MIB)
    assert "of it on the host" in memory_summary(runtime=runtime)
    assert {device["host"], there["host"]} == {True, False}
    del buffers
    runtime.close()
    (summary,) = summarize(read_trace(tmp_path / "run.cuplug")).devices
    assert (summary.on_host.nbytes, summary.reserved.nbytes) == (40 * MIB, 60 * MIB)
