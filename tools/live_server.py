"""A small web server for what ``watch`` knows: a page, its figures as JSON, and Prometheus' text format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .console import UsageError

__all__ = ["LOOPBACK", "LiveServer"]

LOOPBACK = "127.0.0.1"
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
Pages = Mapping[str, tuple[str, Callable[[], str]]]


class LiveServer:
    """Serves pages on a thread of its own, until ``close``.

    On loopback it answers only those who call it by a loopback name: a page of somebody else's, whose name was made to
    lead here, learns nothing.
    """

    def __init__(self, host: str, port: int, pages: Pages) -> None:
        """Listen.

        Args:
            host: the address to listen at.
            port: the port; 0 for any that is free.
            pages: by path, the type of the content, and what makes it.

        Raises:
            UsageError: that address cannot be had.
        """
        only_own = host in (LOOPBACK, "localhost", "::1")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.headers.get("Host", "")
                found = pages.get(self.path.partition("?")[0])
                if only_own and name.rpartition(":")[0] not in _OWN_NAMES and name not in _OWN_NAMES:
                    self.send_error(403, "this server answers on loopback only")
                elif found is None:
                    self.send_error(404)
                else:
                    kind, make = found
                    data = make().encode()
                    self.send_response(200)
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
