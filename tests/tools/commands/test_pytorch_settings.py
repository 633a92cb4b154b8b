"""``advise`` tries what PyTorch's own allocator can be told, and prints the line to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cuplug.tools.analysis.pytorch_settings import as_environment, levers, needs_a_limit, selection_of

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of, split_for_small_blocks


@pytest.mark.parametrize(
    ("selection", "line"),
    [
        ("caching:preset=torch,max_split_size=128MiB", "PYTORCH_ALLOC_CONF=max_split_size_mb:128"),
        (
            "caching:preset=torch,max_split_size=512MiB,roundup_power2_divisions=8",
            "PYTORCH_ALLOC_CONF=max_split_size_mb:512,roundup_power2_divisions:8",
        ),
        ("expandable:preset=torch", "PYTORCH_ALLOC_CONF=expandable_segments:True"),
        (
            "expandable:preset=torch,roundup_power2_divisions=8",
            "PYTORCH_ALLOC_CONF=expandable_segments:True,roundup_power2_divisions:8",
        ),
        ("caching:preset=torch", ""),
        ("caching:max_split_size=128MiB", ""),
        ("expandable", ""),
    ],
)
def test_a_selection_is_the_line_that_sets_the_same_in_pytorch(selection: str, line: str) -> None:
    assert as_environment(selection) == line


@pytest.mark.parametrize(
    ("settings", "selection"),
    [
        ({}, "caching:preset=torch"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": "False"}, "caching:preset=torch"),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:True"}, "expandable:preset=torch"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": "True"}, "expandable:preset=torch"),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512, roundup_power2_divisions:8"},
            "caching:preset=torch,max_split_size=512MiB,roundup_power2_divisions=8",
        ),
        ({"garbage_collection_threshold": "0.6"}, "caching:preset=torch,garbage_collection_threshold=0.6"),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "pinned_use_cuda_host_register:True,roundup_power2_divisions:[256:1,>:8]"},
            "caching:preset=torch",
        ),
    ],
)
def test_the_settings_of_a_snapshot_are_a_selection(settings: dict[str, str], selection: str) -> None:
    assert selection_of(settings) == selection


def test_a_setting_that_saves_memory_is_printed_to_be_set(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "split.pickle", split_for_small_blocks())
    told = json.loads(command("advise", path, "--json").stdout)
    rows = {row["allocator"]: row["peak_reserved_bytes"] for row in told["tried"]}
    assert set(levers(None)) <= set(rows)
    assert rows["caching:preset=torch"] == 1200 * MIB
    assert rows["expandable:preset=torch"] == 900 * MIB
    assert told["pytorch"] == "PYTORCH_ALLOC_CONF=max_split_size_mb:128"  # as good, for fewer calls of the driver
    text = " ".join(command("advise", path).stdout.split())
    assert f"with {told['pytorch']} (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF) it would reserve" in text


def test_the_settings_of_the_snapshot_are_shown(command: Command, tmp_path: Path) -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
    path = saved(tmp_path / "split.pickle", split_for_small_blocks(settings))
    assert "recorded with PyTorch's settings max_split_size_mb:64" in command("advise", path).stdout


def test_the_base_line_has_the_settings_of_the_snapshot(command: Command, tmp_path: Path) -> None:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}
    path = saved(tmp_path / "split.pickle", split_for_small_blocks(settings))
    text = " ".join(command("advise", path).stdout.split())
    assert "PyTorch's own allocator as it was set (expandable_segments:True) reserves 900.00 MiB; none of its" in text


def test_a_trace_of_cuplugs_own_tries_none_of_them(command: Command, small_trace: Path) -> None:
    assert "pytorch" not in json.loads(command("advise", small_trace, "--json").stdout)


GC_ALONE = {"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.3"}
GC_AND_FRACTION = {"PYTORCH_ALLOC_CONF": "garbage_collection_threshold:0.3,per_process_memory_fraction:0.5"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (GC_ALONE, "set_per_process_memory_fraction sets it, and the file does not tell"),
        (GC_AND_FRACTION, "that is 0.5 of the device's memory, whose size the file does not tell"),
    ],
)
def test_a_threshold_of_a_file_acts_in_no_replay_without_a_limit_and_that_is_said(
    command: Command, tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    made = MadeSnapshot()
    for number, size in enumerate((800, 900)):
        made.reserve(BASE + number * 1024 * MIB, size * MIB)
        made.allocate(BASE + number * 1024 * MIB, size * MIB)
        made.free(BASE + number * 1024 * MIB)
    path = saved(tmp_path / "collected.pickle", snapshot_of(made, settings=settings))
    base = "caching:preset=torch,garbage_collection_threshold=0.3"
    for name in ("replay", "advise", "fit", "compare"):
        words = (name, path, "-a", base) if name != "advise" else (name, path)
        result = command(*words)
        told = " ".join((result.stdout + result.stderr).split())
        assert (
            f"its garbage_collection_threshold:0.3 acts in replays, as in PyTorch, only below a limit ({why})" in told
        )
        assert f"add -a {base},memory_limit=SIZE" in told
    for selection, reserved in ((base, 1700), (f"{base},memory_limit=2000MiB", 900)):
        (one,) = json.loads(command("replay", path, "-a", selection, "--json").stdout)
        assert one["peak_reserved_bytes"] == reserved * MIB


def test_where_a_threshold_helps_what_it_needs_besides_is_said(command: Command, tmp_path: Path) -> None:
    path = saved(tmp_path / "split.pickle", split_for_small_blocks())
    found = json.loads(command("advise", path, "--memory", "2GiB", "--json").stdout)
    tried = {row["allocator"] for row in found["tried"]}
    collecting = f"caching:preset=torch,garbage_collection_threshold=0.8,memory_limit={2 << 30}"
    assert collecting in tried
    assert as_environment(collecting) == "PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8"
    assert "set_per_process_memory_fraction(F), with F below 1" in needs_a_limit(collecting)
    assert needs_a_limit("caching:preset=torch") == ""
    assert needs_a_limit("caching:garbage_collection_threshold=0.8") == ""  # cuplug's own takes the device for a limit
