"""What compilers made, kept on disk: one directory for all processes, bounded, safe to share and to lose.

An entry is one file, written under another name and renamed into place, so that readers see whole entries only. A
checksum guards against what file systems do in crashes. Nothing is ever locked: two processes that miss at once both
compile, and the later rename wins with equal content. When the directory outgrows its bound, the entries used least
recently go; a process that still runs one of them does not notice.

What is kept here is code that this process will run, so an entry counts only if nobody else can have written it: the
cache's folder, the folder of the entry in it, and the file must each belong to the user or to root, and must not be
writable by group or others. The folders are opened first and everything below is reached through what was opened, and
owner and mode are asked of the open file: nothing can be exchanged between the check and the use. The folders above
need no check. Who can write to them (``/tmp``, say) can put another folder in the cache's place, but only one that
belongs to somebody else, which then does not count.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ....allocators.environment import wrong_value
from ....allocators.sizes import parse_size

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
        """The entry of a key, or None: missing, damaged, made from files that have changed since, or of a kind that
        somebody else may have written. Of the last, one warning for each cache and process says why."""
        try:
            path = self.path(key)
            with self._open_folder(key) as folder, open(path.name, "rb", opener=partial(_open_inside, folder)) as file:
                status = os.fstat(file.fileno())
                _require_own(status, path)
                entry = decode(file.read())
                if entry is None or not entry.current():
                    return None
                if time.time() - status.st_mtime > _TOUCH_AFTER_S:
                    os.utime(file.fileno())
        except _ForeignError as error:
            self._warn(error)
            return None
        except OSError:
            return None
        return entry

    def put(self, key: str, entry: Entry) -> None:
        """Keep an entry. A directory that cannot be written to, or that others can write to, keeps nothing."""
        name = self.path(key).name
        temporary = f".new-{os.urandom(8).hex()}"
        try:
            with self._open_folder(key, make=True) as folder:
                try:
                    with open(temporary, "xb", opener=partial(_open_inside, folder)) as file:
                        file.write(encode(entry))
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:  # an interrupt too
                    with contextlib.suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
                    raise
        except _ForeignError as error:
            self._warn(error)
            return
        except OSError:
            return
        self.trim()

    @contextlib.contextmanager
    def _open_folder(self, key: str, *, make: bool = False) -> Iterator[int]:
        """The open folder in which an entry lies.

        Raises:
            OSError: it is not there, or cannot be opened.
            _ForeignError: others may have written to it, or to the cache's folder.
        """
        inner = self.path(key).parent
        opened: list[int] = []
        try:
            if make:
                make_folders(self.directory)
            opened.append(os.open(self.directory, _FOLDER))
            _require_own(os.fstat(opened[0]), self.directory)
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(inner.name, 0o700, dir_fd=opened[0])
            opened.append(os.open(inner.name, _FOLDER | os.O_NOFOLLOW, dir_fd=opened[0]))
            _require_own(os.fstat(opened[1]), inner)
            yield opened[1]
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _warn(self, error: _ForeignError) -> None:
        if self.directory not in _told:
            _told.add(self.directory)
            warnings.warn(
                f"compiled kernels in {self.directory} are not used: {error}. Remove it, or name another folder in "
                "CUPLUG_CACHE_DIR",
                RuntimeWarning,
                stacklevel=2,
            )

    def get_or_make(self, key: str, make: Callable[[], Entry], *, facts: Iterable[str] = ()) -> Entry:
        """The entry of a key; made, and kept, if it is missing, or without one of the ``facts`` that it must have."""
        found = self.get(key)
        if found is None or not found.facts.keys() >= set(facts):
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


class _ForeignError(Exception):
    """Somebody else may have written a file or folder."""


_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_told: set[Path] = set()
"""The caches of which a warning was given."""


def _require_own(status: os.stat_result, path: Path) -> None:
    """Raise _ForeignError unless the user, or root, owns what ``status`` tells of, and nobody else may write to it."""
    if status.st_uid not in (0, os.geteuid()):
        raise _ForeignError(f"{path} belongs to the user with number {status.st_uid}, not to you")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        raise _ForeignError(f"others than its owner may write to {path}, which has mode {mode:o}")


def _open_inside(folder: int, name: str, flags: int) -> int:
    """Open a file of an open folder: no symbolic link, without waiting for a pipe's writer, for the user alone."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=folder)


def make_folders(path: Path) -> None:
    """Make a folder, and those above it that are missing, for the user alone."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)


def default_cache() -> Cache:
    """The cache in ``CUPLUG_CACHE_DIR``, else in the user's cache folder; ``CUPLUG_CACHE_SIZE`` bounds it (512MiB).

    Raises:
        CuplugError: ``CUPLUG_CACHE_SIZE`` is no size.
    """
    directory = os.environ.get("CUPLUG_CACHE_DIR")
    if not directory:
        from platformdirs import user_cache_dir

        directory = user_cache_dir("cuplug", appauthor=False)
    size = os.environ.get("CUPLUG_CACHE_SIZE")
    try:
        limit = parse_size(size) if size else DEFAULT_LIMIT
    except ValueError as error:
        raise wrong_value("CUPLUG_CACHE_SIZE", size or "", f"a size such as 512MiB ({error})") from None
    return Cache(Path(directory) / "kernels", limit=limit)


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
    try:
        notes = json.loads(body[8 : 8 + length])
        facts, dependencies = notes["facts"], notes["dependencies"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(facts, dict) or not isinstance(dependencies, dict):
        return None
    if not all(isinstance(digest, str) for digest in dependencies.values()):
        return None
    return Entry(body[8 + length :], facts, dependencies)
