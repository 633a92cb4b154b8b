"""``TCPStore``: a table of keys and bytes that one process keeps and all ask over TCP. Ranks find each other by it.

The table is for the ranks of one job. Whoever connects has to show first that it knows the job's token, which the
environment that starts the ranks gives them: it answers a number drawn for this connection with a code made of both
(HMAC, RFC 2104). A stranger costs a thread and a few bytes, for a few seconds at most.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import math
import os
import secrets
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

from ...allocators.errors import CuplugError
from ..tensor.core.tensor_errors import ArgumentError

_REQUEST = struct.Struct("<BIQd")  # what is asked, bytes of the key, bytes of the value, seconds to wait
_ANSWER = struct.Struct("<BQ")  # whether there is one, bytes of it
_SET, _GET, _ADD = range(3)
_MAGIC = b"cuplug-store/2\n"
_LONGEST_KEY, _LONGEST_VALUE, _LONGEST_WAIT = 1 << 12, 1 << 26, 7 * 86400.0
"""Bytes, bytes and seconds of a request at most."""
_TO_SAY_WHO = 10.0
"""Seconds in which whoever connects has to show that it belongs to the job."""
_STRANGERS = 128
"""Connections that have not yet shown it. The next one ends the oldest, so that ranks always get in."""
_TOKENS = ("CUPLUG_JOB_TOKEN", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "PMIX_NAMESPACE")
"""Where the job's token stands: cuplug's own variable, or what torchrun, Slurm and Open MPI give all ranks alike."""
_BETWEEN_ATTEMPTS = 0.05
"""Seconds after which a process asks again whether the store is there: it may have been started first."""


def seconds_of(timeout: Any, default: float) -> float:
    """A time limit, given as ``datetime.timedelta`` or in seconds, in seconds; None means the default.

    Raises:
        ValueError: it is negative or no number.
    """
    if timeout is None:
        return default
    found = float(timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout)
    if math.isnan(found) or found < 0:
        raise ArgumentError(f"a time limit is a number of seconds, not negative, and not {found}")
    return min(found, _LONGEST_WAIT)


def _proof(number: bytes) -> bytes:
    """What shows, for the number that the store drew, that this process knows the job's token."""
    token = next((os.environ[name] for name in _TOKENS if os.environ.get(name)), "")
    return hmac.new(token.encode(), _MAGIC + number, hashlib.sha256).digest()


