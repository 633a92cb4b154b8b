"""Makes the file of a new trace, beside an older one until it has all that it needs."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from io import FileIO

from ...allocators.errors import TraceError
from .format import MAGIC, is_trace

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes may then write one file unnoticed
    fcntl = None  # type: ignore[assignment]


def create(path: str, head: bytes, size: int) -> FileIO:
    """Make a file of ``size`` bytes that begins with ``head``, and put it in the place of an older trace.

    It is made beside, and moved when it has all that it needs: where that fails, what was there stays.

    Args:
        path: where the trace is to be.
        head: its first bytes.
        size: of the file, in bytes.

    Raises:
        TraceError: the file cannot be made, or what is there must not be replaced.
    """
    path = os.path.realpath(path)
    beside = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    file: FileIO | None = None
    try:
        _with_older(path, lambda: None)  # what must not be replaced is found out before anything is made
        file = FileIO(beside, "w+")
        _lock(file.fileno(), path)
        os.pwrite(file.fileno(), head, 0)
        allocate(file.fileno(), len(head), size)
        _with_older(path, lambda: os.rename(beside, path))
    except BaseException as error:
        if file is not None:
            file.close()
        with suppress(OSError):  # there is none, unless it was made and not yet moved
            os.unlink(beside)
        if isinstance(error, OSError):
            raise TraceError(f"cannot write a trace to {path}: {error.strerror}") from None
        raise
    return file


def _with_older(path: str, action: Callable[[], None]) -> None:
    """Do something while an older trace at ``path``, if there is one, is known to be nobody's.

    Raises:
        TraceError: there is something else there, or somebody is writing it.
    """
    while True:
        try:
            kind = os.stat(path).st_mode
            if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
                raise TraceError(f"{path} is not a regular file: write the trace elsewhere")
            older = FileIO(path, "r+")
        except FileNotFoundError:
            action()
            return
        try:
            head = older.read(len(MAGIC))
            if head and not is_trace(head):
                raise TraceError(f"{path} exists and is not a trace: remove it, or write the trace elsewhere")
            _lock(older.fileno(), path)
            if os.path.exists(path) and os.path.samestat(os.fstat(older.fileno()), os.stat(path)):
                action()
                return
        finally:
            older.close()


def allocate(file: int, has: int, size: int) -> None:
    """Let a file of ``has`` bytes grow to ``size``, with the disk space taken now.

    A memory map of a file with holes would end in a bus error when the disk is full.

    Raises:
        OSError: there is no room. The file then is as long as it was.
    """
    try:
        try:
            os.posix_fallocate(file, has, size - has)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            _fill(file, has, size)
        except AttributeError:  # not every system has it
            _fill(file, has, size)
    except OSError:
        os.ftruncate(file, has)
        raise


def let_go(file: FileIO) -> None:
    """Close a trace's file, which others may then replace.

    Its lock is given up by name: it is the open file's, which lives on where a thread that was held up in the middle of
    an event, or a forked child, still has a part of it mapped.
    """
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)
    file.close()


def _fill(file: int, has: int, size: int) -> None:
    zeros = bytes(1 << 16)
    while has < size:
        has += os.pwrite(file, zeros[: size - has], has)


def _lock(file: int, path: str) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(
                f"{path} is being written already, by another process or runtime: choose another path, or write "
                "'{pid}' in it to give each process its own"
            ) from None
        except OSError:
            pass  # a file system without locks
