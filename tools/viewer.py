"""The page of ``cuplug-trace view``: files are dropped on it, and it shows their reports.

Everything stays on this machine. The server answers on loopback alone, to those who know the address's secret part: no
other user's program, and no page from elsewhere that is open in the same browser.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import threading
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from ..plugins.tracing.trace_in_memory import Trace
from .console import UsageError
from .foreign.load import load
from .live_server import LOOPBACK, LiveServer, Pages
from .replaying.comparison import recorded
from .reporters.comparison_html import write_comparison
from .reporters.report_html import shown_devices, write_report

LARGEST = 8 << 30
"""Files of more bytes are refused."""
_HTML = "text/html; charset=utf-8"


class Viewer:
    """Serves the page on a thread of its own, until ``close``."""

    def __init__(self, port: int = 0, histories: Sequence[str] = ()) -> None:
        """Listen on loopback, at ``port`` or, for 0, at any that is free. ``histories`` are files to begin with.

        Raises:
            UsageError: the port cannot be had.
            TraceError: one of the files cannot be read.
        """
        self._root = f"/{secrets.token_urlsafe(16)}/"
        self._folder = TemporaryDirectory(prefix="cuplug-view-")
        self._paths: list[str] = []
        self._making = threading.Lock()
        self._pages: Pages = {self._root: (_HTML, self._first_page)}
        self._server: LiveServer | None = None
        try:
            for path in histories:
                self._show(path)
            takes = {self._root + "files": self._take, self._root + "compare": self._compare}
            self._server = LiveServer(LOOPBACK, port, self._pages, takes, largest=LARGEST)
        except BaseException:
            self.close()
            raise
        self.address = self._server.address.rstrip("/") + self._root

    def close(self) -> None:
        """Stop answering, and forget what was dropped."""
        if self._server is not None:
            self._server.close()
        self._folder.cleanup()

    def _first_page(self) -> str:
        text = (files(__package__) / "data" / "view.html").read_text(encoding="utf-8")
        known = [{"name": Path(path).name, "page": f"{self._root}{at}"} for at, path in enumerate(self._paths)]
        return text.replace("@meta@", json.dumps({"root": self._root, "files": known}).replace("<", "\\u003c"))

    def _take(self, name: str, of: str, file: io.BufferedIOBase, nbytes: int) -> str:  # noqa: ARG002 - of nothing yet
        return json.dumps({"page": self._show(self._keep(name, file, nbytes))})

    def _compare(self, name: str, of: str, file: io.BufferedIOBase, nbytes: int) -> str:
        """Lay the file over the one whose page it was dropped on."""
        if not of.isdecimal() or int(of) >= len(self._paths):
            raise UsageError("the page to compare with is not known any more: open it again")
        path = self._keep(name, file, nbytes)
        load(path)  # what is wrong with it is said before anything is made
        with self._making:
            names = [self._paths[int(of)], path]
            page = io.StringIO()
            write_comparison(names, [recorded(name) for name in names], page)
        return json.dumps({"page": self._serve(page.getvalue(), path)})

    def _keep(self, name: str, file: io.BufferedIOBase, nbytes: int) -> str:
        """Write what is dropped into the folder of this viewer. Its name tells the reader what it may be."""
        place = Path(self._folder.name, str(secrets.token_hex(4)))
        place.mkdir()
        path = place / (re.sub(r"[^\w.()+ -]", "_", Path(name.replace("\\", "/")).name).strip(". ") or "file")
        with path.open("wb") as kept:
            while nbytes > 0:
                part = file.read(min(nbytes, 1 << 20))
                if not part:
                    raise UsageError(f"{name} broke off on its way")
                kept.write(part)
                nbytes -= len(part)
        return str(path)

    def _show(self, path: str) -> str:
        trace = load(path)
        if not trace.devices:
            raise UsageError(f"{Path(path).name} has no events of any device: there is nothing to show")
        with self._making:
            page = self._report(trace, Path(path).name)
        return self._serve(page, path)

    def _report(self, trace: Trace, name: str) -> str:
        page = io.StringIO()
        write_report(
            shown_devices(trace, name), f"Memory of {name}", page, drop=f"{self._root}compare?of={len(self._paths)}"
        )
        return page.getvalue()

    def _serve(self, page: str, path: str) -> str:
        address = f"{self._root}{len(self._paths)}"
        self._paths.append(path)
        self._pages[address] = (_HTML, lambda: page)
        return address