def received(connection: socket.socket, nbytes: int, end: float | None = None) -> bytes:
    """The next bytes of a connection; all of them by the time ``end`` of ``time.monotonic``, if one is given.

    Raises:
        OSError: it was closed before they came, or they did not come.
    """
    made = bytearray()
    while len(made) < nbytes:
        if end is not None:
            connection.settimeout(max(0.001, end - time.monotonic()))
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
            host_name: of the master, which listens there only; where this machine has no such address, on all of its.
            port: the TCP port; 0 lets the master choose one.
            world_size: as torch's; nobody is waited for.
            is_master: whether this process keeps the table.
            timeout: how long to wait for the master, and for keys: ``datetime.timedelta`` or seconds, 300 by default.

        Raises:
            CuplugError: the port is taken, there is no master, or it serves another job.
            ValueError: the time limit is negative or no number.
        """
        del world_size
        self.timeout = seconds_of(timeout, 300.0)
        self._lock = threading.Lock()
        self._server = _Server(host_name, port) if is_master else None
        self.host, self.port = host_name, port if self._server is None else self._server.port
        self._connection = self._connected()

    def _connected(self) -> socket.socket:
        end = time.monotonic() + self.timeout
        host = self.host if self._server is None else self._server.host
        while True:
            try:
                made = socket.create_connection((host, self.port), timeout=max(0.1, end - time.monotonic()))
                self._introduce(made)
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

    def _introduce(self, connection: socket.socket) -> None:
        """Show that this process belongs to the job.

        Raises:
            OSError: whoever listens there is no store, or it is gone.
            CuplugError: it serves another job.
        """
        greeting = received(connection, len(_MAGIC) + 16)
        if not greeting.startswith(_MAGIC):
            raise ConnectionError("whoever listens there is no store of cuplug's")
        connection.sendall(_proof(greeting[len(_MAGIC) :]))
        if received(connection, 1) != b"\1":
            connection.close()
            self.close()
            raise CuplugError(
                f"the store at {self.host}:{self.port} serves another job: {' or '.join(_TOKENS[:2])} must be the same "
                "for all ranks"
            )

    @property
    def address(self) -> str:
        """This process's own address, as the master's machine sees it."""
        own = str(self._connection.getsockname()[0])
        return self.host if self._server is not None and self._server.everywhere else own

    def set(self, key: str, value: bytes | str) -> None:
        """Write a key, of 4 KiB at most; the value has 64 MiB at most.

        Raises:
            ValueError: it is longer.
            CuplugError: the master is gone.
        """
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
        if len(name) > _LONGEST_KEY or len(value) > _LONGEST_VALUE:
            raise ArgumentError(
                f"a key has {_LONGEST_KEY:,} bytes at most and a value {_LONGEST_VALUE:,}, not {len(name):,} and "
                f"{len(value):,}"
            )
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
        self._connections: dict[socket.socket, None] = {}
        self._strangers: dict[socket.socket, None] = {}
        """Those of them that have not yet shown that they belong to the job, the oldest first."""
        self._closed = False
        self.host, self.everywhere = host, False
        try:
            self._listener = self._listening(host, port)
        except OSError as error:
            raise CuplugError(
                f"rank 0 cannot listen on {host}:{port} ({error.strerror or error}): set MASTER_PORT to a free one; "
                "the other ranks connect to MASTER_ADDR"
            ) from None
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="cuplug-store", daemon=True).start()

    def _listening(self, host: str, port: int) -> socket.socket:
        """A socket that listens at the address of ``host``; at all of this machine's where it has no such address, as
        with a name that leads here through another machine.

        Raises:
            OSError: the port is taken, or there is no such host.
        """
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        try:
            return socket.create_server(address[:2], family=family, backlog=1024)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            self.host, self.everywhere = "localhost", True
            return socket.create_server(("", port), backlog=1024)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._closed or error.errno in (errno.EBADF, errno.EINVAL):
                    return
                time.sleep(_BETWEEN_ATTEMPTS)  # no more files, or the other side has left
                continue
            with self._changed:
                if self._closed:
                    connection.close()
                    return
                if len(self._strangers) >= _STRANGERS:
                    _end(next(iter(self._strangers)))
                self._connections[connection] = self._strangers[connection] = None
            threading.Thread(target=self._serve, args=(connection,), name="cuplug-store", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if not self._belongs(connection):
                return
            while True:
                what, key_bytes, value_bytes, wait = _REQUEST.unpack(received(connection, _REQUEST.size))
                if what > _ADD or key_bytes > _LONGEST_KEY or value_bytes > _LONGEST_VALUE or not 0 <= wait < math.inf:
                    return
                key, value = received(connection, key_bytes), received(connection, value_bytes)
                answer = self._answer(what, key, value, min(wait, _LONGEST_WAIT))
                connection.sendall(_ANSWER.pack(answer is not None, len(answer or b"")) + (answer or b""))
        except (OSError, ValueError):  # it has left; or it adds to what is no number
            return
        finally:
            with self._changed:
                self._connections.pop(connection, None)
                self._strangers.pop(connection, None)
            connection.close()

    def _belongs(self, connection: socket.socket) -> bool:
        """Whether whoever connected shows in time that it belongs to the job.

        Raises:
            OSError: it has left, or takes too long.
        """
        connection.settimeout(_TO_SAY_WHO)
        number = secrets.token_bytes(16)
        connection.sendall(_MAGIC + number)
        right = hmac.compare_digest(received(connection, 32, time.monotonic() + _TO_SAY_WHO), _proof(number))
        connection.sendall(b"\1" if right else b"\0")
        connection.settimeout(None)
        with self._changed:
            self._strangers.pop(connection, None)
        return right

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
            connections = list(self._connections)
            self._changed.notify_all()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._listener.close()
        for each in connections:
            _end(each)


def _end(connection: socket.socket) -> None:
    """Let the thread that serves a connection see its end."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
