"""A source as a file, for compilers that read files, and the folder where they work."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....allocators.errors import CompileError

_MARK = "\ufeff"
"""Some editors begin files with it: the mark of a byte order."""
SOURCE_NAME = "kernel.cu"
"""What messages call a source."""


def write_source(source: str, folder: Path) -> str:
    """Write a source into a folder; returns the file's name. That is one which no source can include, but messages
    call it ``kernel.cu``: so a program's own file of that name can be included.
    """
    name = f"{os.urandom(16).hex()}.cu"
    (folder / name).write_text(f'#line 1 "{SOURCE_NAME}"\n{source.lstrip(_MARK)}')
    return name


@contextmanager
def folder_to_compile_in() -> Iterator[str]:
    """A temporary folder, which is removed afterwards. Raises CompileError where the disk is full."""
    try:
        with tempfile.TemporaryDirectory(prefix="cuplug-") as folder:
            yield folder
    except (OSError, CompileError) as error:
        told = os.strerror(errno.ENOSPC)  # by the compiler, whose files are larger
        is_full = told in str(error) if isinstance(error, CompileError) else error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not is_full:
            raise
        raise CompileError(
            f"there is no room to compile in {tempfile.gettempdir()} ({told}): free some, or name another folder in "
            "TMPDIR"
        ) from error
