"""``cuplug-trace view``."""

from __future__ import annotations

import threading
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from ..console import out, progress, say
from ..viewer import Viewer


def view(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Histories to begin with; others are dropped on the page.", metavar="FILE"),
    ] = None,
    port: Annotated[int, typer.Option(help="Where to listen on loopback; 0 for any port.", min=0, metavar="PORT")] = 0,
) -> None:
    """A page on this machine that takes files: drop a snapshot on it, and another on its report to compare them.

    It stays until you press Ctrl-C. Nothing leaves the machine, and nobody else can open it.
    """
    with progress("reading"):
        viewer = Viewer(port, files or [])
    try:
        say(f"open {viewer.address} in a browser; Ctrl-C ends it")
        if out().is_terminal:
            webbrowser.open(viewer.address)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
    finally:
        viewer.close()
