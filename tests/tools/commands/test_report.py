"""The report: its figures, its page, and what a browser shows of it."""

from __future__ import annotations

import base64
import json
import lzma
import pickle
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools.analysis.findings import findings
from cuplug.tools.analysis.page_data import pack
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load

from ..conftest import Command
from .browser import CHROMIUM, Browser

STACKS = Path(__file__).parents[1] / "data" / "resnet_multiscale_stacks.pickle.xz"


def columns(meta: dict[str, Any], data: str) -> dict[str, Any]:
    raw, at, found = zlib.decompress(base64.b64decode(data)), 0, {}
    for name, kind, length in meta["columns"]:
        found[name] = np.frombuffer(raw, "<" + kind, length, at)
        at += found[name].nbytes
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
    found = columns(payload.meta, payload.data)
    assert found["requested"].tolist() == [1000, 4000, 500]
    assert found["address"].tolist() == [0x10000, 0x11000, 0x10000]
    assert found["y"].tolist() == [0, 0x1000, 0]
    assert found["from"].tolist() == [1, 2, 6]
    assert found["until"].tolist() == [5, 9, 7]  # the first waits for a stream; the second is never freed
    assert found["segment_nbytes"].tolist() == [1 << 20]
    assert payload.meta["extent"] == 1 << 20
    assert payload.meta["stacks"][0][1] == "forward (train.py:10)"


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


def test_the_page_shows_what_ran_out(small_trace: Path) -> None:
    pytest.importorskip("bokeh")
    from cuplug.tools.reporters.report_page import render_report

    trace = load(small_trace)
    device = summarize(trace, device=0).devices[0]
    assert len(device.out_of_memory) == 1
    page = render_report(trace, device, "small")
    assert "out of memory: 1.00 TiB more" in page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("bokeh")
    from cuplug.tools.reporters.report_page import render_report

    trace = load(STACKS)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(trace, summarize(trace).devices[0], "a title <with> signs"))
    return path


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
    pytest.importorskip("bokeh")
    result = command("report", small_trace, "-o", tmp_path / "out.html")
    assert result.exit_code == 0, result.stderr
    assert "--device" in result.stderr
    assert "device 0" in (tmp_path / "out.html").read_text()
    assert "has no events of device 7" in refused("report", small_trace, "--device", 7)
    assert "cannot write" in refused("report", small_trace, "-o", tmp_path / "no" / "out.html")


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    browser = Browser(tmp_path_factory.mktemp("profile"), 1280, 1500)
    try:
        browser.open(page, "window.cuplug && (cuplug.ready || cuplug.error)")
        yield browser
    finally:
        browser.close()


def test_a_browser_draws_it_without_errors_and_without_asking_anybody(browser: Browser) -> None:
    assert browser.run("cuplug.error") is None
    assert browser.errors == []
    assert all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests)


def test_the_browser_counts_the_same_peak_and_what_is_live_at_it(browser: Browser) -> None:
    peak, lines = count_by_line_at_the_peak()
    browser.key("p")
    assert browser.run("cuplug.curves.requested[cuplug.peak]") == peak
    assert browser.run("cuplug.live.bytes") == peak
    found = browser.run(
        "(() => { const t = cuplug.model('tree').data; return [...t.name].map((n, i) => [n, t.exact[i]]) })()"
    )
    assert ["w_resnet_multiscale (train.py:39)", lines["w_resnet_multiscale (train.py:39)"]] in found


def test_keys_zoom_pan_recolour_and_darken(browser: Browser) -> None:
    browser.key("0")
    whole = browser.run("cuplug.x.end - cuplug.x.start")
    browser.key("+")
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(whole / 2)
    before = browser.run("cuplug.x.start")
    browser.key("ArrowRight")
    assert browser.run("cuplug.x.start") > before
    mode = browser.run("cuplug.mode()")
    browser.key("c")
    assert browser.run("cuplug.mode()") != mode
    dark = browser.run("document.documentElement.classList.contains('dark')")
    browser.key("d")
    assert browser.run("document.documentElement.classList.contains('dark')") != dark
    browser.key("0")
    assert browser.errors == []


def test_the_charts_share_their_time_axis(browser: Browser) -> None:
    assert browser.run(
        "['map', 'fragmentation'].every((n) => cuplug.model(n).x_range === cuplug.model('timeline').x_range)"
    )


def test_pointing_at_a_block_tells_its_size_and_call_stack(browser: Browser) -> None:
    browser.run(
        "(() => { const d = cuplug.d; let b = 0; for (let i = 0; i < d.from.length; i++) "
        "if (d.requested[i] > d.requested[b] && cuplug.meta.stacks[d.context[i]].length) b = i; window.chosen = b;"
        "cuplug.hover((d.time[d.from[b]] + d.time[d.freed[b]]) / 2, d.y[b] + d.nbytes[b] / 2) })()"
    )
    text = browser.run("document.getElementById('tip').textContent")
    assert f"({int(browser.run('cuplug.d.requested[chosen]'))} bytes requested" in text
    assert "train.py" in text
    assert "lifetime" in text


def test_the_address_map_shows_blocks(browser: Browser) -> None:
    colours = browser.run("new Set(cuplug.model('raster').data.image[0]).size")
    assert colours >= 3


@pytest.mark.parametrize("width", [1280, 1920])
def test_it_fits_the_width_of_the_screen(browser: Browser, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_the_meta_data_are_json_that_no_script_ends(page: Path) -> None:
    meta = re.search(r'<script type="application/json" id="meta">(.*?)</script>', page.read_text(), re.DOTALL)
    assert meta
    assert json.loads(meta[1])["device"] == 0
