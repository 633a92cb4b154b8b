"""The report: its figures, and its page. What a browser shows of it: ``test_report_in_a_browser.py``."""

from __future__ import annotations

import base64
import json
import lzma
import pickle
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.analysis import report_data
from cuplug.tools.analysis.blocks import curves, find_blocks
from cuplug.tools.analysis.findings import findings, verdict
from cuplug.tools.analysis.report_data import pack
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load
from cuplug.tools.reporters.report_html import shown_devices, write_report

from ..conftest import Command

STACKS = Path(__file__).parents[1] / "data" / "resnet_multiscale_stacks.pickle.xz"


def columns(shapes: list[list[Any]], data: str) -> dict[str, Any]:
    raw, at, found = zlib.decompress(base64.b64decode(data)), 0, {}
    for name, kind, length in shapes:
        nbytes = int(kind[1]) * length
        part = np.frombuffer(raw, np.uint8, nbytes, at)
        found[name] = (
            (part.reshape(4, -1).T.copy().view("<u4")[:, 0] if length else part.view("<u4"))
            if kind == "u4"
            else part.view("<" + kind)
        )
        at += nbytes
    assert at == len(raw)
    return found


def count_by_line_at_the_peak() -> tuple[int, dict[str, int]]:
    """Straight from the snapshot, in plain Python: the peak, and bytes by the innermost line of train.py."""
    with lzma.open(STACKS) as file:
        (entries, *_) = pickle.load(file)["device_traces"]  # our own file
    live: dict[int, tuple[int, str]] = {}
    held = peak = 0
    at_peak: dict[int, tuple[int, str]] = {}
    for entry in entries:
        if entry["action"] == "alloc":
            own = [f"{f['name']} ({f['filename']}:{f['line']})" for f in entry["frames"] if f["filename"] == "train.py"]
            live[entry["addr"]] = entry["size"], own[0] if own else "no call stack"
            held += entry["size"]
            if held > peak:
                peak, at_peak = held, dict(live)
        elif entry["action"] == "free_requested":
            held -= live.pop(entry["addr"], (0, ""))[0]
    lines: dict[str, int] = {}
    for nbytes, line in at_peak.values():
        lines[line] = lines.get(line, 0) + nbytes
    return peak, lines


def test_the_columns_hold_every_block_and_close_the_gaps_between_addresses(small_trace: Path) -> None:
    payload = pack(load(small_trace), 0)
    (head,), overview = payload.meta["chunks"], columns(payload.meta["overview"], payload.overview)
    chunk = columns(head["columns"], payload.chunks[0])
    sort = chunk["sort"]
    assert overview["sort_requested"][sort].tolist() == [1000, 4000, 500]
    assert overview["sort_nbytes"][sort].tolist() == [1024, 4096, 512]
    assert (chunk["y"] * 512 + chunk["y_low"]).tolist() == [0, 0x1000, 0]
    begun = np.cumsum(chunk["from"])
    freed = begun + chunk["life"]
    assert begun.tolist() == [1, 2, 6]
    # The first waits for a stream; the second is never freed.
    assert (freed.tolist(), (freed + chunk["wait"]).tolist()) == ([4, 9, 7], [5, 9, 7])
    assert overview["segment_nbytes"].tolist() == [1 << 20]
    assert payload.meta["extent"] == 1 << 20
    assert overview["piece_start"].tolist() == [0x10000]
    stack = payload.meta["stacks"][int(overview["sort_stack"][sort[0]])]
    assert payload.meta["frames"][stack[1]] == "forward (train.py:10)"
    assert (np.cumsum(chunk["time"]) * head["tick"]).tolist()[:3] == pytest.approx([0, 1e-3, 2e-3])
    assert payload.meta["markers"] == [[5, 5e-3, "iteration 1"]]
    assert [failure["event"] for failure in payload.meta["failures"]] == [8]


def test_chunks_carry_on_what_is_live_and_give_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(STACKS)
    memory = curves(trace.events, find_blocks(trace.events))
    monkeypatch.setattr(report_data, "CHUNK", 5000)
    payload = pack(trace, 0)
    overview = columns(payload.meta["overview"], payload.overview)
    assert len(payload.chunks) > 5
    seen: dict[int, tuple[int, ...]] = {}
    for head, data in zip(payload.meta["chunks"], payload.chunks, strict=True):
        chunk = columns(head["columns"], data)
        begun = head["first"] + np.cumsum(chunk["from"])
        before = int(memory.requested[head["first"] - 1]) if head["first"] else 0
        assert (
            head["before"][0]
            == before
            == overview["sort_requested"][chunk["carried_sort"]][
                chunk["carried_from"] + chunk["carried_life"] >= head["first"]
            ].sum()
        )
        for prefix, ids, since in (("carried_", chunk["carried_id"], chunk["carried_from"]),
                                   ("", head["block"] + np.arange(len(begun)), begun)):  # fmt: skip
            names = [f"{prefix}{name}" for name in ("life", "wait", "y", "y_low", "sort")]
            for number, *block in zip(
                ids.tolist(), since.tolist(), *(chunk[name].tolist() for name in names), strict=True
            ):
                assert seen.setdefault(number, tuple(block)) == tuple(block)
    assert len(seen) == payload.meta["blocks"]
    assert overview["requested_most"].max() == memory.requested.max()
    assert overview["reserved_most"].max() == memory.reserved.max()


