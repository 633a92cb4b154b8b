"""What every command shares: where text goes, progress bars, and errors of one line."""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from typer.core import TyperCommand, TyperGroup

from ..allocators.errors import CuplugError

_WIDTH_OF_FILES = 140  # columns of output that is not a terminal


class UsageError(CuplugError):
    """What the user asked for cannot be done as asked."""


class OneLineErrors(TyperGroup):
    """The command group: wrong input gives one line on standard error and exit status 2, never a traceback."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run the command line and exit with its status."""
        status: Any
        if sys.stdout is None:
            sys.stdout = ClosedOutput()
        try:
            status = super().main(args=args, prog_name=prog_name, **{**extra, "standalone_mode": False})
            sys.stdout.flush()  # here, where what fails can be said in one line
        except usage_errors as error:
            _complain(error.format_message())
            status = 2
        except CuplugError as error:
            _complain(str(error))
            status = 2
        except typer.Abort:
            status = 130
        except typer.Exit as error:
            status = error.exit_code
        except (BrokenPipeError, SystemExit) as error:
            # The reader, such as ``head``, has seen enough. Typer makes status 1 of that, by SystemExit.
            if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
                raise
            _drop_output()
            status = 141
        except OSError as error:
            _complain(f"{error.filename or 'cannot write to standard output'}: {error.strerror or error}")
            _drop_output()
            status = 2
        sys.exit(status if isinstance(status, int) else 0)


class PlainCommand(TyperCommand):
    """A command whose help names arguments and values in words, without Python's types."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write what arguments and options are."""
        write = formatter.write_dl

        def plain(rows: Any, *args: Any, **keywords: Any) -> None:
            write([(re.sub(r" <[^ ]*( range)?>$", "", name), text) for name, text in rows], *args, **keywords)

        formatter.write_dl = plain
        super().format_options(ctx, formatter)


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that was closed before the program began. Writing to it is an error."""

    def write(self, text: str, /) -> int:  # noqa: ARG002 - there is nowhere to write it to
        """Raise OSError."""
        raise OSError(errno.EBADF, "it is closed")


def printable_stdout() -> TextIO:
    """Standard output, which from now on shows ``?`` for characters that its encoding lacks. Where Python passes on the
    bytes of names that it could not decode, it goes on to: in the locales C and C.UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="replace")
        elif sys.stdout.errors == "surrogateescape":
            codecs.register_error("cuplug.bytes", _bytes_or_question_marks)
            sys.stdout.reconfigure(errors="cuplug.bytes")
    return sys.stdout


def _bytes_or_question_marks(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.replace_errors(error)


def out() -> Console:
    """The console for results, on standard output."""
    printable_stdout()
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=_WIDTH_OF_FILES)
    return console


def say(text: str) -> None:
    """A remark to the user, on standard error, which leaves results clean. It is wrapped between words for a terminal,
    or for as many columns as ``COLUMNS`` says."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal or "COLUMNS" in os.environ:
        text = "\n".join(textwrap.wrap(text, console.width, break_long_words=False, break_on_hyphens=False))
    console.print(text, markup=False)


@contextmanager
def progress(description: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error while it is a terminal. Gives a function that takes how much more is done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _more: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
    )
    if total is None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())  # type: ignore[assignment]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda more: bar.update(task, advance=more)


def _drop_output() -> None:
    """Let what was not written yet go nowhere, since the interpreter would try again at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str) -> None:
    print("cuplug-trace:", " ".join(message.split()), file=sys.stderr, flush=True)


# The base of all usage errors. Typer brought click along, and has its own copy of it since 0.2x.
usage_errors: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
