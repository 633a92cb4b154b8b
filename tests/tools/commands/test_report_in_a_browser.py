"""What a browser shows of a report, and what its controls do. Skipped where there is no Chromium.

``CUPLUG_SCREENSHOTS=docs`` writes the documentation's pictures; ``CUPLUG_TEN_MILLION=1`` tries ten million events.
"""

# ruff: noqa: E501 - expressions for the browser stand on one line

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, Frame, Header, Trace
from cuplug.plugins.tracing.writer import write_trace
from cuplug.tools.analysis import report_data
from cuplug.tools.analysis.blocks import curves, find_blocks
from cuplug.tools.foreign.load import load
from cuplug.tools.reporters.report_html import shown_devices, write_report

from ..conftest import Command
from ..made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of
from .browser import CHROMIUM, Browser
from .test_report import STACKS, count_by_line_at_the_peak, written

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
READY = "window.cuplug && (cuplug.ready || cuplug.error)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(STACKS, tmp_path_factory.mktemp("report") / "report.html", "Memory of a ResNet-50")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"), 1280, 900)
    try:
        yield browser
    finally:
        browser.close()


def opened(chromium: Browser, path: Path, width: int = 1280, height: int = 900) -> Browser:
    chromium.errors.clear()
    chromium.requests.clear()
    chromium.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    chromium.open(path, READY)
    assert chromium.run("cuplug.error") is None
    return chromium


@pytest.fixture
def browser(chromium: Browser, page: Path) -> Iterator[Browser]:
    yield opened(chromium, page)
    assert chromium.errors == []  # whatever a test has done


def text(browser: Browser, name: str) -> str:
    return str(browser.run(f"document.getElementById({name!r}).textContent"))


def click(browser: Browser, name: str) -> None:
    browser.run(f"document.getElementById({name!r}).click()")
    drawn(browser)


def enter(browser: Browser, name: str, value: object) -> None:
    browser.run(
        f"(() => {{ const e = document.getElementById({name!r}); if (e.type === 'checkbox') e.checked = {str(bool(value)).lower()};"
        f" else e.value = {str(value)!r}; e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')) }})()"
    )
    drawn(browser)


def drawn(browser: Browser) -> None:
    """Wait until what was asked for is loaded and drawn."""
    for _ in range(2):
        browser.settle()
        browser.run("cuplug.idle()")
    browser.settle()


def key(browser: Browser, name: str) -> None:
    browser.run("document.activeElement.blur()")
    browser.key(name)
    drawn(browser)


def pixels(browser: Browser, name: str) -> Any:
    """How many colours a canvas shows, and a sum that changes with what it shows."""
    return browser.run(
        f"(() => {{ const c = document.getElementById({name!r}), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const seen = new Set(); let sum = 0; for (let i = 0; i < d.length; i += 4) { const v = d[i] | d[i+1] << 8 | d[i+2] << 16;"
        " seen.add(v); sum = (sum * 31 + v) >>> 0 } return [seen.size, sum] })()"
    )


def test_it_asks_nobody_for_anything(browser: Browser) -> None:
    assert all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests)


def test_the_first_screen_is_a_verdict_what_to_do_and_the_picture(browser: Browser) -> None:
    first = browser.run("[...document.querySelectorAll('main section')].slice(0, 2).map((e) => e.innerText)")
    assert "It reserves 1.44 times what it asks for: 8.07 GiB for 5.62 GiB." in first[0]
    assert 1 <= browser.run("document.querySelectorAll('#first-0 li').length") <= 3
    assert first[1].startswith("Memory over time")
    assert browser.run("document.getElementById('timeline-0').getBoundingClientRect().bottom") <= 900
    assert "Try other allocators" not in text(browser, "findings-0")  # it stands first, and once


def test_the_browser_counts_the_same_peak_and_what_is_live_at_it(browser: Browser) -> None:
    peak, lines = count_by_line_at_the_peak()
    key(browser, "p")
    assert browser.run("cuplug.view().peakBytes") == peak
    assert browser.run("cuplug.live.bytes") == peak
    assert f"{peak} bytes" in text(browser, "flame-text")
    found = browser.run(
        "[...document.querySelectorAll('.frame')].map((f) => [f.dataset.name, Number(f.dataset.bytes)])"
    )
    assert ["w_resnet_multiscale (train.py:39)", lines["w_resnet_multiscale (train.py:39)"]] in found


