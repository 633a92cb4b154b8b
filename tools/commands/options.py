"""Arguments that several commands take, and how their text is read."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...allocators.sizes import parse_size
from ...plugins.manager import Description, default_manager
from ...plugins.tracing.reader import family_members
from ...plugins.tracing.trace_in_memory import Trace
from ..console import UsageError, progress, say
from ..foreign.addresses import expand
from ..foreign.load import load


def known_allocators(incomplete: str) -> list[str]:
    """What the shell completes an allocator to: its name, and behind a colon its options."""
    return _selections(default_manager().describe_allocators(), incomplete)


def known_drivers(incomplete: str) -> list[str]:
    """What the shell completes a driver to."""
    return _selections(default_manager().describe_drivers(), incomplete)


def _selections(entries: Iterable[Description], incomplete: str) -> list[str]:
    name, colon, said = incomplete.partition(":")
    known = {entry.name: entry for entry in entries}
    if not colon:
        return [found for found in known if found.startswith(name)]
    if name not in known:
        return []
    before, comma, option = said.rpartition(",")
    begun = f"{name}:{before}{comma}"
    return [f"{begun}{one.name}=" for one in known[name].options if one.name.startswith(option)]


def one_of(*values: str) -> Callable[[str], list[str]]:
    """What the shell completes to one of a few values."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


_complete_scheduler = one_of("local")

TraceFile = Annotated[
    str, typer.Argument(help="A cuplug trace, a PyTorch memory snapshot, or a log of RMM's.", metavar="FILE")
]
Histories = Annotated[
    list[str],
    typer.Argument(
        help="cuplug traces, PyTorch memory snapshots, or logs of RMM's; a pattern such as 'run*.cuplug', or a folder. "
        "A trace stands for those of its child processes, too.",
        metavar="FILE",
    ),
]
AllocatorList = Annotated[
    list[str] | None,
    typer.Option(
        "--allocator",
        "-a",
        help="For example caching, or caching:preset=torch; may be repeated.",
        metavar="ALLOCATOR",
        autocompletion=known_allocators,
    ),
]
Memory = Annotated[
    str | None, typer.Option("--memory", "-m", help="Each device's memory, for example 24GiB.", metavar="SIZE")
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", help="Processes to use; by default all processors.", min=1, metavar="COUNT"),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Let Dask do the work: local for --jobs processes here, or a scheduler's tcp://HOST:PORT.",
        metavar="SCHEDULER",
        autocompletion=_complete_scheduler,
    ),
]
OnlyDevice = Annotated[
    int | None,
    typer.Option("--device", help="Only this device, by its ordinal; by default all.", min=0, metavar="ORDINAL"),
]
Top = Annotated[int, typer.Option(help="How many call sites to name.", min=1, metavar="COUNT")]
Allocator = Annotated[
    str | None,
    typer.Option(
        "--allocator",
        "-a",
        help="For example expandable, or caching:preset=torch.",
        metavar="ALLOCATOR",
        autocompletion=known_allocators,
    ),
]
Driver = Annotated[
    str | None,
    typer.Option(
        "--driver",
        "-d",
        help="For example cuda, or sim:memory=16GiB.",
        metavar="DRIVER",
        autocompletion=known_drivers,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

Torch = Annotated[bool, typer.Option("--torch", help="PyTorch allocates from cuplug.")]
Cupy = Annotated[bool, typer.Option("--cupy", help="CuPy allocates from cuplug.")]
Numba = Annotated[bool, typer.Option("--numba", help="Numba allocates from cuplug.")]
Rmm = Annotated[bool, typer.Option("--rmm", help="RMM allocates from cuplug.")]
Pycuda = Annotated[bool, typer.Option("--pycuda", help="PyCUDA allocates from cuplug.")]


def chosen_libraries(**wanted: bool) -> list[str]:
    """The names of the libraries that were asked for."""
    return [name for name, asked in wanted.items() if asked]


def history_files(words: Sequence[str]) -> list[str]:
    """The files that arguments stand for, each once.

    A trace stands for those of its program's child processes as well, a folder for the traces in it, and a pattern for
    what matches it.

    Raises:
        UsageError: a folder or a pattern stands for nothing.
    """
    found: list[str] = []
    for word in words:
        path = Path(word)
        if "://" in word:
            found += _some(sorted(expand(word, FORMS), key=_natural), f"nothing is at {word}")
        elif path.is_dir():
            inside = [str(each) for form in FORMS for each in path.glob(form)]
            found += _some(sorted(inside, key=_natural), f"{word} has no traces in it: {', '.join(FORMS)}")
        elif path.exists() or not glob.has_magic(word):
            members = family_members(word)
            found += members if path.exists() or len(members) == 1 else members[1:]
        else:
            found += _some(sorted(glob.glob(word), key=_natural), f"no file matches {word}")
    return list(dict.fromkeys(found))


def load_one(file: str) -> Trace:
    """Read a history for a command that shows one at a time, and say what is missing in it or beside it.

    Raises:
        TraceError: it cannot be read.
    """
    with progress(f"reading {file}"):
        trace = load(file)
    tell_notes([(file, trace.note)])
    others = family_members(file)[1:]
    if others:
        say(f"{file}: its program's other processes are not in it; they wrote {', '.join(others)}")
    return trace


def tell_notes(notes: Iterable[tuple[str, str]]) -> None:
    """Say, once for each file, what is missing in it."""
    for file, note in dict(notes).items():
        if note:
            say(f"{file}: {note}")


FORMS = (
    "*.cuplug",
    "*.pickle",
    "*.pickle.gz",
    "*.pickle.xz",
    "*.csv",
    "*.sqlite",
    "*.pt.trace.json",
    "*.pt.trace.json.gz",
)
"""The files of a folder that are its traces."""


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``rank10`` behind ``rank2``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _some(found: list[str], otherwise: str) -> list[str]:
    if not found:
        raise UsageError(otherwise)
    return found


def checked_allocators(asked: list[str] | None, default: list[str]) -> list[str]:
    """The selections asked for, each once, or else the default.

    Raises:
        PluginError: one is unknown, or an option of it is.
    """
    chosen = list(dict.fromkeys(asked or default))
    for selection in chosen:
        default_manager().check_allocator(selection)
    return chosen


def memory_bytes(text: str | None) -> int | None:
    """What ``--memory`` says, in bytes.

    Raises:
        UsageError: it is no size, none at all, or so few bytes without a unit that another unit was meant.
    """
    if text is None:
        return None
    try:
        nbytes = parse_size(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if nbytes <= 0:
        raise UsageError(f"--memory is {text}; it must be more than nothing")
    if nbytes < 1 << 20 and text.strip().isdecimal():
        raise UsageError(f"--memory {text} would be {text} bytes; write {text}GiB")
    return nbytes
