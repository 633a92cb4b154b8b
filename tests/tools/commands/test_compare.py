"""``cuplug-trace compare`` and ``diff``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import cuplug
import numpy as np
import pytest
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.one_replay import Work, run
from cuplug.tools.reporters.json_fields import JSON_FIELDS

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of

STACKS = Path(__file__).parents[1] / "data" / "resnet_multiscale_stacks.pickle.xz"


@pytest.fixture
def larger(small_trace: Path, tmp_path: Path) -> Path:
    """The same program, where the line that asked for 4000 bytes asks for 6000."""
    trace = load(small_trace)
    trace.events = trace.events.copy()
    trace.events["requested"] = np.where(trace.events["requested"] == 4000, 6000, trace.events["requested"])
    path = tmp_path / "larger.cuplug"
    write_trace(trace, path)
    return path


def test_recorded_and_replayed_stand_side_by_side(command: Command) -> None:
    result = command("compare", STACKS, "-a", "caching:preset=torch", "-a", "direct", "--json", "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    recorded, torch, direct = json.loads(result.stdout)
    assert recorded["allocator"] == ""
    assert recorded["reserved"] == torch["reserved"] == 8_667_529_216
    assert direct["reserved"] < recorded["reserved"]
    assert recorded["requested"] == direct["requested"] == 6_036_082_576


def test_a_curve_has_the_replays_peak_and_is_in_order_of_time() -> None:
    outcome = run(Work(str(STACKS), "caching", curve=True))
    (curve,) = outcome.curves.values()
    assert max(reserved for _, reserved in curve) == outcome.result.peak_reserved_bytes
    seconds = [moment for moment, _ in curve]
    assert seconds == sorted(seconds)


def test_the_page_holds_every_curve(command: Command, small_trace: Path, larger: Path, tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    result = command("compare", small_trace, larger, "-a", "caching", "-o", path, "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    text = path.read_text()
    for name in ("small, as recorded, device 1", "small, caching, device 0", "larger, caching, device 0"):
        assert name in text
    assert "as recorded" in result.stdout


def test_diff_names_the_line_that_holds_more(command: Command, small_trace: Path, larger: Path) -> None:
    found = json.loads(command("diff", small_trace, larger, "--json").stdout)
    first = found[0]
    changed = {change["what"]: change["after"] - change["before"] for change in first["sites"]}
    assert first["sites"][0]["what"] == "backward (train.py:20)"
    assert changed["backward (train.py:20)"] == 2000
    assert first["peaks"][0] == {"what": "peak requested", "before": 5000, "after": 7000}
    text = command("diff", small_trace, larger).stdout
    assert "+2000" in text
    assert "up to 8.00 KiB" in text


def test_diff_says_which_run_had_no_memory(command: Command, tmp_path: Path) -> None:
    """It ends there, so that it holds less than the other, which is no merit of its own."""
    paths = []
    for failed in (1, 0):
        made = MadeSnapshot()
        made.reserve(BASE, 600 * MIB)
        made.allocate(BASE, 600 * MIB)
        if failed:
            made.entry("oom", 0, 700 * MIB, device_free=90 * MIB)
        paths.append(saved(tmp_path / f"{failed}.pickle", snapshot_of(made)))
    text = command("diff", *paths).stdout
    assert "Requests that failed for lack of memory: 1 before, 0 after." in text
    assert json.loads(command("diff", *paths, "--json").stdout)[0]["failed"]["before"] == 1
    assert "failed" not in command("diff", paths[1], paths[1]).stdout


def test_a_run_does_not_differ_from_itself(command: Command, small_trace: Path) -> None:
    for device in json.loads(command("diff", small_trace, small_trace, "--json").stdout):
        for change in device["peaks"] + device["sites"] + device["sizes"]:
            assert change["before"] == change["after"]


def test_a_missing_file_is_one_line(refused: Callable[..., str], small_trace: Path) -> None:
    assert "does not exist" in refused("diff", small_trace, "nowhere")
    assert "does not exist" in refused("compare", "nowhere")


def test_several_histories_have_a_geometric_mean_for_each_allocator(
    command: Command, small_trace: Path, larger: Path
) -> None:
    result = command("compare", small_trace, larger, "-a", "caching", "-a", "direct", "--json", "--jobs", 1)
    rows = json.loads(result.stdout)
    assert len({row["reserved_over_requested"] for row in rows}) > 3
    for allocator in ("", "caching", "direct"):
        ratios = [row["reserved_over_requested"] for row in rows if row["allocator"] == allocator]
        first, second, mean = ratios
        assert mean == pytest.approx((first * second) ** 0.5)
    means = [row for row in rows if row["trace"] == "geometric mean"]
    assert [row["allocator"] for row in means] == ["", "caching", "direct"]
    assert {row["reserved"] for row in means} == {None}
    text = command("compare", small_trace, larger, "-a", "direct", "--jobs", 1).stdout
    assert re.search(rf"(?m)^geometric mean +direct +{means[2]['reserved_over_requested']:.3f}$", text)


def test_one_history_has_no_mean(command: Command, small_trace: Path) -> None:
    result = command("compare", small_trace, "-a", "direct", "--json", "--jobs", 1)
    assert [row["allocator"] for row in json.loads(result.stdout)] == ["", "direct"]
    assert "geometric" not in command("compare", small_trace, "-a", "direct", "--jobs", 1).stdout


def test_an_allocator_that_fails_on_one_history_has_no_mean(command: Command, small_trace: Path, larger: Path) -> None:
    options = ("-a", "bump", "-a", "direct", "-m", "12KiB", "--jobs", 1)
    result = command("compare", small_trace, larger, *options, "--json")
    rows = json.loads(result.stdout)
    assert [bool(row["failure"]) for row in rows if row["allocator"] == "bump" and row["failure"] is not None] == [
        True,
        True,
    ]
    assert [row["allocator"] for row in rows if row["trace"] == "geometric mean"] == ["", "direct"]
    assert "| fails |  |" in command("compare", small_trace, larger, *options, "--markdown").stdout


def test_what_was_recorded_has_no_time_to_compare_with(command: Command, small_trace: Path) -> None:
    recorded, direct = json.loads(command("compare", small_trace, "-a", "direct", "--json", "--jobs", 1).stdout)
    assert (recorded["run_seconds"], recorded["driver_time_share"]) == (None, None)
    assert direct["driver_time_share"] == pytest.approx(direct["driver_time_us"] / 1e6 / direct["run_seconds"])


def test_a_table_in_markdown_has_a_line_for_each_history(command: Command, small_trace: Path, larger: Path) -> None:
    result = command("compare", small_trace, larger, "-a", "direct", "--markdown", "--jobs", 1)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["| history | as recorded | direct | share |", "| --- | ---: | ---: | ---: |"]
    assert re.fullmatch(r"\| small \| [\d.]+ \| [\d.]+ \| [\d.]+ % \|", lines[2])
    assert re.fullmatch(r"\| geometric mean \| \*\*[\d.]+\*\* \| \*\*[\d.]+\*\* \|  \|", lines[4])
    assert f"cuplug {cuplug.__version__}." in lines[-1]


def test_json_and_markdown_exclude_each_other(refused: Callable[..., str], small_trace: Path) -> None:
    assert "--json and --markdown exclude each other" in refused("compare", small_trace, "--json", "--markdown")


@pytest.mark.parametrize("name", ["compare", "replay", "fit"])
def test_pytorchs_own_allocator_has_one_name_in_all_tables(command: Command, name: str) -> None:
    result = command(name, STACKS, "-a", "caching:preset=torch", "--jobs", 1)
    text = " ".join(result.stdout.split())
    assert "PyTorch without settings " in text
    assert text.count("caching:preset=torch") == 1
    assert "PyTorch without settings is -a caching:preset=torch." in text


def test_a_share_of_more_than_all_is_explained(command: Command, small_trace: Path, tmp_path: Path) -> None:
    trace = load(small_trace)
    trace.events = trace.events.copy()
    trace.events["time"] //= 1000
    path = tmp_path / "quick.cuplug"
    write_trace(trace, path)
    for words in (("compare", path), ("replay", path)):
        text = " ".join(command(*words, "-a", "direct", "--jobs", 1).stdout.split())
        assert "would take longer than the whole recorded time" in text
        assert "longer than the whole" not in command(words[0], small_trace, "-a", "direct", "--jobs", 1).stdout


@pytest.mark.parametrize("name", ["compare", "replay", "fit"])
def test_every_field_of_the_json_is_described(command: Command, small_trace: Path, name: str) -> None:
    (first, *_) = json.loads(command(name, small_trace, "-a", "direct", "--json", "--jobs", 1).stdout)
    assert set(first) <= set(JSON_FIELDS[name])
    optional = {"peak_host_bytes", "served", "failure", "note", "on_host"}
    assert set(JSON_FIELDS[name]) - set(first) <= optional
