"""``cuplug-trace pack``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...allocators.sizes import parse_size
from ..analysis.exact_packing import pack_tightly, pack_within
from ..console import UsageError, progress, say
from ..foreign.packing_csv import read_buffers, write_packing
from ..outputs import whole_output


def pack(
    file: Annotated[Path, typer.Argument(help="CSV with the columns id,lower,upper,size.", metavar="FILE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: the same with a column offset.")],
    capacity: Annotated[
        str | None, typer.Option("--capacity", "-c", help="Bytes to stay within; by default as few as are found.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", "-s", help="How long to search at most; Ctrl-C ends it with the best so far.", min=0.0
        ),
    ] = 60.0,
) -> None:
    """Give buffers with known lifetimes their places in as little memory as may be, for any compiler.

    Reads and writes MiniMalloc's CSV: a buffer lives from lower until upper, exclusive. The exit status is 1 if they do
    not go into the capacity, or if no packing was found in time. Reading and writing the files comes beside the
    seconds.
    """
    names, buffers = read_buffers(file)
    limit = None if capacity is None else _bytes(capacity)
    try:
        with progress(f"packing {len(buffers)} buffers"):
            found = pack_tightly(buffers, seconds=seconds) if limit is None else pack_within(
                buffers, limit, seconds=seconds
            )  # fmt: skip
    except TimeoutError as error:
        say(str(error))
        raise typer.Exit(1) from None
    if found is None:
        say(f"{file} cannot be packed into {limit} bytes")
        raise typer.Exit(1)
    with whole_output(output) as answer:
        write_packing(answer, names, buffers, found.offsets)
    if found.interrupted:
        say("interrupted: this is the best until then")
    say(
        f"{output} written: {len(buffers)} buffers in {found.height} bytes; "
        f"as many as {found.bound} live at once, which is the least that any packing needs"
    )


def _bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
