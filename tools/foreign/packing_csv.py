"""Reads and writes buffers with known lifetimes in the form of MiniMalloc: CSV with ``id,lower,upper,size``, and behind
them ``offset`` in an answer. A buffer lives from ``lower`` until ``upper``, exclusive."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ...allocators.packing import Buffer
from ..console import UsageError

_COLUMNS = ("id", "lower", "upper", "size")


def read_buffers(path: str | os.PathLike[str]) -> tuple[list[str], list[Buffer]]:
    """The names and the buffers of a file. Columns may stand in any order, and further ones are passed over.

    Raises:
        UsageError: the file cannot be read, a column is missing, or a line is no buffer; the message names it.
    """
    if Path(path).exists() and not Path(path).is_file():  # a pipe, say, which nobody may ever write to
        raise UsageError(f"cannot read {os.fspath(path)}: it is not a regular file")
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return _read(path, csv.DictReader(file, skipinitialspace=True))
    except UnicodeDecodeError:
        raise UsageError(
            f"{os.fspath(path)} is no CSV file of the columns id,lower,upper,size; "
            "for a trace there is cuplug-trace plan"
        ) from None
    except (OSError, csv.Error) as error:
        raise UsageError(f"cannot read {os.fspath(path)}: {error}") from None


def _read(path: str | os.PathLike[str], rows: csv.DictReader[str]) -> tuple[list[str], list[Buffer]]:
    missing = [name for name in _COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise UsageError(f"{os.fspath(path)} has no column {missing[0]}; its first line has to be id,lower,upper,size")
    names: list[str] = []
    buffers: list[Buffer] = []
    for row in rows:
        try:
            lower, upper, size = int(row["lower"]), int(row["upper"]), int(row["size"])
        except (TypeError, ValueError):
            raise UsageError(
                f"line {rows.line_num} of {os.fspath(path)} is no buffer: lower, upper and size are whole numbers"
            ) from None
        if size < 0 or upper < lower or max(abs(lower), abs(upper), size) >= 1 << 62:
            raise UsageError(
                f"line {rows.line_num} of {os.fspath(path)} is no buffer: it lives from {lower} to {upper} and has "
                f"{size} bytes"
            )
        names.append(row["id"])
        buffers.append((lower, upper, size))
    return names, buffers


def write_packing(file: TextIO, names: Sequence[str], buffers: Sequence[Buffer], offsets: Sequence[int]) -> None:
    """Write the answer: each buffer as it came, with its offset in bytes."""
    file.write("id,lower,upper,size,offset\n")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows((name, *buffer, at) for name, buffer, at in zip(names, buffers, offsets, strict=True))