def test_every_event_has_the_figures_of_the_trace(browser: Browser) -> None:
    events = load(STACKS).events
    memory = curves(events, find_blocks(events))
    told = browser.run(
        "(async () => { const out = []; const v = cuplug.view(); for (let n = 0; n < v.events; n += 997) {"
        " const p = await v.chunk(v.chunkOf(n)), i = n - p.first; const l = await v.live(n);"
        " out.push([n, p.requested[i], p.allocated[i], p.active[i], p.reserved[i], p.time[i], l.places.length]) } return out })()"
    )
    assert len(told) > 50
    for at, *figures, seconds, blocks in told:
        assert figures == [memory.requested[at], memory.allocated[at], memory.active[at], memory.reserved[at]]
        assert seconds == pytest.approx((int(events["time"][at]) - int(events["time"][0])) / 1e9, abs=1e-8)
        kinds = events["kind"][: at + 1]
        assert blocks == np.count_nonzero(kinds == EventKind.ALLOCATE) - np.count_nonzero(kinds == EventKind.FREE)


def test_keys_zoom_and_pan_and_y_rescales_to_what_is_in_view(browser: Browser) -> None:
    key(browser, "0")
    whole, most = browser.run("[cuplug.x.end - cuplug.x.start, document.getElementById('timeline-0').most]")
    key(browser, "+")
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(whole / 2)
    before = browser.run("cuplug.x.start")
    key(browser, "ArrowLeft")
    assert browser.run("cuplug.x.start") < before
    key(browser, "ArrowRight")
    assert browser.run("cuplug.x.start") == pytest.approx(before)
    browser.run("cuplug.range(0, 0.05)")
    drawn(browser)
    assert browser.run("document.getElementById('timeline-0').most") < most / 4
    key(browser, "-")
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(0.1)


def test_the_buttons_do_what_the_keys_do(browser: Browser) -> None:
    click(browser, "to-all")
    whole = browser.run("cuplug.x.end - cuplug.x.start")
    click(browser, "zoom-in")
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(whole / 2)
    start = browser.run("cuplug.x.start")
    click(browser, "right")
    assert browser.run("cuplug.x.start") > start
    click(browser, "left")
    assert browser.run("cuplug.x.start") == pytest.approx(start)
    click(browser, "zoom-out")
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(whole)
    click(browser, "to-peak")
    assert browser.run("cuplug.live.event === cuplug.view().peak")


def test_events_are_stepped_through_by_keys_buttons_and_number(browser: Browser) -> None:
    enter(browser, "event", 1000)
    assert text(browser, "event-text").startswith("Event 1000 of 50738")
    before = pixels(browser, "state")
    key(browser, ".")
    key(browser, ".")
    assert browser.run("cuplug.live.event") == 1002
    key(browser, ",")
    assert browser.run("cuplug.live.event") == 1001
    click(browser, "next")
    click(browser, "next")
    click(browser, "previous")
    assert browser.run("cuplug.live.event") == 1002
    key(browser, ">")
    assert browser.run("cuplug.live.event") == 1102
    assert pixels(browser, "state") != before
    assert "live blocks in" in text(browser, "state-text")
    enter(browser, "event", 1)
    assert "allocate 36.75 KiB (37632 bytes requested, 37888 set aside) at 0x7f2461a00000, stream 0x0, torch" in text(
        browser, "event-text"
    )


def test_every_colour_has_a_legend_and_changes_the_pictures(browser: Browser) -> None:
    seen = set()
    for mode in ("site", "module", "phase", "library", "stream", "size", "age"):
        enter(browser, "colour", mode)
        assert browser.run("cuplug.mode()") == mode
        assert browser.run("document.querySelectorAll('#legend .key').length") >= 1
        seen.add((pixels(browser, "timeline-0")[1], pixels(browser, "map")[1]))
    assert len(seen) >= 5  # the library and the stream are one each
    enter(browser, "colour", "module")
    assert "batchnorm" in text(browser, "legend")
    enter(browser, "colour", "site")
    enter(browser, "depth", 1)
    assert "conv" in text(browser, "legend")
    key(browser, "c")
    assert browser.run("cuplug.mode()") == "module"


def test_the_flame_view_zooms_searches_hides_libraries_and_turns_over(browser: Browser) -> None:
    click(browser, "to-peak")
    names = "[...document.querySelectorAll('.frame')].map((f) => f.dataset.name)"
    assert any("site-packages" in name for name in browser.run(names))
    enter(browser, "hide", True)
    assert not any("site-packages" in name for name in browser.run(names))
    enter(browser, "hide", False)
    enter(browser, "inverted", True)
    assert "<module>" not in browser.run("document.querySelectorAll('.frame')[1].dataset.name")
    enter(browser, "inverted", False)
    enter(browser, "flame-search", "batch_norm")
    assert browser.run("document.querySelectorAll('.frame.hit').length") > 0
    assert 'bars have "batch_norm"' in text(browser, "flame-text")
    enter(browser, "flame-search", "")
    browser.run(
        "[...document.querySelectorAll('.frame')].find((f) => f.dataset.name.includes('resnet.py:285')).click()"
    )
    drawn(browser)
    assert browser.run("cuplug.zoomed().length") > 3
    assert (
        browser.run("[...document.querySelectorAll('.frame')].some((f) => f.dataset.name.includes('train.py:35'))")
        is False
    )
    click(browser, "flame-out")
    assert browser.run("cuplug.zoomed().length") == 0
    assert browser.run("document.getElementById('flame-out').disabled")


