"""Files that commands write: whole, or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .console import UsageError


@contextmanager
def whole_output(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[Any]:
    """A file to write to, which takes its place at ``path`` when the block has ended well.

    It is written beside and then moved, so that a failure or an interrupt leaves what was there before. What is no
    regular file, such as a device or a pipe, is written to directly. Text is UTF-8.

    Raises:
        UsageError: it cannot be written; the message is one line.
    """
    target = os.path.realpath(os.fspath(path))
    try:
        with _device(target, binary) if _is_special(target) else _beside(target, binary) as file:
            yield file
    except OSError as error:
        if error.filename not in (None, target, _name_beside(target)):
            raise
        raise UsageError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None


def _is_special(target: str) -> bool:
    with suppress(OSError):
        return not stat.S_ISREG(os.stat(target).st_mode)
    return False


def _name_beside(target: str) -> str:
    return f"{target}.{os.getpid()}.part"


def _open(name: str, binary: bool) -> Any:
    if binary:
        return open(name, "wb")
    return open(name, "w", encoding="utf-8", errors="backslashreplace")


@contextmanager
def _device(target: str, binary: bool) -> Iterator[Any]:
    with _open(target, binary) as file:
        yield file


@contextmanager
def _beside(target: str, binary: bool) -> Iterator[Any]:
    beside = _name_beside(target)
    try:
        with _open(beside, binary) as file:
            with suppress(FileNotFoundError):
                os.chmod(beside, stat.S_IMODE(os.stat(target).st_mode))
            yield file
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
