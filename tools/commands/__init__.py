"""The commands of ``cuplug-trace``: each reads its arguments, has something computed, and has that reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from ..console import OneLineErrors, PlainCommand
from .advise import advise
from .allocators import allocators
from .compare import compare, diff
from .demo import demo
from .doctor import doctor
from .dump import dump
from .export import export
from .fit import fit
from .pack import pack
from .plan import plan
from .record import record
from .replay import replay
from .report import report
from .run import run
from .summary import summary
from .view import view
from .watch import watch

__all__ = ["app"]

app = typer.Typer(
    cls=OneLineErrors,
    help="Record, read and compare traces of GPU memory allocations.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 all went well; 1 a replay failed, nothing fits, or something here does not work (of record "
    "and run: the program's own); 2 what was asked for, or a file, is wrong, or the output cannot be written; 130 "
    "interrupted; 141 the reader of the output has gone.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"cuplug {version('cuplug')}")
        except PackageNotFoundError:
            typer.echo("cuplug is not installed: this runs from a checkout")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colours, as with NO_COLOR=1.")] = False,
) -> None:
    """Record, read and compare traces of GPU memory allocations."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


_OF_A_PROGRAM = {"allow_interspersed_args": False}  # options behind the script are the program's

_GROUPS: dict[str, dict[Callable[..., None], str]] = {
    "Record": {
        record: "Run a program, and record every event of its allocators.",
        run: "Run a program on an allocator of cuplug's.",
        watch: "Watch a running program's memory.",
    },
    "Understand": {
        summary: "Peaks, sizes, lifetimes, call sites, what was never freed.",
        report: "One page: memory over time, what holds it, and more.",
        view: "A page that takes files: drop a snapshot on it.",
        dump: "Write events out, one a line or row.",
    },
    "Compare": {
        advise: "Which allocator and options a program should use.",
        replay: "What each allocator would have reserved and cost.",
        fit: "The smallest device memory on which each completes.",
        compare: "Histories side by side, as recorded and replayed.",
        diff: "What changed from one run to another.",
    },
    "Plan": {
        plan: "Fixed places for a program that repeats itself.",
        pack: "Places for buffers with known lifetimes.",
    },
    "Other": {
        export: "Write a history for other tools.",
        allocators: "What is installed, and the options of each.",
        demo: "A real training run's allocations, under each allocator.",
        doctor: "What this machine has: each line fine, or what to do.",
    },
}

for group, commands in _GROUPS.items():
    for function, short in commands.items():
        settings = _OF_A_PROGRAM if function in (record, run) else None
        app.command(cls=PlainCommand, rich_help_panel=group, short_help=short, context_settings=settings)(function)
app.command("top", cls=PlainCommand, hidden=True)(watch)  # its older name