def test_names_are_whole_where_there_is_room(browser: Browser) -> None:
    assert browser.run(
        "[...document.querySelectorAll('.frame')].every((f) => f.scrollWidth <= f.clientWidth || f.textContent.length * 7 > f.clientWidth)"
    )
    assert browser.run("[...document.querySelectorAll('.key')].every((k) => k.scrollWidth <= k.clientWidth + 1)")


def with_a_frame_of_torchs_own(chromium: Browser, tmp_path: Path) -> Browser:
    """The report of one block, whose stack has a frame that is hidden until every frame is asked for."""
    made = MadeSnapshot()
    made.reserve(BASE, 64 * MIB)
    made.allocate(BASE, MIB, ("torch::unwind::unwind()", "??", 0), ("forward", "/home/u/train.py", 11))
    return opened(chromium, written(saved(tmp_path / "made.pickle", snapshot_of(made)), tmp_path / "made.html", "Made"))


def test_colours_at_a_depth_follow_the_frames_that_are_shown(chromium: Browser, tmp_path: Path) -> None:
    browser = with_a_frame_of_torchs_own(chromium, tmp_path)
    enter(browser, "colour", "site")
    enter(browser, "depth", 1)
    assert text(browser, "legend") == "forward (/home/u/train.py:11)"
    enter(browser, "noise", True)
    assert text(browser, "legend") == "torch::unwind::unwind() (??:0)"
    enter(browser, "noise", False)
    assert text(browser, "legend") == "forward (/home/u/train.py:11)"
    assert text(browser, "found") == ""


def test_search_follows_the_frames_that_are_shown(chromium: Browser, tmp_path: Path) -> None:
    browser = with_a_frame_of_torchs_own(chromium, tmp_path)
    enter(browser, "search", "unwind")
    assert text(browser, "found").startswith("0 of 1 blocks")
    enter(browser, "noise", True)
    assert text(browser, "found").startswith("1 of 1 blocks")
    enter(browser, "noise", False)
    assert text(browser, "found").startswith("0 of 1 blocks")


def test_search_finds_by_every_property_and_counts(browser: Browser) -> None:
    events = load(STACKS).events
    asked = events[events["kind"] == EventKind.ALLOCATE]
    enter(browser, "search", "size>=1MiB")
    large = np.count_nonzero(asked["requested"] >= 1 << 20)
    assert text(browser, "found").startswith(f"{large} of {len(asked)} blocks")
    assert browser.run("cuplug.live.bytes") > browser.run("cuplug.root().bytes") > 0
    before = pixels(browser, "map")
    for words, some in (
        ("train.py:39", True), ("site:train.py:35", True), ("module:conv", True), ("stream:0x0", True), ("library:torch", True),
        ("rank:run", True), ("rank:7", False), ("size<512", True), ("nonsense-that-is-nowhere", False),
        ('train.py:39 size>100MiB', True),
    ):  # fmt: skip
        enter(browser, "search", words)
        assert (int(text(browser, "found").split()[0]) > 0) is some, words
    assert pixels(browser, "map") != before
    enter(browser, "search", "phase:forward")
    assert "blocks" in text(browser, "found")
    enter(browser, "search", "size>much")
    assert text(browser, "found").startswith("Not understood: size>much")
    enter(browser, "search", "")
    assert text(browser, "found") == ""
    key(browser, "/")
    assert browser.run("document.activeElement.id") == "search"


def test_a_block_is_pinned_by_pointer_and_by_keyboard_and_its_stack_copied(browser: Browser) -> None:
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    click(browser, "to-peak")
    browser.run("document.getElementById('timeline-0').scrollIntoView({block: 'center'})")
    x, y = browser.run(
        "(() => { const c = document.getElementById('timeline-0'), r = c.getBoundingClientRect(), s = c.shown;"
        " const px = Math.floor(s.w / 2), [, from, to] = s.columns[px].slice(-3);"
        " return [r.left + s.left + px, r.top + s.h - (from + to) / 2] })()"
    )
    browser.mouse(x, y)
    assert "bytes requested" in text(browser, "tip")
    assert "lifetime" in text(browser, "tip")
    for kind in ("mousePressed", "mouseReleased"):
        browser.mouse(x, y, kind, button="left", clickCount=1)
    drawn(browser)
    assert browser.run("cuplug.pinned() !== null")
    assert "bytes requested" in text(browser, "pinned-text")
    key(browser, "Escape")
    assert browser.run("cuplug.pinned() === null && document.getElementById('pinned').hidden")
    browser.run("document.querySelector('#blocks button').focus()")
    browser.key("Enter")
    drawn(browser)
    assert "train.py:39" in text(browser, "pinned-stack")
    browser.run("document.getElementById('copy').click()")
    browser.run("new Promise((done) => { const at = setInterval(() => { if (document.getElementById('copied').textContent)"
                " { clearInterval(at); done(0) } }, 5) })")  # fmt: skip
    assert text(browser, "copied") == "Copied."
    assert browser.run("cuplug.copied") == text(browser, "pinned-stack")
    click(browser, "to-allocation")
    assert text(browser, "event-text").partition(": ")[2].startswith("allocate")
    click(browser, "to-free")
    assert text(browser, "event-text").partition(": ")[2].startswith("free")
    click(browser, "unpin")
    assert browser.run("document.getElementById('pinned').hidden")


