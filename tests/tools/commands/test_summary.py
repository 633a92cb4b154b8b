"""The summary's figures, from records made by hand and from real histories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.plugins.tracing.writer import TraceWriter, write_trace
from cuplug.runtime.machine.runtime import Runtime
from cuplug.tools.analysis.sites import Site
from cuplug.tools.analysis.summarize import SizeClass, summarize
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.demonstration import history

from ..conftest import Command


def test_every_figure_of_a_small_trace(small_trace: Path) -> None:
    summary = summarize(load(small_trace))
    assert summary.events == 12
    assert summary.complete
    first, second = summary.devices
    assert (first.device, second.device) == (0, 1)
    assert (first.allocations, first.frees, first.unknown_frees) == (3, 2, 0)
    assert (first.requested.nbytes, first.requested.seconds) == (5000, 0.002)
    assert (first.allocated.nbytes, first.active.nbytes, first.reserved.nbytes) == (5120, 5120, 1 << 20)
    assert first.driver_calls == {"segment_reserve": 1}
    assert first.sizes == [SizeClass(512, 1, 500), SizeClass(1024, 1, 1000), SizeClass(4096, 1, 4000)]
    assert (first.lifetimes.blocks, first.lifetimes.longest_us) == (2, 3000.0)
    assert [(use.stream, use.allocations, use.peak_bytes, use.used_by_others) for use in first.streams] == [
        (0, 2, 1000, 0),
        (5, 1, 4000, 1),
    ]
    assert (first.live_blocks, first.live_bytes) == (1, 4000)
    assert [(failed.requested, failed.free) for failed in first.out_of_memory] == [(1 << 40, 4096)]
    assert first.fragmentation.at_peak_reserved == 1 - 5120 / (1 << 20)
    assert second.fragmentation.at_peak_reserved == 0
    assert (second.live_blocks, second.reserved.nbytes) == (1, 2048)


def test_call_sites_are_the_programs_own_lines(small_trace: Path) -> None:
    device = summarize(load(small_trace)).devices[0]
    assert device.sites_at_peak == [Site("backward (train.py:20)", 1, 4000), Site("forward (train.py:10)", 1, 1000)]
    assert device.sites_of_live == [Site("backward (train.py:20)", 1, 4000)]


def test_one_device_and_the_top_site_can_be_asked_for(small_trace: Path) -> None:
    summary = summarize(load(small_trace), device=0, top=1)
    assert [device.device for device in summary.devices] == [0]
    assert len(summary.devices[0].sites_at_peak) == 1


def test_a_real_history_has_the_peaks_that_pytorch_reported() -> None:
    """Requested and reserved peaks as PyTorch's own statistics gave them when the history was recorded."""
    device = summarize(history()).devices[0]
    assert device.requested.nbytes == 6_036_082_576
    assert device.reserved.nbytes == 8_667_529_216
    assert (device.allocations, device.frees) == (16_841, 16_838)


def test_the_table_shows_the_figures(command: Command, small_trace: Path) -> None:
    result = command("summary", small_trace)
    assert result.exit_code == 0
    assert result.stderr == ""
    for expected in (
        "program   train.py --fast",
        "driver sim:devices=2",
        "Device 0, allocator caching",
        "Device 1, allocator direct",
        "backward (train.py:20)",
        "3, 2 freed",
        "1 blocks, 4000 bytes",
        "out of memory at 0.009000 s: 1099511627776 bytes asked for on stream 0x0, 4096 free on the device",
    ):
        assert expected in result.stdout
    assert any(line.split()[:5] == ["requested", "by", "the", "program", "5000"] for line in result.stdout.splitlines())


def test_json_is_one_object_with_the_same_figures(command: Command, small_trace: Path) -> None:
    result = command("summary", "--json", "--device", 1, small_trace)
    found = json.loads(result.stdout)
    assert found["driver"] == "sim:devices=2"
    assert [device["requested"]["nbytes"] for device in found["devices"]] == [2000]


def test_a_snapshot_is_summarised_too(command: Command) -> None:
    result = command("summary", Path(__file__).parents[3] / "tools" / "data" / "resnet_multiscale.pickle.xz")
    assert result.exit_code == 0
    assert "a PyTorch memory snapshot" in result.stdout
    assert "8667529216" in result.stdout


def test_a_cut_off_trace_is_summarised_and_said_to_be_incomplete(command: Command, small_trace: Path) -> None:
    small_trace.write_bytes(small_trace.read_bytes()[:-50])
    result = command("summary", small_trace)
    assert result.exit_code == 0
    assert "cut off" in result.stdout


@pytest.mark.parametrize("content", [b"", b"x", b"import this\n", b"\x89CUPLUG\n\x02\x00\x00\x00" + bytes(100)])
def test_a_file_that_is_no_trace_gives_one_line(refused: Callable[..., str], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "odd").write_bytes(content)
    assert str(tmp_path / "odd") in refused("summary", tmp_path / "odd")


def test_wrong_words_give_one_line(refused: Callable[..., str], small_trace: Path) -> None:
    assert "does not exist" in refused("summary", "/nowhere")
    assert "no events of device 7; it has of: 0, 1" in refused("summary", small_trace, "--device", 7)
    assert "FILE" in refused("summary")
    assert "--bogus" in refused("summary", "--bogus", small_trace)
    assert "--top" in refused("summary", "--top", "many", small_trace)
    assert "bogus" in refused("bogus")


def test_what_the_runtime_frees_while_it_closes_the_program_never_freed(tmp_path: Path) -> None:
    with Runtime(allocator="caching", driver="sim:memory=1GiB", trace=tmp_path / "t.cuplug") as runtime:
        kept = runtime.allocator(0).allocate(1000, stream=0)
        runtime.allocator(0).free(runtime.allocator(0).allocate(3000, stream=0))
    device = summarize(load(tmp_path / "t.cuplug")).devices[0]
    assert (device.frees, device.live_blocks, device.live_bytes) == (1, 1, 1000)
    assert device.lifetimes.blocks == 1
    assert kept.requested == 1000


def test_a_summary_says_when_call_stacks_are_missing_and_how_to_have_them(
    command: Command, small_trace: Path, tmp_path: Path
) -> None:
    assert "which lines asked" not in command("summary", small_trace).stdout
    bare = tmp_path / "bare.cuplug"
    writer = TraceWriter(bare, {})
    writer.append(EventKind.ALLOCATE, 0, 0, 0, 0, 0x1000, 512, 500, 0)
    writer.close()
    told = command("summary", bare).stdout
    assert "which lines asked for memory is not known. Record with --stacks python." in told


@pytest.mark.parametrize(("times", "said"), [(2, True), (1, False)])
def test_blocks_much_larger_than_what_was_asked_for_are_told_apart_from_unused_memory(
    command: Command, small_trace: Path, times: int, said: bool
) -> None:
    trace = read_trace(small_trace)
    trace.events["requested"][trace.events["kind"] == EventKind.ALLOCATE] //= times
    write_trace(trace, small_trace)
    text = " ".join(command("summary", small_trace).stdout.split())
    assert ("reserved for 1 requested: blocks are rounded up to 2.05 times what was requested" in text) == said
    assert ("blocks are rounded up" in text) == said
