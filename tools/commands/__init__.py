"""The commands of ``cuplug-trace``: each reads its arguments, has something computed, and has that reported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from shlex import quote
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..console import OneLineErrors, PlainCommand, usage_errors

__all__ = ["app"]

_GROUPS = {
    "Record": {
        "record": "Run a program, and record every event of its allocators.",
        "run": "Run a program on an allocator of cuplug's.",
        "watch": "Watch a running program's memory.",
    },
    "Understand": {
        "summary": "Peaks, sizes, lifetimes, call sites, what was never freed.",
        "report": "One page: memory over time, what holds it, and more.",
        "view": "A page that takes files: drop a snapshot on it.",
        "dump": "Write events out, one a line or row.",
    },
    "Compare": {
        "advise": "Which allocator and options a program should use.",
        "replay": "What each allocator would have reserved and cost.",
        "fit": "The smallest device memory on which each completes.",
        "compare": "Histories side by side, as recorded and replayed.",
        "diff": "What changed from one run to another.",
    },
    "Plan": {
        "plan": "Fixed places for a program that repeats itself.",
        "pack": "Places for buffers with known lifetimes.",
    },
    "Other": {
        "export": "Write a history for other tools.",
        "allocators": "What is installed, and the options of each.",
        "demo": "A real training run's allocations, under each allocator.",
        "doctor": "What this machine has: each line fine, or what to do.",
    },
}
_GROUP_OF = {name: group for group, told in _GROUPS.items() for name in told}
_OLDER = {"top": "watch"}  # commands by their older names
_ELSEWHERE = {"diff": "compare"}  # commands that share another's module


class _Commands(Mapping[str, TyperCommand]):
    """The commands by name. Each is imported when it is asked for: most take less time to run than all to import."""

    def __iter__(self) -> Iterator[str]:
        return iter([*_GROUP_OF, *_OLDER])

    def __len__(self) -> int:
        return len(_GROUP_OF) + len(_OLDER)

    def __getitem__(self, name: str) -> TyperCommand:
        return _make(name)


@cache
def _make(name: str) -> TyperCommand:
    known = _OLDER.get(name, name)
    group = _GROUP_OF[known]
    function = getattr(import_module(f".{_ELSEWHERE.get(known, known)}", __name__), known)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(
        name,
        cls=PlainCommand,
        rich_help_panel=group,
        short_help=_GROUPS[group][known],
        hidden=name in _OLDER,
        # Options behind the script are the program's.
        context_settings={"allow_interspersed_args": known not in ("record", "run")},
    )(function)
    made: TyperCommand = typer.main.get_command(alone)  # type: ignore[assignment]
    return made


class _Group(OneLineErrors):
    """``cuplug-trace`` without a command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` begin with. Whoever wrote a file in its place is told the command to look at it."""
        try:
            return super().resolve_command(ctx, args)
        except usage_errors as error:
            if args and os.path.exists(args[0]):
                error.message = f"{args[0]!r} is a file, and no command: did you mean summary {quote(args[0])}?"
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - none of them is imported for it
        """Write the commands in their groups."""
        for group, told in _GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(told.items()))


app = typer.Typer(
    cls=_Group,
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
