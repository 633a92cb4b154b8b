"""The commands of ``cuplug-trace``: each reads its arguments, has something computed, and has that reported."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..console import OneLineErrors
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

app.command()(view)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(version("cuplug"))
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


app.command(context_settings={"allow_interspersed_args": False})(record)
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(summary)
app.command()(report)
app.command()(replay)
app.command()(advise)
app.command()(fit)
app.command()(plan)
app.command()(pack)
app.command()(watch)
app.command("top", hidden=True)(watch)  # its older name
app.command()(compare)
app.command()(diff)
app.command()(export)
app.command()(dump)
app.command()(allocators)
app.command()(demo)
app.command()(doctor)
