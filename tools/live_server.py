"""A small web server for what ``watch`` and ``view`` know: pages, figures, and, on loopback, files that are sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..allocators.errors import TraceError
from .console import UsageError

LOOPBACK = "127.0.0.1"
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OWN_HEADER = "X-Cuplug"
"""Only a page from this server sends it: a browser asks first, for a page from elsewhere, and gets no leave."""
Pages = dict[str, tuple[str, Callable[[], str]]]
"""By path, the type of the content, and what makes it. Pages may come while the server runs."""
Taker = Callable[[str, str, BufferedIOBase, int], str]
"""Takes a file: its name, which page it is for, its contents and their bytes. Answers JSON."""


class LiveServer:
    """Serves pages on a thread of its own, until ``close``.

    On loopback it answers only those who call it by a loopback name: a page of somebody else's, whose name was made to
    lead here, learns nothing.
    """

    def __init__(
        self, host: str, port: int, pages: Pages, takes: Mapping[str, Taker] | None = None, *, largest: int = 0
    ) -> None:
        """Listen.

        Args:
            host: the address to listen at.
            port: the port; 0 for any that is free.
            pages: what is shown.
            takes: by path, what takes the files that are sent there; only on loopback.
            largest: files of more bytes are refused.

        Raises:
            UsageError: that address cannot be had.
        """
        only_own = host in (LOOPBACK, "localhost", "::1")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = pages.get(self.path.partition("?")[0])
                if not self.is_own():
                    self.send_error(403, "this server answers on loopback only")
                elif self.path == "/favicon.ico":  # every browser asks, and there is none
                    self.answer(204, "image/x-icon", "")
                elif found is None:
                    self.send_error(404)
                else:
                    kind, make = found
                    self.answer(200, kind, make())

            def do_POST(self) -> None:
                place = urlsplit(self.path)
                take = (takes or {}).get(place.path)
                length = self.headers.get("Content-Length", "")
                if not (only_own and self.is_own() and self.headers.get(_OWN_HEADER)):
                    self.refuse(403, "this server takes files from its own pages only")
                elif take is None:
                    self.refuse(404, "nothing takes files here")
                elif not length.isdecimal() or int(length) > largest:
                    self.refuse(413, f"a file has at most {largest} bytes, and says how many")
                else:
                    asked = {name: values[0] for name, values in parse_qs(place.query).items()}
                    try:
                        told = take(asked.get("name", "file"), asked.get("of", ""), self.rfile, int(length))
                    except (TraceError, UsageError) as error:
                        self.refuse(400, str(error))
                    else:
                        self.answer(200, "application/json", told)

            def is_own(self) -> bool:
                name = self.headers.get("Host", "")
                return not only_own or name.rpartition(":")[0] in _OWN_NAMES or name in _OWN_NAMES

            def refuse(self, status: int, why: str) -> None:
                self.close_connection = True  # what was sent is not read
                self.answer(status, "application/json", json.dumps({"error": why}))

            def answer(self, status: int, kind: str, text: str) -> None:
                data = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing: the terminal shows the figures."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"cannot listen at {host}:{port}: {reason}") from None
        self._server.daemon_threads = True
        self.address = f"http://{host}:{self._server.server_address[1]}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
