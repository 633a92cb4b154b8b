"""``cuplug-trace watch``: a program at work, seen in a terminal, in a browser and by Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import TraceFollower, read_trace
from cuplug.plugins.tracing.writer import TraceWriter
from cuplug.tools import trace as door
from cuplug.tools.analysis.live_state import LiveState, now

from ..conftest import Command
from .browser import CHROMIUM, Browser

PROGRAM = """
import sys, cuplug
runtime = cuplug.init(driver="sim", trace=sys.argv[1])
kept = [cuplug.cuda.alloc(3 << 20), cuplug.cuda.alloc(1 << 20)]
print("allocated", flush=True)
sys.stdin.readline()
if sys.argv[2] == "killed":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(tmp_path: Path, end: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run.cuplug"), end],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "allocated\n"
    return process


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with start(tmp_path) as process:
        yield process
        process.communicate()


def test_a_follower_reads_each_event_once_and_the_state_is_that_of_the_whole(small_trace: Path, tmp_path: Path) -> None:
    whole = read_trace(small_trace)
    writer = TraceWriter(tmp_path / "growing.cuplug", {})
    follower, state, seen = TraceFollower(writer.path), LiveState(), 0
    for event in whole.events:
        if event["kind"] == EventKind.ALLOCATE:
            writer.stack([("train.py", seen, "forward")])
        writer.extend(np.array([event]))
        assert follower.look() is False
        state.add(follower.trace.events)
        seen += len(follower.trace.events)
    assert seen == len(whole.events)
    assert not follower.trace.complete
    assert not follower.is_abandoned()
    whole.frames, whole.stacks = follower.trace.frames, follower.trace.stacks
    assert state.devices(follower.trace, top=3) == now(whole, top=3)
    writer.close()
    follower.look()
    assert follower.trace.complete
    follower.close()


def test_a_process_is_found_by_its_number(command: Command, running: subprocess.Popen[str]) -> None:
    result = command("watch", "--once", running.pid)
    assert result.exit_code == 0, result.stderr
    assert "run.cuplug: " in result.stdout
    assert "running" in result.stdout
    assert re.search(r"requested +4\.00 MiB +4\.00 MiB", result.stdout)


def test_one_that_was_killed_is_told_from_one_that_runs(command: Command, tmp_path: Path) -> None:
    with start(tmp_path, "killed") as process:
        process.communicate("\n")
    assert "gone without closing its trace" in command("watch", tmp_path / "run.cuplug").stdout


def test_what_is_no_process_or_writes_no_trace_is_one_line(refused: Callable[..., str]) -> None:
    assert "there is no process 4194999, nor a file" in refused("watch", "4194999")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        assert f"process {idle.pid} writes no trace" in refused("watch", idle.pid)
        idle.communicate(b"\n")


def get(address: str, **headers: str) -> str:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        return str(answer.read().decode())


@contextmanager
def serving(file: Path, program: subprocess.Popen[str]) -> Iterator[str]:
    """The address at which a process watches what ``program`` writes. Both end after it, also if a test has failed."""
    words = [sys.executable, door.__file__, "watch", str(file), "--web", "0", "--interval", "0.05"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        errors: IO[str] = server.stderr  # type: ignore[assignment]
        try:
            yield errors.readline().split()[0]
        finally:
            program.communicate("\n")
            status = server.wait(300)
        assert status == 0  # it ends with the program
        server.communicate()


def test_a_page_and_prometheus_get_the_figures_on_loopback_only(tmp_path: Path) -> None:
    with start(tmp_path) as process, serving(tmp_path / "run.cuplug", process) as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
        text = get(address + "metrics")
        assert "# TYPE cuplug_reserved_bytes gauge" in text
        assert re.search(r'(?m)^cuplug_requested_bytes\{device="0"\} 4194304$', text)
        assert re.search(r"(?m)^cuplug_running 1$", text)
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{(\w+="[^"]*",?)+\})? [-+.e\d]+', line), line
        state: Any = json.loads(get(address + "state.json"))
        assert state["running"] is True
        assert state["devices"][0]["requested"] == 4 << 20
        assert "<html" in get(address)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(address + "metrics", Host="elsewhere.example")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(address + "other")


def test_an_address_that_cannot_be_had_is_one_line(refused: Callable[..., str], small_trace: Path) -> None:
    assert "cannot listen at 192.0.2.1:0" in refused("watch", small_trace, "--web", 0, "--host", "192.0.2.1")


def test_a_browser_shows_it_without_errors(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with start(tmp_path) as process, serving(tmp_path / "run.cuplug", process) as address:
        browser = Browser(tmp_path / "profile", 360, 740)
        try:
            browser.open(address, "document.body?.dataset.looks >= 1")
            assert "4.00 MiB" in browser.run("document.getElementById('devices').textContent")
            assert browser.run("document.documentElement.scrollWidth") <= 360
            assert browser.errors == []
        finally:
            browser.close()
