"""``cuplug-trace watch``, which is ``top`` too."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from ...plugins.tracing.reader import TraceFollower
from ..analysis.live_state import LiveState
from ..console import UsageError, out, say
from ..live_server import LOOPBACK, LiveServer
from ..reporters.live_html import Watched, metrics, page, state_json
from ..reporters.live_text import live_view
from .options import OnlyDevice, Top


def watch(
    target: Annotated[
        str,
        typer.Argument(help="A cuplug trace that a program is writing, or the program's number.", metavar="FILE|PID"),
    ],
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05, metavar="SECONDS")] = 1.0,
    count: Top = 10,
    once: Annotated[bool, typer.Option("--once", help="Look once, and print it.")] = False,
    web: Annotated[
        int | None,
        typer.Option(help="Serve a page at this port (0: any), and /metrics for Prometheus.", min=0, metavar="PORT"),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Where to serve it. Other than loopback, everybody who can reach it may read it.", metavar="HOST"
        ),
    ] = LOOPBACK,
    device: OnlyDevice = None,
) -> None:
    """Watch a running program's memory through the trace that it writes, until it ends or you press Ctrl-C.

    Reserved and requested memory, fragmentation, and the lines of the program that hold most, for each device.
    """
    console = out()
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        watched = _Watcher(_trace_of(target), count, device)
        stack.callback(watched.close)
        watched.look()
        if once or (web is None and not console.is_terminal):
            console.print(watched.text(console.width), soft_wrap=True)
            return
        if web is not None:
            pages = {
                "/": ("text/html; charset=utf-8", page),
                "/state.json": ("application/json", lambda: state_json(watched.now)),
                "/metrics": ("text/plain; version=0.0.4; charset=utf-8", lambda: metrics(watched.now)),
            }
            server = LiveServer(host, web, pages)
            stack.callback(server.close)
            say(f"{server.address} shows it, {server.address}metrics is for Prometheus")
        view = None
        if console.is_terminal:
            view = stack.enter_context(Live(watched.text(console.width), console=console, auto_refresh=False))
        while watched.now.running:
            time.sleep(interval)
            watched.look()
            if view is not None:
                view.update(watched.text(console.width), refresh=True)


class _Watcher:
    """What is known now."""

    def __init__(self, file: str, count: int, device: int | None) -> None:
        self._file = file
        self._device = device
        self._count = count
        self._follower = TraceFollower(file)
        self._state = LiveState()
        self._events = 0
        self.now = Watched(file, running=True)

    def look(self) -> None:
        """Read what is new."""
        follower, more = self._follower, True
        gone = follower.is_abandoned()  # before reading: what it wrote last is then read as well
        while more:
            more = follower.look()
            self._state.add(follower.trace.events)
            self._events += len(follower.trace.events)
        ended = follower.ended or gone
        state = "ended" if follower.ended else "gone without closing its trace" if gone else "running"
        state += f"; {follower.trace.note}" if follower.trace.note else ""
        devices = self._state.devices(follower.trace, top=self._count)
        if self._device is not None:
            devices = [one for one in devices if one.device == self._device]
        self.now = Watched(f"{self._file}: {self._events} events, {state}", not ended, devices)

    def close(self) -> None:
        """Let go of the trace."""
        self._follower.close()

    def text(self, width: int) -> Text:
        """What a terminal shows of it."""
        return live_view(self.now.title, self.now.devices, width)


def _trace_of(target: str) -> str:
    """The trace that is meant: a file, or the one that a process has open."""
    if Path(target).exists() or not target.isdecimal():
        if not Path(target).is_file():
            missing = "does not exist" if not Path(target).exists() else "is not a regular file"
            raise UsageError(f"{target} {missing}: start the program with cuplug-trace record -o {target}, then this")
        return target
    folder = Path("/proc", target, "fd")
    if not Path("/proc/self/fd").is_dir():
        raise UsageError(f"this system does not tell which files process {target} has open: name its trace")
    if not folder.is_dir():
        raise UsageError(f"there is no process {target}, nor a file of that name")
    for link in sorted(_open_files(folder)):
        if link.endswith(".cuplug"):
            return link
    raise UsageError(
        f"process {target} writes no trace (*.cuplug): start it with cuplug-trace record, or name the file"
    )


def _open_files(folder: Path) -> list[str]:
    found = []
    try:
        for entry in folder.iterdir():
            with suppress(OSError):
                found.append(os.readlink(entry))
    except OSError as error:
        raise UsageError(f"cannot see which files the process has open: {error.strerror}") from None
    return found