def test_dragging_pans_and_the_wheel_zooms_where_it_is_meant(browser: Browser) -> None:
    browser.run("document.getElementById('map').scrollIntoView({block: 'center'})")
    browser.run("cuplug.range(0.2, 0.4)")
    drawn(browser)
    x, y = browser.run(
        "(() => { const r = document.getElementById('map').getBoundingClientRect(); return [r.left + 300, r.top + 100] })()"
    )
    browser.mouse(x, y, "mousePressed", button="left", clickCount=1)
    browser.mouse(x + 100, y, "mouseMoved", button="left", buttons=1)
    browser.mouse(x + 100, y, "mouseReleased", button="left", clickCount=1)
    drawn(browser)
    assert browser.run("cuplug.x.start") < 0.2
    assert browser.run("cuplug.pinned() === null")
    span = browser.run("cuplug.x.end - cuplug.x.start")
    browser.run("document.activeElement.blur()")
    browser.mouse(x, y, "mouseWheel", deltaX=0, deltaY=-100)
    drawn(browser)
    assert browser.run("cuplug.x.end - cuplug.x.start") == pytest.approx(span)  # the page scrolls
    browser.run(
        "document.getElementById('map').dispatchEvent(new WheelEvent('wheel', {deltaY: -100, ctrlKey: true, cancelable: true}))"
    )
    drawn(browser)
    assert browser.run("cuplug.x.end - cuplug.x.start") < span
    before = browser.run("cuplug.y.end - cuplug.y.start")
    browser.run(
        "document.getElementById('map').dispatchEvent(new WheelEvent('wheel', {deltaY: -100, shiftKey: true, cancelable: true}))"
    )
    drawn(browser)
    assert browser.run("cuplug.y.end - cuplug.y.start") < before


def test_light_and_dark(browser: Browser) -> None:
    before = pixels(browser, "map"), browser.run("getComputedStyle(document.body).backgroundColor")
    key(browser, "d")
    dark = browser.run("document.documentElement.classList.contains('dark')")
    assert (pixels(browser, "map"), browser.run("getComputedStyle(document.body).backgroundColor")) != before
    click(browser, "theme")
    assert browser.run("document.documentElement.classList.contains('dark')") is not dark


def test_all_that_acts_has_a_name_and_can_be_reached_by_keyboard(browser: Browser) -> None:
    tree = browser.call("Accessibility.getFullAXTree")["nodes"]
    acting = {"button", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "image", "img"}
    named = [node for node in tree if node.get("role", {}).get("value") in acting and not node.get("ignored")]
    assert len(named) > 30
    assert [node for node in named if not node.get("name", {}).get("value")] == []
    assert browser.run("[...document.querySelectorAll('canvas, button, input, select')].every((e) => e.tabIndex >= 0)")
    assert "at most" in browser.run("document.getElementById('timeline-0').getAttribute('aria-label')")
    assert browser.run("document.getElementById('event-text').getAttribute('aria-live')") == "polite"


@pytest.mark.parametrize("width", [360, 768, 1280, 1920, 2560])
def test_it_fits_the_width_of_the_screen(chromium: Browser, page: Path, width: int) -> None:
    browser = opened(chromium, page, width, 1000)
    assert browser.run("document.documentElement.scrollWidth") <= width
    outside = "[...document.querySelectorAll('section, button, input, canvas')].filter((e) => e.offsetParent && !e.closest('.wide') && e.getBoundingClientRect().right > innerWidth + 1).length"
    assert browser.run(outside) == 0
    assert pixels(browser, "timeline-0")[0] > 3
    assert browser.errors == []


def test_several_devices_are_chosen_from(chromium: Browser, small_trace: Path, tmp_path: Path) -> None:
    browser = opened(chromium, written(small_trace, tmp_path / "small.html"))
    assert (
        "out of memory: 1.00 TiB more" in (tmp_path / "small.html").read_text()
        or browser.run("cuplug.view().failures[0].requested") == 1 << 40
    )
    enter(browser, "view", 1)
    assert browser.run("cuplug.view().label") == "run, device 1"
    assert "2000 bytes" in text(browser, "flame-text")
    assert browser.run("document.querySelector('[data-view=\"0\"]').hidden")
    assert browser.errors == []


