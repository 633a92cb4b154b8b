"""``TCPStore``: a table of keys and bytes that one process keeps and all ask over TCP. Ranks find each other by it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

from ...allocators.errors import CuplugError

__all__ = ["TCPStore", "received", "seconds_of"]

_REQUEST = struct.Struct("<BIQd")  # what is asked, bytes of the key, bytes of the value, seconds to wait
_ANSWER = struct.Struct("<BQ")  # whether there is one, bytes of it
_SET, _GET, _ADD = range(3)
_BETWEEN_ATTEMPTS = 0.05
"""Seconds after which a process asks again whether the store is there: it may have been started first."""


def seconds_of(timeout: Any, default: float) -> float:
    """A time limit, given as ``datetime.timedelta`` or in seconds, in seconds; None means the default."""
    if timeout is None:
        return default
    return float(timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout)


def received(connection: socket.socket, nbytes: int) -> bytes:
    """The next bytes of a connection.

    Raises:
        ConnectionError: it was closed before they came.
    """
    made = bytearray()
    while len(made) < nbytes:
        part = connection.recv(nbytes - len(made))
        if not part:
            raise ConnectionError("the connection was closed")
        made += part
    return bytes(made)


class TCPStore:
    """One process's access to the table; of one of them, the master, also the table itself."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = None,
    ) -> None:
        """Serve the table, or connect to it.

        Args:
            host_name: of the master.
            port: the TCP port; 0 lets the master choose one.
            world_size: as torch's; nobody is waited for.
            is_master: whether this process keeps the table.
            timeout: how long to wait for the master, and for keys: ``datetime.timedelta`` or seconds, 300 by default.

        Raises:
            CuplugError: the port is taken, or there is no master.
        """
        del world_size
        self.timeout = seconds_of(timeout, 300.0)
        self._lock = threading.Lock()
        self._server = _Server(host_name, port) if is_master else None
        self.host, self.port = host_name, port if self._server is None else self._server.port
        self._connection = self._connected()

    def _connected(self) -> socket.socket:
        end = time.monotonic() + self.timeout
        host = "localhost" if self._server is not None else self.host
        while True:
            try:
                made = socket.create_connection((host, self.port), timeout=max(0.1, end - time.monotonic()))
            except OSError as error:
                if time.monotonic() + _BETWEEN_ATTEMPTS >= end:
                    self.close()
                    raise CuplugError(
                        f"nobody answers at {self.host}:{self.port} within {self.timeout:g} s ({error}): is rank 0 "
                        "running there, and are MASTER_ADDR and MASTER_PORT the same for all ranks?"
                    ) from None
                threading.Event().wait(_BETWEEN_ATTEMPTS)  # rank 0 may not have begun to listen
            else:
                made.settimeout(None)
                return made

    @property
    def address(self) -> str:
        """This process's own address, as the master's machine sees it."""
        return str(self._connection.getsockname()[0])

    def set(self, key: str, value: bytes | str) -> None:
        """Write a key."""
        self._ask(_SET, key, value.encode() if isinstance(value, str) else value)

    def get(self, key: str) -> bytes:
        """Read a key, once it is written.

        Raises:
            CuplugError: nobody wrote it in time, or the master is gone.
        """
        return self._ask(_GET, key, b"")

    def add(self, key: str, amount: int) -> int:
        """Add to the number at a key, 0 at first, and return the sum."""
        return int(self._ask(_ADD, key, str(amount).encode()))

    def wait(self, keys: list[str]) -> None:
        """Wait until keys are written. Raises as ``get``."""
        for each in keys:
            self.get(each)

    def _ask(self, what: int, key: str, value: bytes) -> bytes:
        name = key.encode()
        with self._lock:
            try:
                request = _REQUEST.pack(what, len(name), len(value), self.timeout)
                self._connection.sendall(request + name + value)
                found, nbytes = _ANSWER.unpack(received(self._connection, _ANSWER.size))
                answer = received(self._connection, nbytes)
            except OSError as error:
                raise CuplugError(
                    f"the store at {self.host}:{self.port} is gone ({error}): rank 0 has ended or died; see its output"
                ) from None
        if not found:
            raise CuplugError(
                f"nobody wrote {key!r} to the store at {self.host}:{self.port} within {self.timeout:g} s: a rank has "
                "not begun, or has ended or died; see the ranks' output"
            )
        return answer

    def close(self) -> None:
        """Disconnect; the master stops to serve. Idempotent."""
        with suppress(AttributeError):
            self._connection.close()
        if self._server is not None:
            self._server.close()


class _Server:
    """Keeps the table. A thread takes connections, and each connection has one."""

    def __init__(self, host: str, port: int) -> None:
        self._table: dict[bytes, bytes] = {}
        self._changed = threading.Condition()
        self._connections: list[socket.socket] = []
        self._closed = False
        try:
            self._listener = socket.create_server(("", port), backlog=512)
        except OSError as error:
            raise CuplugError(
                f"rank 0 cannot listen on port {port} ({error.strerror}): set MASTER_PORT to a free one; "
                f"the other ranks connect to {host}"
            ) from None
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="cuplug-store", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            with self._changed:
                if self._closed:
                    connection.close()
                    return
                self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), name="cuplug-store", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error), connection:
            while True:
                what, key_bytes, value_bytes, wait = _REQUEST.unpack(received(connection, _REQUEST.size))
                if what > _ADD:  # a stranger, who speaks something else
                    return
                key, value = received(connection, key_bytes), received(connection, value_bytes)
                answer = self._answer(what, key, value, wait)
                connection.sendall(_ANSWER.pack(answer is not None, len(answer or b"")) + (answer or b""))

    def _answer(self, what: int, key: bytes, value: bytes, wait: float) -> bytes | None:
        with self._changed:
            if what == _GET:
                self._changed.wait_for(lambda: self._closed or key in self._table, wait)
                return self._table.get(key)
            self._table[key] = value if what == _SET else str(int(self._table.get(key, b"0")) + int(value)).encode()
            self._changed.notify_all()
            return self._table[key] if what == _ADD else b""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            connections, self._connections = self._connections, []
            self._changed.notify_all()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._listener.close()
        for each in connections:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
