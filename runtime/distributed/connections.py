"""Connections of one rank with all others, over which parts of collectives are exchanged."""

from __future__ import annotations

import secrets
import select
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from ...allocators.errors import CuplugError
from .tcp_store import TCPStore

_HELLO = struct.Struct("<16sI")  # the group's token, the rank that connects
_STRANGERS = 256
"""Connections that have not said who they are, beyond which the oldest is ended."""
_HEADER = struct.Struct("<QQ16s")  # the number of the call, the bytes that follow, the name of the collective


class Connections:
    """A TCP connection with each other rank."""

    def __init__(self, store: TCPStore, rank: int, size: int, timeout: float) -> None:
        """Connect with all ranks, which do the same.

        Args:
            store: where ranks find each other's addresses.
            rank: this process's number, from 0.
            size: how many ranks there are.
            timeout: seconds for connecting, and for each collective.

        Raises:
            CuplugError: one does not, in time.
        """
        self.rank, self.size, self.timeout = rank, size, timeout
        self._calls = 0
        self._broken = ""
        self._sockets: dict[int, socket.socket] = {}
        if rank == 0:
            store.set("token", secrets.token_bytes(16))
        token = store.get("token")
        with _listening(store.address) as listener:
            store.set(f"address/{rank}", f"{store.address} {listener.getsockname()[1]}")
            try:
                for other in range(rank):
                    host, port = store.get(f"address/{other}").decode().split()
                    made = socket.create_connection((host, int(port)), timeout=timeout)
                    made.sendall(_HELLO.pack(token, rank))
                    self._sockets[other] = made
                self._accept(listener, token, time.monotonic() + timeout)
            except OSError as error:
                missing = [each for each in range(size) if each != rank and each not in self._sockets]
                self.close()
                raise CuplugError(
                    f"rank {rank} has no connection with ranks {missing} within {timeout:g} s ({error}): they have "
                    "not begun, or have ended or died; see their output"
                ) from None
        for each in self._sockets.values():
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setblocking(False)

    def _accept(self, listener: socket.socket, token: bytes, end: float) -> None:
        """Take the connections of all ranks above this one.

        Who leaves without a word, or does not know the group's token, is a stranger and is forgotten; one who says
        nothing is not waited for.

        Raises:
            TimeoutError: ranks do not come in time.
        """
        expected = set(range(self.rank + 1, self.size))
        listener.setblocking(False)
        said: dict[socket.socket, bytes] = {}
        """What those have said that have not yet said who they are."""
        with selectors.DefaultSelector() as selector, ExitStack() as leaving:
            leaving.callback(_close, said)
            selector.register(listener, selectors.EVENT_READ)
            while expected:
                ready = selector.select(max(0.0, end - time.monotonic()))
                if not ready and time.monotonic() >= end:
                    raise TimeoutError("timed out")
                for key, _ in ready:
                    found = key.fileobj
                    assert isinstance(found, socket.socket)
                    if found is listener:
                        with suppress(BlockingIOError, ConnectionError):  # it has left again before
                            made, _ = listener.accept()
                            made.setblocking(False)
                            if len(said) >= _STRANGERS:  # the oldest that has not said who it is makes room
                                oldest = next(iter(said))
                                said.pop(oldest)
                                selector.unregister(oldest)
                                oldest.close()
                            said[made] = b""
                            selector.register(made, selectors.EVENT_READ)
                        continue
                    part = _heard(found, _HELLO.size - len(said[found]))
                    said[found] += part or b""
                    if part is None or (part and len(said[found]) < _HELLO.size):
                        continue  # the rest is still to come
                    selector.unregister(found)
                    words = said.pop(found)
                    given, rank = _HELLO.unpack(words) if len(words) == _HELLO.size else (b"", -1)
                    if rank in expected and secrets.compare_digest(given, token):
                        expected.remove(rank)
                        self._sockets[rank] = found
                    else:
                        found.close()

    def exchange(self, name: str, outgoing: Mapping[int, Any], incoming: Mapping[int, memoryview]) -> None:
        """Send bytes to ranks and receive bytes from ranks, all at once.

        Args:
            name: of the collective, which is the same for all ranks.
            outgoing: by rank what is sent, as bytes.
            incoming: by rank where to write what comes, whose length is known.

        Raises:
            CuplugError: a rank calls something else, is gone, or does not take part in time. Then this cannot be used
                any more.
        """
        self.raise_if_broken()
        self._calls += 1
        peers = {
            each: _Peer(self._calls, name, outgoing.get(each), incoming.get(each))
            for each in {*outgoing, *incoming} - {self.rank}
        }
        try:
            self._run(name, peers)
        except BaseException as error:
            self.break_off(str(error) or type(error).__name__)
            raise

    def _run(self, name: str, peers: dict[int, _Peer]) -> None:
        end = time.monotonic() + self.timeout
        with selectors.DefaultSelector() as selector:
            for rank, peer in peers.items():
                selector.register(self._sockets[rank], peer.events(), (rank, peer))
            while selector.get_map():
                ready = selector.select(max(0.0, end - time.monotonic()))
                if not ready and time.monotonic() >= end:
                    waiting = sorted(key.data[0] for key in selector.get_map().values())
                    raise CuplugError(
                        f"{name}: rank {self.rank} waited {self.timeout:g} s for ranks {waiting}, which did not take "
                        "part: they have not come so far, or are stuck"
                    )
                for key, events in ready:
                    rank, peer = key.data
                    try:
                        peer.proceed(self._sockets[rank], events, name, rank)
                    except (ConnectionError, OSError) as error:
                        raise CuplugError(
                            f"{name}: the connection of rank {self.rank} with rank {rank} is closed ({error}): that "
                            "rank has ended or died; see its output"
                        ) from None
                    left = peer.events()
                    if left:
                        selector.modify(key.fileobj, left, key.data)
                    else:
                        selector.unregister(key.fileobj)

    def check(self, name: str) -> None:
        """Raise if a rank is gone, where nothing is to be received.

        Raises:
            CuplugError: it is.
        """
        self.raise_if_broken()
        poll = select.poll()
        for each in self._sockets.values():
            poll.register(each, select.POLLIN)
        for number, _ in poll.poll(0):
            rank, found = next((r, s) for r, s in self._sockets.items() if s.fileno() == number)
            if _heard(found, 1, socket.MSG_PEEK) != b"":  # None: the thread that exchanges has read it meanwhile
                continue
            self.break_off(f"{name}: rank {rank} has ended or died; see its output")
            self.raise_if_broken()

    def raise_if_broken(self) -> None:
        """Raise what ended the use of these connections, if something did.

        Raises:
            CuplugError: it did.
        """
        if self._broken:
            raise CuplugError(f"the process group cannot be used any more: {self._broken}")

    def break_off(self, reason: str) -> None:
        """End the connections, so that the other ranks notice."""
        self._broken = self._broken or reason
        self.close()

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._broken = self._broken or "it was closed"
        for each in self._sockets.values():
            each.close()


