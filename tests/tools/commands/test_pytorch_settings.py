"""``advise`` tries what PyTorch's own allocator can be told, and prints the line to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cuplug.tools.analysis.pytorch_settings import as_environment, levers, selection_of

from ..conftest import Command
from ..made_snapshots import MIB, saved, split_for_small_blocks


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
    assert set(levers(limited=False)) <= set(rows)
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
