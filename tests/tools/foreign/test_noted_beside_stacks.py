"""What PyTorch notes beside a stack is shown with it: which compiled frame a block is of, and the program's words."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from cuplug.tools.analysis.sites import SiteNames
from cuplug.tools.foreign.load import load

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of


def compiled(tmp_path: Path) -> Path:
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    made.allocate(BASE, 60 * MIB)
    made.entries[-1] |= {"compile_context": "0/1", "user_metadata": "KV cache"}
    made.reserve(BASE + 64 * MIB, 64 * MIB)
    made.allocate(BASE + 64 * MIB, 8 * MIB, ("forward", "/home/u/model.py", 12))
    made.entries[-1] |= {"compile_context": "N/A", "user_metadata": "logits"}
    return saved(tmp_path / "compiled.pickle", snapshot_of(made))


def test_a_block_without_a_stack_is_named_by_what_is_noted_beside_it(tmp_path: Path) -> None:
    trace = load(compiled(tmp_path))
    first, second = (context for context in trace.events["context"].tolist() if context)
    names = SiteNames(trace)
    assert names.of(first) == "compile context 0/1, user metadata KV cache"
    assert names.of(second) == "forward (model.py:12)"
    assert [str(frame) for frame in trace.stack(second)] == ["user metadata logits", "forward (/home/u/model.py:12)"]


def test_it_is_printed_and_comes_back_in_an_export_as_it_was(command: Command, tmp_path: Path) -> None:
    path = compiled(tmp_path)
    assert "compile context 0/1, user metadata KV cache" in " ".join(command("summary", path).stdout.split())
    sites = json.loads(command("summary", path, "--json").stdout)["devices"][0]["sites_at_peak"]
    assert sites[0]["where"] == "compile context 0/1, user metadata KV cache"
    written = tmp_path / "again.pickle"
    command("export", path, "-o", written)
    assert pickle.loads(written.read_bytes())["device_traces"] == pickle.loads(path.read_bytes())["device_traces"]
