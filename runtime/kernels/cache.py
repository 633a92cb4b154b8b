"""What compilers made, kept on disk: one directory for all processes, bounded, safe to share and to lose.

An entry is one file, written under another name and renamed into place, so that readers see whole entries only. A
checksum guards against what file systems do in crashes. Nothing is ever locked: two processes that miss at once both
compile, and the later rename wins with equal content. When the directory outgrows its bound, the entries used least
recently go; a process that still runs one of them does not notice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...allocators.sizes import parse_size

__all__ = ["Cache", "Entry", "content_key", "decode", "default_cache", "dependencies_of", "encode"]

_MAGIC = b"cuplugC1"
_DIGEST = 32
_TOUCH_AFTER_S = 3600.0
_ABANDONED_AFTER_S = 3600.0
DEFAULT_LIMIT = 512 << 20


@dataclass(frozen=True)
class Entry:
    """What a compiler made of a source."""

    payload: bytes
    facts: Mapping[str, object] = field(default_factory=dict)
    """What else is known of it, as JSON can say it."""
    dependencies: Mapping[str, str] = field(default_factory=dict)
    """The files that the source included, and digests of what they contained; empty for a file that was not there."""
    complete: bool = True
    """Whether these are all the files. An entry that does not know is not kept."""

    def current(self) -> bool:
        """Whether every included file is still as it was."""
        return all(_file_digest(path) == digest for path, digest in self.dependencies.items())


class Cache:
    """Entries in a directory, by key. Every failure of the file system counts as a miss."""

    def __init__(self, directory: str | os.PathLike[str], *, limit: int = DEFAULT_LIMIT) -> None:
        """Use ``directory``, which is made at the first ``put``. ``limit``: bytes it may hold."""
        self.directory = Path(directory)
        self.limit = limit

    def path(self, key: str) -> Path:
        """Where an entry lies, or would."""
        return self.directory / key[:2] / f"{key[2:]}.bin"

    def get(self, key: str) -> Entry | None:
        """The entry of a key, or None: missing, damaged, or made from files that have changed since."""
        path = self.path(key)
        try:
            data = path.read_bytes()
            entry = decode(data)
            if entry is None or not entry.current():
                return None
            status = path.stat()
            if time.time() - status.st_mtime > _TOUCH_AFTER_S:
                os.utime(path)
        except OSError:
            return None
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry. A directory that cannot be written to keeps nothing."""
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
            try:
                with open(descriptor, "wb") as file:
                    file.write(encode(entry))
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError:
            return
        self.trim()

    def get_or_make(self, key: str, make: Callable[[], Entry]) -> Entry:
        """The entry of a key; made, and kept, if it is missing."""
        found = self.get(key)
        if found is None:
            found = make()
            if found.complete:
                self.put(key, found)
        return found

    def trim(self) -> None:
        """Remove the entries used least recently until the rest takes at most ``limit`` bytes."""
        entries = []
        now = time.time()
        for path in self.directory.glob("??/*"):
            try:
                status = path.stat()
                if path.name.startswith(".new-"):
                    if now - status.st_mtime > _ABANDONED_AFTER_S:  # of a process that died
                        path.unlink()
                    continue
            except OSError:
                continue
            entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries, key=lambda entry: entry[0]):
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size


def default_cache() -> Cache:
    """The cache in ``CUPLUG_CACHE_DIR``, else in the user's cache folder; ``CUPLUG_CACHE_SIZE`` bounds it (512MiB)."""
    directory = os.environ.get("CUPLUG_CACHE_DIR")
    if not directory:
        from platformdirs import user_cache_dir

        directory = user_cache_dir("cuplug", appauthor=False)
    size = os.environ.get("CUPLUG_CACHE_SIZE")
    return Cache(Path(directory) / "kernels", limit=parse_size(size) if size else DEFAULT_LIMIT)


def content_key(*parts: str | bytes | Iterable[str]) -> str:
    """A key for everything that the result depends on."""
    digest = hashlib.sha256()
    for part in parts:
        pieces = [part] if isinstance(part, (str, bytes)) else list(part)
        digest.update(f"{len(pieces)};".encode())
        for piece in pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            digest.update(f"{len(data)}:".encode())
            digest.update(data)
    return digest.hexdigest()


def dependencies_of(paths: Iterable[str], *, absent: bool = False) -> dict[str, str]:
    """Files and their digests, for ``Entry``; with ``absent``, also the files that are not there."""
    found = {}
    for path in paths:
        digest = _file_digest(path)
        if digest or absent:
            found[os.path.abspath(path)] = digest
    return found


def _file_digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def encode(entry: Entry) -> bytes:
    """An entry as bytes, with a checksum."""
    notes = json.dumps({"facts": dict(entry.facts), "dependencies": dict(entry.dependencies)}).encode()
    body = len(notes).to_bytes(8, "little") + notes + entry.payload
    return _MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry | None:
    """The entry in ``data``, or None if that is not one, or damaged."""
    start = len(_MAGIC) + _DIGEST
    body = data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : start]:
        return None
    length = int.from_bytes(body[:8], "little")
    notes = json.loads(body[8 : 8 + length])
    return Entry(body[8 + length :], notes["facts"], notes["dependencies"])
