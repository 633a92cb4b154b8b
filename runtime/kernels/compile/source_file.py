"""A source as a file, for compilers that read files."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["SOURCE_NAME", "write_source"]

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
