"""PyTorch's own viewer takes what is exported. Skipped where PyTorch is not installed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from cuplug.tools.foreign.load import load

from ..conftest import Command

viz = pytest.importorskip("torch.cuda._memory_viz")

STACKS = Path(__file__).parents[1] / "data" / "resnet_multiscale_stacks.pickle.xz"


@pytest.fixture(params=["recorded by cuplug", "by PyTorch, from its middle on"])
def exported(
    request: pytest.FixtureRequest, small_trace: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A snapshot that was exported, as PyTorch's functions get it."""
    monkeypatch.setattr(viz, "format_flamegraph", "".join)  # else it fetches a program from the network
    path = small_trace
    if request.param != "recorded by cuplug":
        import lzma

        data = pickle.loads(lzma.decompress(STACKS.read_bytes()))
        data["device_traces"] = [data["device_traces"][0][-5000:]]
        path = tmp_path / "late.pickle"
        path.write_bytes(pickle.dumps(data))
    assert command("export", path, "-o", tmp_path / "out.pickle").exit_code == 0
    return pickle.loads((tmp_path / "out.pickle").read_bytes())


def test_every_function_of_pytorchs_viewer_takes_an_exported_snapshot(exported: Any) -> None:
    reserved = sum(segment["total_size"] for segment in exported["segments"])
    assert viz.Bytes(reserved).__repr__() in viz.segsum(exported)
    assert "active_allocated" in viz.memory(exported, format_flamegraph=str)
    drawn = viz.segments(exported, format_flamegraph=str)
    assert all(f"seg_{segment['address']};" in drawn for segment in exported["segments"])
    assert viz.compare(exported["segments"], exported["segments"], format_flamegraph=str) is not None
    for page in (viz.trace_plot(exported), viz.trace_plot(exported, plot_segments=True), viz.segment_plot(exported)):
        assert "<script" in page
    told = viz.trace({"device_traces": exported["device_traces"], "segments": exported["segments"]})
    assert f"{len(exported['device_traces'][0])} entries" in told


def test_what_pytorch_wrote_comes_back_entry_for_entry(exported: Any, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "again.pickle"
    (tmp_path / "first.pickle").write_bytes(pickle.dumps(exported))
    assert command("export", tmp_path / "first.pickle", "-o", path).exit_code == 0
    assert pickle.loads(path.read_bytes()) == exported
    assert len(load(path).events) == len(load(tmp_path / "first.pickle").events)