def _listening(address: str) -> socket.socket:
    """A socket that listens at one of this machine's addresses, or at all of them where it has no such one."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family, backlog=1024)
    except OSError:  # the store is reached through another machine's address
        return socket.create_server(("", 0), backlog=1024)


def _close(connections: Iterable[socket.socket]) -> None:
    for each in connections:
        each.close()


def _heard(connection: socket.socket, nbytes: int, flags: int = 0) -> bytes | None:
    """What a connection says, ``nbytes`` at most: nothing where it has ended, None where nothing has come."""
    try:
        return connection.recv(nbytes, flags)
    except BlockingIOError:
        return None
    except OSError:
        return b""


class _Peer:
    """What one exchange still has to send to a rank and to receive from it."""

    def __init__(self, call: int, name: str, outgoing: Any, incoming: memoryview | None) -> None:
        self._sending: list[memoryview] = []
        if outgoing is not None:
            payload = memoryview(outgoing).cast("B")
            header = _HEADER.pack(call, len(payload), name.encode()[:16])
            self._sending = [memoryview(header), *([payload] if len(payload) else [])]
        self._expected = None if incoming is None else (call, len(incoming), name.encode()[:16].ljust(16, b"\0"))
        self._header = bytearray(_HEADER.size)
        self._receiving: list[memoryview] = [] if incoming is None else [memoryview(self._header), incoming]

    def events(self) -> int:
        """What to wait for."""
        return (selectors.EVENT_WRITE if self._sending else 0) | (selectors.EVENT_READ if self._receiving else 0)

    def proceed(self, connection: socket.socket, events: int, name: str, rank: int) -> None:
        """Send and receive what goes without waiting.

        Raises:
            ConnectionError: the rank has closed its end.
            CuplugError: the rank calls something else.
        """
        if events & selectors.EVENT_WRITE:
            with suppress(BlockingIOError):
                sent = connection.send(self._sending[0])
                self._sending[0] = self._sending[0][sent:]
                if not len(self._sending[0]):
                    self._sending.pop(0)
        if events & selectors.EVENT_READ:
            with suppress(BlockingIOError):
                count = connection.recv_into(self._receiving[0])
                if not count:
                    raise ConnectionError("end of data")
                self._receiving[0] = self._receiving[0][count:]
            while self._receiving and not len(self._receiving[0]):
                self._receiving.pop(0)
                if len(self._receiving) == 1:
                    self._check(name, rank)

    def _check(self, name: str, rank: int) -> None:
        found = _HEADER.unpack(self._header)
        assert self._expected is not None
        if found != self._expected:
            theirs = found[2].rstrip(b"\0").decode(errors="replace")
            raise CuplugError(
                f"{name}: rank {rank} is in its call {found[0]}, {theirs} of {found[1]} bytes, and this rank in its "
                f"call {self._expected[0]}, {name} of {self._expected[1]} bytes: all ranks have to make the same calls "
                "in the same order, with tensors of the same size"
            )
