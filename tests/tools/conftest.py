"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.trace_in_memory import NO_DEVICE
from cuplug.plugins.tracing.writer import TraceWriter

pytest.importorskip("typer")

from cuplug.tools.commands import app
from cuplug.tools.replaying import one_replay
from typer.main import get_command
from typer.testing import CliRunner, Result

made_of = cache(get_command)
Command: TypeAlias = "Callable[..., Result]"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``cuplug-trace`` with the given words, in this process: other ones are started where ``--jobs`` says so.
    Two workers take a second to start, and most commands less than that."""
    for name in ("advise", "compare", "fit", "replay"):
        monkeypatch.setattr(f"cuplug.tools.commands.{name}.default_jobs", lambda: 1)
    # A command keeps the files that it has read, and pytest before 9.2 gives a test that passed and the next one of its
    # name the same folder.
    one_replay._read.cache_clear()
    # Typer's runner makes all commands anew for each call, which takes most of its time.
    monkeypatch.setattr("typer.testing._get_command", made_of, raising=False)
    # Older versions mix the two outputs unless told not to; newer ones have no such option.
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}

    def run(*words: object) -> Result:
        return CliRunner(**apart).invoke(app, [str(word) for word in words], prog_name="cuplug-trace")

    return run


@pytest.fixture
def refused(command: Command) -> Callable[..., str]:
    """Runs a command that must be refused: status 2, nothing on standard output, one line on standard error."""

    def run(*words: object) -> str:
        result = command(*words)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("cuplug-trace: ")
        return lines[0].removeprefix("cuplug-trace: ")

    return run


Step: TypeAlias = "tuple[EventKind, int, int, int, int, int]"


@pytest.fixture
def small_trace(tmp_path: Path) -> Path:
    """Two devices, two streams, stacks, a marker, a block that waits for a stream, one that is never freed."""
    path = tmp_path / "small.cuplug"
    writer = TraceWriter(path, {"driver": "sim:devices=2", "argv": ["train.py", "--fast"]})
    writer.describe(allocators={"0": "caching", "1": "direct"})
    thread = writer.thread("MainThread")
    library = ("/usr/lib/python3/site-packages/lib.py", 5, "call")
    first = writer.stack([library, ("train.py", 10, "forward"), ("train.py", 99, "<module>")])
    second = writer.stack([("train.py", 20, "backward"), ("train.py", 99, "<module>")])
    steps: Sequence[tuple[EventKind, int, int, int, int, int, int]] = (
        (EventKind.SEGMENT_RESERVE, 0, 0, 0x10000, 1 << 20, 1 << 20, 0),
        (EventKind.ALLOCATE, 0, 0, 0x10000, 1024, 1000, first),
        (EventKind.ALLOCATE, 0, 5, 0x11000, 4096, 4000, second),
        (EventKind.RECORD_STREAM, 0, 5, 0x10000, 1024, 1000, 0),
        (EventKind.FREE, 0, 0, 0x10000, 1024, 1000, 0),
        (EventKind.MARKER, NO_DEVICE, 0, 0, 0, writer.name("iteration 1"), 0),
        (EventKind.FENCE_PASSED, 0, 0, 0x10000, 1024, 1000, 0),
        (EventKind.ALLOCATE, 0, 0, 0x10000, 512, 500, second),
        (EventKind.FREE, 0, 0, 0x10000, 512, 500, 0),
        (EventKind.OUT_OF_MEMORY, 0, 0, 0, 4096, 1 << 40, 0),
        (EventKind.SEGMENT_RESERVE, 1, 0, 0x90000, 2048, 2048, 0),
        (EventKind.ALLOCATE, 1, 0, 0x90000, 2048, 2000, first),
    )
    for number, (kind, device, stream, address, nbytes, requested, context) in enumerate(steps):
        writer.append(kind, device, 1_000_000 * number, thread, stream, address, nbytes, requested, context)
    writer.close()
    return path
