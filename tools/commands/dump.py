"""``cuplug-trace dump``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, TextIO, TypeVar

import numpy as np
import numpy.typing as npt
import typer

from ...allocators.events import EventKind
from ...allocators.sizes import parse_size
from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.filters import Filter, parse_kind
from ..console import UsageError, out, printable_stdout, progress, say
from ..outputs import whole_output
from ..reporters.event_rows import FORMATS, write_dump
from ..reporters.parquet_table import write_parquet
from .options import TraceFile, load_one, one_of

T = TypeVar("T")

_complete_form = one_of(*FORMATS)
_complete_kind = one_of(*(known.name.lower() for known in EventKind))


def dump(
    file: TraceFile,
    form: Annotated[
        str,
        typer.Option(
            "--format", "-f", help=f"One of {', '.join(FORMATS)}.", metavar="FORMAT", autocompletion=_complete_form
        ),
    ] = "text",
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where to; else to standard output.", metavar="FILE")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this kind, such as allocate; may be repeated.",
            metavar="KIND",
            autocompletion=_complete_kind,
        ),
    ] = None,
    device: Annotated[
        list[int] | None, typer.Option(help="Only this device; may be repeated.", metavar="ORDINAL")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="Only this stream (decimal or 0x...); may be repeated.", metavar="STREAM")
    ] = None,
    min_size: Annotated[
        str | None, typer.Option(help="Only from this many requested bytes, such as 1MiB.", metavar="SIZE")
    ] = None,
    max_size: Annotated[str | None, typer.Option(help="Only up to this many requested bytes.", metavar="SIZE")] = None,
    since: Annotated[
        float | None, typer.Option(help="Only from so many seconds after the first event.", metavar="SECONDS")
    ] = None,
    until: Annotated[
        float | None, typer.Option(help="Only up to so many seconds after the first event.", metavar="SECONDS")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many events.", min=0, metavar="COUNT")] = None,
) -> None:
    """Write events out, one a line or row, filtered as wished."""
    if form not in FORMATS:
        raise UsageError(f"there is no format {form!r}; the formats are {', '.join(FORMATS)}")
    if form == "parquet" and output is None:
        raise UsageError("Parquet is not text: say where to with --output FILE")
    wanted = Filter(
        kinds=tuple(_each(parse_kind, kind)),
        devices=tuple(device or ()),
        streams=tuple(_each(lambda text: int(text, 0), stream)),
        least=_size(min_size),
        most=_size(max_size),
        since=since,
        until=until,
    )
    trace = load_one(file)
    places = wanted.places(trace)[:limit]
    if form == "parquet" and output is not None:
        with progress(f"writing {output}"), whole_output(output, binary=True) as binary:
            write_parquet(trace, places, binary)
    elif output is None:
        _write(trace, places, form, printable_stdout())
    else:
        with whole_output(output) as file_out:
            _write(trace, places, form, file_out)
    if output is not None:
        say(f"{len(places)} events written to {output}")


def _write(trace: Trace, places: npt.NDArray[np.int64], form: str, file: TextIO) -> None:
    if file is sys.stdout and (file.isatty() or "COLUMNS" in os.environ):
        write_dump(trace, places, form, file, lambda _more: None, out().width)
    else:
        with progress("writing", len(places)) as done:
            write_dump(trace, places, form, file, done)
    file.flush()


def _size(text: str | None) -> int | None:
    return next(iter(_each(parse_size, [text] if text else None)), None)


def _each(convert: Callable[[str], T], texts: Iterable[str] | None) -> list[T]:
    try:
        return [convert(text) for text in texts or ()]
    except ValueError as error:
        raise UsageError(str(error)) from None