def test_two_runs_are_laid_over_each_other_by_iteration_with_what_changed_first(
    chromium: Browser, command: Command, tmp_path: Path
) -> None:
    paths = [tmp_path / "before.cuplug", tmp_path / "after.cuplug"]
    for path, slow, more in zip(paths, (1, 3), (0, 4096), strict=True):
        write_trace(iterating(slow, more), path)
    result = command("compare", *paths, "-o", tmp_path / "page.html", "-a", "caching", "-j", 1)
    assert result.exit_code == 0, result.stderr
    browser = opened(chromium, tmp_path / "page.html")
    told = text(browser, "changed")
    assert "The runs differ first in iteration 7" in told
    assert "grow (train.py:7): blocks of 8.00 KiB (8192 bytes), 4 before, 3 after" in told
    assert "Iterations begin with the marker 'iteration'." in told
    assert browser.run("cuplug.views.map((v) => v.iterations.length)") == [12, 12]
    assert browser.run("cuplug.x.end") == 11  # what comes before, and ten iterations
    # At the same place of both pictures, both runs are in the same iteration.
    assert browser.run(
        "[0.25, 0.5, 0.9].every((s) => { const [a, b] = cuplug.views.map((v, n) => { const t = document.getElementById('timeline-' + n).shown.at(s);"
        " return v.iterations.findIndex((m) => m > t) }); return a === b })"
    )
    assert browser.run("cuplug.views[1].seconds > 2 * cuplug.views[0].seconds")
    enter(browser, "view", 1)
    assert browser.run("cuplug.view().label") == "after"
    key(browser, "+")
    assert browser.errors == []


def iterating(slow: int, more: int) -> Trace:
    """Ten iterations of four blocks; from the seventh on, one of them is ``more`` bytes larger."""
    rows, now = [], 0
    for number in range(10):
        now += 1000
        rows.append((now, 0, 0, number + 1, 0, 0, 0, 255, EventKind.MARKER))
        for block in range(4):
            size = 8192 + (more if number >= 6 and block == 3 else 0)
            for kind in (EventKind.ALLOCATE, EventKind.FREE):
                now += 500 * slow * (1 + number)
                rows.append((now, 0x1000000 + (block << 16), size, size, 0, 1, 0, 0, kind))
    names = {number + 1: f"iteration {number}" for number in range(10)}
    frames = {1: Frame("train.py", 7, "grow")}
    return Trace(Header(1, {}), np.array(rows, EVENT_DTYPE), names=names, frames=frames, stacks={1: (1,)})


