"""What lies on the host for want of room is told: by a warning, by figures and maps, and by a trace's summary."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from cuplug.plugins.tracing.reader import read_trace
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.device import device
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.memory_moves import move
from cuplug.runtime.memory.memory_sleep import memory_tag
from cuplug.runtime.memory.memory_stats import memory_snapshot, memory_stats, memory_summary
from cuplug.tools.analysis.live_state import now
from cuplug.tools.analysis.report_data import pack
from cuplug.tools.analysis.segment_spans import segment_spans
from cuplug.tools.analysis.summarize import Moved, summarize
from cuplug.tools.replaying.beside_device import fit_on_host
from cuplug.tools.reporters.live_html import Watched, metrics, state_json
from cuplug.tools.reporters.live_text import live_view
from cuplug.tools.reporters.report_html import shown_devices, write_report
from cuplug.tools.reporters.summary_text import print_summary
from rich.console import Console

from ..conftest import Command

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


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Three blocks of 20 MiB on a device of 32 MiB: two lie on the host, of which one is freed and given back."""
    runtime = Runtime("expandable:host=64MiB", SimDriver(memory=32 * MIB), tmp_path / "run.cuplug")
    with pytest.warns(RuntimeWarning, match="no room"):
        buffers = [runtime.alloc(20 * MIB) for _ in range(3)]
    buffers.pop().close()
    runtime.allocator(0).release_cached()
    (tmp_path / "held.cuplug").write_bytes((tmp_path / "run.cuplug").read_bytes())
    del buffers
    runtime.close()
    return tmp_path / "held.cuplug"


def test_what_moved_is_told_by_the_summary_and_the_report(tmp_path: Path) -> None:
    runtime = Runtime("expandable:host=64MiB", SimDriver(memory=32 * MIB), tmp_path / "run.cuplug")
    with memory_tag("states"):
        buffer = runtime.alloc(6 * MIB)
    for side in ("host", "device", "host"):
        move("states", side, runtime=runtime)  # type: ignore[arg-type]
    buffer.close()
    runtime.close()
    trace, printed, page = read_trace(tmp_path / "run.cuplug"), io.StringIO(), io.StringIO()
    summary = summarize(trace)
    assert summary.devices[0].moves == [Moved("states", 2, 1, 6 * MIB)]
    print_summary(summary, Console(width=80, file=printed))
    assert "states: 2 times to the host, 1 to the device, at most 6.00 MiB" in " ".join(printed.getvalue().split())
    write_report(shown_devices(trace, "run"), "run", page)
    assert "<td>states</td><td>2</td><td>1</td><td>6.00 MiB</td>" in page.getvalue()


def test_the_report_knows_which_pages_are_the_hosts(recorded: Path) -> None:
    trace = read_trace(recorded)
    spans = segment_spans(trace.events)
    assert int(spans["nbytes"][spans["host"]].sum()) == 40 * MIB
    assert int(spans["nbytes"][~spans["host"]].sum()) == 20 * MIB
    meta = pack(trace, 0).meta
    assert meta["pages_created"]
    assert ["segment_kind", "u4", len(spans)] in meta["overview"]


def test_watch_tells_how_much_stands_on_the_host_now_and_at_most(recorded: Path) -> None:
    devices = now(read_trace(recorded), top=3)
    (device,) = devices
    assert (device.on_host, device.peak_on_host) == (20 * MIB, 40 * MIB)
    assert "of it, of the host" in live_view("run", devices, 100).plain
    watched = Watched("run", running=True, devices=devices)
    assert f'cuplug_host_bytes{{device="0"}} {20 * MIB}' in metrics(watched)
    assert json.loads(state_json(watched))["devices"][0]["peak_on_host"] == 40 * MIB


def test_what_a_device_is_too_small_for_fits_with_so_much_of_the_host(recorded: Path, command: Command) -> None:
    found = fit_on_host(str(recorded), 32 * MIB, 0)
    assert (found.host, found.allocator, found.failure) == (40 * MIB, "expandable:host=64MiB", "")
    said = "With 40.00 MiB on the host it fits on 32.00 MiB: expandable:host=64MiB."
    fitted = command("fit", recorded, "-a", "expandable", "--memory", "32MiB", "--jobs", 1)
    assert said in " ".join(fitted.stdout.split())
    assert fitted.exit_code == 0
    advised = command("advise", recorded, "--memory", "32MiB", "--jobs", 1)
    assert said in " ".join(advised.stdout.split())
    told = json.loads(command("advise", recorded, "--memory", "32MiB", "--json", "--jobs", 1).stdout)
    assert told["on_host"]["allocator"] == "expandable:host=64MiB"
    enough = json.loads(command("fit", recorded, "-a", "expandable", "-m", "64MiB", "--json", "--jobs", 1).stdout)
    assert (enough[-1]["on_host"]["host"], enough[-1]["allocator"]) == (0, "expandable")


def test_several_gpus_and_processes_share_the_hosts_memory(tmp_path: Path, command: Command) -> None:
    for process, blocks in enumerate((3, 2)):
        runtime = Runtime(
            "expandable:host=64MiB", SimDriver(devices=2, memory=32 * MIB), tmp_path / f"{process}.cuplug"
        )
        buffers = []
        for ordinal in range(2):
            with pytest.warns(RuntimeWarning, match="no room"), device(ordinal, runtime=runtime):
                buffers += [runtime.alloc(20 * MIB) for _ in range(blocks)]
        del buffers
        runtime.close()
    both = [tmp_path / f"{process}.cuplug" for process in range(2)]
    advised = command("advise", both[0], "--memory", "32MiB", "--jobs", 1)
    said = "With 80.00 MiB on the host for all 2 together, it fits on 32.00 MiB each: expandable:host=64MiB."
    assert said in " ".join(advised.stdout.split())
    fitted = command("fit", *both, "-a", "expandable", "--memory", "32MiB", "--jobs", 1)
    said = "With 120.00 MiB on the host for all 4 together, it fits on 32.00 MiB each: expandable:host=64MiB."
    assert said in " ".join(fitted.stdout.split())