def test_an_allocation_that_failed_is_explained(small_trace: Path) -> None:
    device = summarize(load(small_trace), device=0).devices[0]
    first = findings(device, "x")[0]
    assert first.kind == "bad"
    assert "1.00 TiB were asked for" in first.what
    assert "needs more than there is" in first.do
    assert "backward (train.py:20)" in first.do


def test_fragmentation_is_told_from_a_program_that_needs_more(tmp_path: Path) -> None:
    mib = 1 << 20
    writer = TraceWriter(tmp_path / "oom.cuplug", {})
    writer.append(EventKind.SEGMENT_RESERVE, 0, 0, 0, 0, 1 << 32, 40 * mib, 40 * mib, 0)
    for number in range(4):
        address = (1 << 32) + 10 * mib * number
        writer.append(EventKind.ALLOCATE, 0, 1 + number, 0, 0, address, 10 * mib, 10 * mib, 0)
    for number in (0, 2):
        address = (1 << 32) + 10 * mib * number
        writer.append(EventKind.FREE, 0, 10 + number, 0, 0, address, 10 * mib, 10 * mib, 0)
    writer.append(EventKind.OUT_OF_MEMORY, 0, 20, 0, 0, 0, 4 * mib, 20 * mib, 0)
    writer.close()
    (device,) = summarize(load(writer.path)).devices
    first = findings(device, "x")[0]
    assert "40.00 MiB were reserved then, of which 20.00 MiB were unused" in first.what
    assert first.do.startswith("It was fragmentation")
    assert first.do.endswith("cuplug-trace advise x --memory 44MiB")
    assert verdict([first]) == (
        "It ran out of memory at 0.000 s, where 20.00 MiB were asked for and 24.00 MiB were free, but in pieces: "
        "fragmentation."
    )


def written(history: Path, path: Path, title: str = "a title <with> signs") -> Path:
    with path.open("w", encoding="utf-8") as file:
        write_report(shown_devices(load(history), "run"), title, file)
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(STACKS, tmp_path_factory.mktemp("report") / "report.html")


def test_the_report_names_the_line_that_holds_most_as_counted_from_the_snapshot(page: Path) -> None:
    peak, lines = count_by_line_at_the_peak()
    line, nbytes = max(lines.items(), key=lambda item: item[1])
    text = page.read_text()
    assert line == "w_resnet_multiscale (train.py:39)"
    assert f"holds {peak} bytes" in text
    assert re.search(
        rf"{nbytes} bytes \(5\.27 GiB, 93\.7%\) of them, in \d+ blocks, were asked for at {re.escape(line)}", text
    )
    for line, nbytes in lines.items():
        assert re.search(rf"<td>{re.escape(line)}</td><td>\d+</td><td>{nbytes}</td>", text), line


def test_the_page_needs_no_network(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", text)
    assert "a title &lt;with&gt; signs" in text


def test_the_command_writes_it_and_says_when_it_cannot(
    command: Command, refused: Callable[..., str], small_trace: Path, tmp_path: Path
) -> None:
    result = command("report", small_trace, "-o", tmp_path / "out.html")
    assert result.exit_code == 0, result.stderr
    assert '<option value="1">small, device 1' in (tmp_path / "out.html").read_text()
    assert command("report", small_trace, "--device", 1, "-o", tmp_path / "one.html").exit_code == 0
    assert '<option value="1">' not in (tmp_path / "one.html").read_text()
    assert "has no events of device 7" in refused("report", small_trace, "--device", 7)
    assert "cannot write" in refused("report", small_trace, "-o", tmp_path / "no" / "out.html")


def test_the_meta_data_are_json_that_no_script_ends(page: Path) -> None:
    meta = re.search(r'<script type="application/json" id="meta">(.*?)</script>', page.read_text(), re.DOTALL)
    assert meta
    assert json.loads(meta[1])["views"][0]["device"] == 0
