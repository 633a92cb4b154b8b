"""``cuplug-trace compare`` and ``diff``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ... import __version__
from ..console import UsageError, out, progress, say
from ..outputs import whole_output
from ..replaying.comparison import Row, difference, means
from ..replaying.comparison import compare as find_rows
from ..replaying.worker_pool import default_jobs
from ..reporters.comparison_html import write_comparison
from ..reporters.comparison_markdown import comparison_as_markdown
from ..reporters.comparison_text import print_comparison, print_differences
from .options import (
    AllocatorList,
    AsJson,
    Histories,
    Jobs,
    Memory,
    OnlyDevice,
    Scheduler,
    Top,
    checked_allocators,
    history_files,
    load_one,
    memory_bytes,
    tell_notes,
)


def compare(
    files: Histories,
    allocator: AllocatorList = None,
    memory: Memory = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write a page, too.", metavar="FILE")] = None,
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a table in Markdown, a line for each trace.")
    ] = False,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    device: OnlyDevice = None,
) -> None:
    """Traces side by side, as recorded and under each --allocator. The exit status is 1 if a replay failed.

    Of several traces there is the geometric mean of peak reserved by peak requested, for each allocator that completes
    all of them.

    With --output a page shows them; two are laid over each other by iteration, with what changed first.
    """
    if as_json and as_markdown:
        raise UsageError("--json and --markdown exclude each other: choose one")
    chosen = checked_allocators(allocator, [])
    limit, processes = memory_bytes(memory), jobs or default_jobs()
    names = history_files(files)
    rows = find_rows(
        names, chosen, memory=limit, jobs=processes, with_curves=output is not None, scheduler=scheduler, device=device
    )
    if output is not None:
        with progress(f"writing {output}"), whole_output(output) as page:
            write_comparison(names, rows, page)
        say(f"{output} written: open it in a browser")
    if as_json:
        typer.echo(json.dumps([*map(_figures, rows), *_mean_figures(rows)]))
    elif as_markdown:
        typer.echo(comparison_as_markdown(rows, __version__))
    else:
        print_comparison(rows, out())
    tell_notes((row.trace, row.note) for row in rows)
    for row in rows:
        if row.failure:
            say(f"{row.trace} on {row.allocator}: {row.failure}")
    if any(row.failure for row in rows):
        raise typer.Exit(1)


def _figures(row: Row) -> dict[str, object]:
    """A row for JSON; what is not known is null."""
    found: dict[str, object] = {
        key: value for key, value in asdict(row).items() if key not in ("curves", "knows_reserved", "of_pytorch")
    }
    known = row.knows_reserved
    return found | {
        "reserved": row.reserved if known else None,
        "reserved_over_requested": row.reserved_over_requested if known and row.requested else None,
        "driver_time_share": row.driver_time_share,
        "run_seconds": row.run_seconds or None,
    }


def _mean_figures(rows: Sequence[Row]) -> list[dict[str, object]]:
    """The geometric means as rows, in which all else is null."""
    blank = dict.fromkeys(_figures(rows[0])) if rows else {}
    return [
        blank
        | {
            "trace": "geometric mean",
            "allocator": mean.allocator,
            "reserved_over_requested": mean.reserved_over_requested,
        }
        for mean in means(rows)
    ]


def diff(
    before: Annotated[str, typer.Argument(help="The trace, snapshot or log of the one run.", metavar="BEFORE")],
    after: Annotated[str, typer.Argument(help="That of the other.", metavar="AFTER")],
    top: Top = 10,
    as_json: AsJson = False,
    device: OnlyDevice = None,
) -> None:
    """What changed from one run to another: peaks, what is held at the peak by call site, allocations by size."""
    found = difference(load_one(before), load_one(after), top=top, device=device)
    if as_json:
        typer.echo(json.dumps([asdict(device) for device in found]))
    else:
        print_differences(found, out())