def repeated(history: Trace, count: int) -> Trace:
    """A history again and again, each event a little late, until there are ``count`` events."""
    events = history.events
    body = events[~np.isin(events["kind"], (EventKind.SEGMENT_RESERVE, EventKind.MARKER))]
    blocks = find_blocks(body)
    rest = body[blocks.allocated[blocks.freed < 0]].copy()
    rest["kind"], rest["time"] = EventKind.FREE, body["time"][-1]
    one = np.concatenate([body, rest])
    chance = np.random.default_rng(1)
    parts = [events[events["kind"] == EventKind.SEGMENT_RESERVE].copy()]
    parts[0]["time"] = one["time"][0]
    span = int(one["time"][-1] - one["time"][0]) + 1000
    for number in range(-(-count // len(one))):
        part = one.copy()
        part["time"] = np.maximum.accumulate(part["time"] + number * span + chance.integers(0, 900, len(part)))
        parts.append(part)
    return Trace(
        history.header, np.concatenate(parts)[:count], history.names, history.threads, history.frames, history.stacks
    )


def check_a_long_history(browser: Browser) -> None:
    """That of which more is known than a screen can show: first the largest blocks, then every one where one looks."""
    assert "largest blocks" in text(browser, "exact")
    end = browser.run("cuplug.view().seconds")
    for share in (0.1, 0.5, 0.9):
        browser.run(f"cuplug.range({end * share}, {end * (share + 0.01)})")
        drawn(browser)
        assert text(browser, "exact") == "Shown: every block."
        assert pixels(browser, "map")[0] > 3
    click(browser, "next")
    key(browser, "0")
    assert "largest blocks" in text(browser, "exact")
    enter(browser, "search", "size>=1MiB")
    enter(browser, "search", "")
    assert browser.errors == []


def test_of_a_long_history_the_page_loads_what_is_looked_at(
    chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = load(STACKS)
    monkeypatch.setattr(report_data, "CHUNK", 2000)
    monkeypatch.setattr(report_data, "LARGEST", 3000)
    with (tmp_path / "long.html").open("w") as file:
        write_report(shown_devices(repeated(trace, 150_000), "long"), "long", file)
    browser = opened(chromium, tmp_path / "long.html")
    check_a_long_history(browser)
    assert browser.run("cuplug.view().cache.size") <= 40
    check_a_block_that_outlives_what_is_loaded(browser)


def check_a_block_that_outlives_what_is_loaded(browser: Browser) -> None:
    """When it was freed is known to within the part of the history that holds its free."""
    browser.run("cuplug.range(0, cuplug.view().seconds * 0.01)")
    drawn(browser)
    wrong, count = browser.run(
        "(() => { const v = cuplug.view(), d = v.detail, last = d.first + d.events, wrong = [];"
        " const late = [...d.freed.keys()].filter((b) => d.freed[b] >= last);"
        " for (const b of late) { const k = v.chunkOf(d.freed[b]), never = d.freed[b] >= v.events, next = v.chunks[k + 1];"
        " const ok = never ? d.gone[b] === v.seconds : d.gone[b] >= v.chunks[k].seconds && d.gone[b] <= (next ? next.seconds : v.seconds);"
        " if (!ok) wrong.push([d.freed[b], d.gone[b]]) } return [wrong, late.length] })()"
    )
    assert wrong == []
    assert count > 100
    browser.run("document.getElementById('map').scrollIntoView({block: 'center'})")
    for is_late in (True, False):
        browser.run(
            "(() => { const v = cuplug.view(), d = v.detail, last = d.first + d.events, bytes = (b) => v.o.sort_nbytes[d.sort[b]];"
            f" const asked = (b) => d.freed[b] < v.events && d.freed[b] >= last === {str(is_late).lower()};"
            " const { at, w } = document.getElementById('map').shown, pixels = [...Array(w).keys()];"
            " const inside = (b) => pixels.find((px) => at(px / w) >= d.begun[b] && at((px + 1) / w) < d.gone[b]);"
            " const chosen = [...d.freed.keys()].filter((b) => asked(b) && inside(b) !== undefined).sort((a, b) => bytes(b) - bytes(a))[0];"
            " cuplug.y.start = d.y[chosen]; cuplug.y.end = d.y[chosen] + bytes(chosen); window.chosen = inside(chosen);"
            " cuplug.range(cuplug.x.start, cuplug.x.end) })()"
        )
        drawn(browser)
        x, y = browser.run(
            "(() => { const c = document.getElementById('map'), r = c.getBoundingClientRect(), s = c.shown;"
            " return [r.left + (s.left + chosen + 0.5) / s.ratio, r.top + s.h / 2 / s.ratio] })()"
        )
        browser.mouse(x, y)
        _, lifetime, told = text(browser, "tip").partition("lifetime ")
        assert lifetime
        assert told.startswith("about ") is is_late


@pytest.mark.skipif(not os.environ.get("CUPLUG_TEN_MILLION"), reason="takes a minute: CUPLUG_TEN_MILLION=1")
def test_ten_million_events(chromium: Browser, tmp_path: Path) -> None:
    write_trace(repeated(load(STACKS), 10_000_000), tmp_path / "big.cuplug")
    command = [sys.executable, "-m", "cuplug.tools.trace", "report", "big.cuplug", "-o", "big.html"]
    subprocess.run(command, cwd=tmp_path, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    nbytes = (tmp_path / "big.html").stat().st_size
    print(
        f"{used.ru_utime + used.ru_stime:.1f} s of processor time, {used.ru_maxrss / 1e6:.2f} GB, {nbytes / 1e6:.1f} MB"
    )
    assert used.ru_maxrss * 1024 < 3 << 30
    assert nbytes < 50e6
    browser = opened(chromium, tmp_path / "big.html")
    check_a_long_history(browser)
    print(f"a picture takes {browser.run('cuplug.drawn'):.0f} ms")


@pytest.mark.skipif(not os.environ.get("CUPLUG_SCREENSHOTS"), reason="writes pictures: CUPLUG_SCREENSHOTS=docs")
def test_screenshots_for_the_documentation(
    chromium: Browser, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.environ["CUPLUG_SCREENSHOTS"]).resolve()
    line = [sys.executable, "-m", "cuplug.tools.trace"]  # as the guide has it
    record = ["record", "-a", "caching:preset=torch", "-d", "sim:memory=13GiB", "-o", str(tmp_path / "gpt2.cuplug")]
    program = ["docs/rerun.py", "tests/data/traces/gpt2_varlen.pickle.xz"]
    subprocess.run([*line, *record, *program], cwd=Path(__file__).parents[3], check=False, capture_output=True)
    monkeypatch.chdir(tmp_path)  # the page names the trace as it was named
    browser = opened(chromium, written(Path("gpt2.cuplug"), tmp_path / "gpt2.html", "Memory of gpt2"), 1280, 1080)
    browser.screenshot(folder / "report.png")
    browser = opened(chromium, page, 1280, 560)
    browser.run("document.querySelector('#flame').closest('section').scrollIntoView()")
    browser.settle()
    browser.screenshot(folder / "report-flame.png")


def test_blocks_thinner_than_a_pixel_are_coloured_by_what_most_bytes_are(chromium: Browser, tmp_path: Path) -> None:
    made = MadeSnapshot()
    for number in range(1200):
        kind = number * 7 // 1200  # seven lines of the program, one after the other
        at = BASE + number * 64 * MIB
        made.reserve(at, 46 * MIB)
        made.allocate(at, 45 * MIB, (f"block{kind}", "/home/u/model.py", 10 + kind))
    page = written(saved(tmp_path / "thin.pickle", snapshot_of(made)), tmp_path / "thin.html")
    browser = opened(chromium, page)
    coloured = browser.run(
        "(() => { const c = document.getElementById('timeline-0'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const counts = {}; for (let i = 0; i < d.length; i += 4) { const v = d[i] << 16 | d[i+1] << 8 | d[i+2];"
        " if (d[i+3] === 255) counts[v] = (counts[v] || 0) + 1 } return Object.entries(counts).filter((e) => e[1] > 2000).map((e) => Number(e[0])) })()"
    )
    keys = browser.run("[...document.querySelectorAll('#legend .key')].map((k) => k.textContent)")
    assert sum("model.py" in key for key in keys) == 7
    wanted = {int(colour, 16) for colour in browser.run("CATEGORIES.slice(0, 7).map((c) => c.slice(1))")}
    assert wanted <= set(coloured)
    assert browser.errors == []


def frames(browser: Browser) -> dict[str, int]:
    found = browser.run(
        "[...document.querySelectorAll('.frame')].map((f) => [f.dataset.name, Number(f.dataset.bytes)])"
    )
    return dict(found)


def test_the_flame_view_is_of_what_is_live_asked_for_in_a_range_or_never_freed(
    chromium: Browser, tmp_path: Path
) -> None:
    made = MadeSnapshot()
    for number, (name, nbytes, freed) in enumerate((("load", 30, False), ("forward", 20, True), ("keep", 10, False))):
        made.reserve(BASE + number * 64 * MIB, 64 * MIB)
        made.allocate(BASE + number * 64 * MIB, nbytes * MIB, (name, "/home/u/train.py", 10 + number))
        if freed:
            made.free(BASE + number * 64 * MIB)
    snapshot = saved(tmp_path / "made.pickle", snapshot_of(made))
    browser = opened(chromium, written(snapshot, tmp_path / "made.html", "Made"))
    key(browser, "p")
    live = {"load (/home/u/train.py:10)": 30 * MIB, "forward (/home/u/train.py:11)": 20 * MIB}
    assert frames(browser) == {"all that is live": 50 * MIB, **live}
    enter(browser, "flame-what", "never")
    assert frames(browser) == {
        "all that is never freed": 40 * MIB,
        "load (/home/u/train.py:10)": 30 * MIB,
        "keep (/home/u/train.py:12)": 10 * MIB,
    }
    enter(browser, "flame-what", "range")
    key(browser, "0")
    assert sum(frames(browser).values()) == 2 * 60 * MIB
    browser.run("cuplug.range(0.0002, 0.0004)")
    drawn(browser)
    assert frames(browser) == {
        "all that is asked for in the range": 20 * MIB,
        "forward (/home/u/train.py:11)": 20 * MIB,
    }
    assert browser.errors == []


def lines(browser: Browser) -> list[list[Any]]:
    """The lines of the tree: level, name, bytes, and whether it is open; None where nothing is below it."""
    found = browser.run(
        "[...document.querySelectorAll('#tree [role=treeitem]')].map((e) => [Number(e.ariaLevel), e.dataset.name,"
        " Number(e.dataset.bytes), e.ariaExpanded === null ? null : e.ariaExpanded === 'true'])"
    )
    return list(found)


def test_the_tree_has_the_bytes_of_each_caller_and_is_moved_in_by_keys(chromium: Browser, tmp_path: Path) -> None:
    made = MadeSnapshot()
    path = "/home/u/train.py"
    for number, (name, nbytes) in enumerate((("load", 30), ("forward", 20), ("forward", 6), ("keep", 4))):
        made.reserve(BASE + number * 64 * MIB, 64 * MIB)
        line = {"load": 10, "forward": 20 + number, "keep": 30}[name]
        made.allocate(BASE + number * 64 * MIB, nbytes * MIB, (name, path, line), ("step", path, 5), ("main", path, 1))
    browser = opened(chromium, written(saved(tmp_path / "made.pickle", snapshot_of(made)), tmp_path / "made.html"))
    key(browser, "p")
    key(browser, "t")
    assert browser.run("document.getElementById('flame').hidden && !document.getElementById('tree').hidden")
    callers = [
        [1, "all that is live", 60 * MIB, True],
        [2, f"main ({path}:1)", 60 * MIB, True],
        [3, f"step ({path}:5)", 60 * MIB, True],
    ]
    of_step = [
        [4, f"load ({path}:10)", 30 * MIB, None],
        [4, f"forward ({path}:21)", 20 * MIB, None],
        [4, f"forward ({path}:22)", 6 * MIB, None],
        [4, f"keep ({path}:30)", 4 * MIB, None],
    ]
    assert lines(browser) == [*callers, *of_step]
    assert "50.0 %" in browser.run("document.querySelectorAll('#tree .line')[3].textContent")
    browser.run("document.querySelector('#tree [tabindex=\"0\"]').focus()")
    start = browser.run("cuplug.x.start")
    for name in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        browser.key(name)
    assert lines(browser) == [*callers[:2], [*callers[2][:3], False]]
    assert browser.run("document.activeElement.dataset.name") == f"step ({path}:5)"
    browser.key("ArrowLeft")
    assert browser.run("document.activeElement.dataset.name") == f"main ({path}:1)"
    browser.key("End")
    browser.key("Enter")
    assert len(lines(browser)) == 7
    assert browser.run("cuplug.x.start") == start  # these arrows do not pan the pictures
    browser.run("document.querySelectorAll('#tree .line')[2].click()")
    assert len(lines(browser)) == 3
    click(browser, "next")  # what was closed by hand stays so at other events
    assert len(lines(browser)) == 3
    key(browser, "t")
    assert not browser.run("document.getElementById('flame').hidden")
    assert browser.errors == []


def test_the_tree_opens_on_the_way_to_most_bytes_to_what_is_sought_and_all_beside_a_line(
    chromium: Browser, tmp_path: Path
) -> None:
    made = MadeSnapshot()
    path = "/home/u/train.py"
    for number, (name, nbytes) in enumerate((("conv", 40), ("norm", 9), ("loss", 5), ("loss", 3))):
        made.reserve(BASE + number * 64 * MIB, 64 * MIB)
        made.allocate(
            BASE + number * 64 * MIB,
            nbytes * MIB,
            (name, path, 50 + number),
            (f"of_{name}", path, 10),
            ("main", path, 1),
        )
    page = written(saved(tmp_path / "made.pickle", snapshot_of(made)), tmp_path / "made.html")
    browser = opened(chromium, page, 360, 800)
    enter(browser, "shape", "tree")
    names = [name.partition(" (")[0] for _, name, _, _ in lines(browser)]
    assert names == ["all that is live", "main", "of_conv", "conv", "of_norm", "of_loss"]
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("[...document.querySelectorAll('#tree .line')].every((e) => e.scrollWidth <= e.clientWidth + 1)")
    enter(browser, "flame-search", "loss")
    assert {"loss", "of_loss"} <= {name.partition(" (")[0] for _, name, _, _ in lines(browser)}
    assert "3 of 7 lines have" in text(browser, "flame-text")
    assert browser.run("document.querySelectorAll('#tree .line.hit').length") == 3
    enter(browser, "flame-search", "")
    browser.run("document.querySelectorAll('#tree .line')[4].focus()")
    browser.key("*")
    assert all(opened is not False for *_, opened in lines(browser))
    assert browser.run("document.activeElement.dataset.name").startswith("of_norm")
    enter(browser, "flame-what", "never")
    assert lines(browser)[0][1:3] == ["all that is never freed", 57 * MIB]
    light = browser.run("getComputedStyle(document.querySelector('#tree .line')).color")
    key(browser, "d")
    assert browser.run("getComputedStyle(document.querySelector('#tree .line')).color") != light
    assert browser.errors == []


def test_the_tree_agrees_with_the_bars_of_a_real_run_and_names_the_rest_of_many(
    chromium: Browser, page: Path, tmp_path: Path
) -> None:
    browser = opened(chromium, page)
    key(browser, "p")
    bars = browser.run("[...document.querySelectorAll('.frame')].map((f) => [f.dataset.name, Number(f.dataset.bytes)])")
    enter(browser, "shape", "tree")
    told = [[name, nbytes] for _, name, nbytes, _ in lines(browser)]
    assert len(told) > 8
    wide = [one for one in told if one[1] > told[0][1] / 100]  # the others are too narrow for a bar
    assert len(wide) > 5
    assert [one for one in wide if one not in bars] == []
    made = MadeSnapshot()
    for number in range(130):
        made.reserve(BASE + number * 4 * MIB, 4 * MIB)
        made.allocate(BASE + number * 4 * MIB, 2 * MIB, (f"layer{number}", "/home/u/model.py", number + 1))
    browser = opened(chromium, written(saved(tmp_path / "many.pickle", snapshot_of(made)), tmp_path / "many.html"))
    enter(browser, "shape", "tree")
    assert len(lines(browser)) == 101
    assert browser.run("document.querySelector('#tree .line:last-child').textContent") == "and 30 more, 60.00 MiB"
    assert browser.errors == []
