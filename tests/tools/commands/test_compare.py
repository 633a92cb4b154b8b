"""``cuplug-trace compare`` and ``diff``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.one_replay import Work, run

from ..conftest import Command

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


def test_a_run_does_not_differ_from_itself(command: Command, small_trace: Path) -> None:
    for device in json.loads(command("diff", small_trace, small_trace, "--json").stdout):
        for change in device["peaks"] + device["sites"] + device["sizes"]:
            assert change["before"] == change["after"]


def test_a_missing_file_is_one_line(refused: Callable[..., str], small_trace: Path) -> None:
    assert "does not exist" in refused("diff", small_trace, "nowhere")
    assert "does not exist" in refused("compare", "nowhere")
