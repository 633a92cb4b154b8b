"""Traces of a program with several processes: each process writes a file of its own, and all know their family.

``CUPLUG_TRACE=run.cuplug`` reaches child processes through the environment. The process that the variable was set for
writes ``run.cuplug``, a child ``run.12345.cuplug``, by the number of its process. ``CUPLUG_TRACE_FAMILY``, which the
first of them sets, says whose the plain name is, and what the files have in common: their headers' ``family``.
"""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path

_TRACE, FAMILY = "CUPLUG_TRACE", "CUPLUG_TRACE_FAMILY"
_runtimes = (0, count(1))


def trace_of_environment() -> str | None:
    """The path at which the next runtime of this process writes its trace, as ``CUPLUG_TRACE`` says. None for no trace.

    A child process gets a path with its number. The second runtime of a process gets that with ``.2`` behind it, and
    so on: each runtime has its own devices, and none may overwrite another's trace.
    """
    global _runtimes
    path = os.environ.get(_TRACE)
    if not path:
        return None
    family = family_of_environment()
    if family is None:
        os.environ.update(new_family(path))
    elif int(family.partition("-")[0]) != os.getpid() and "{pid}" not in path:
        whole = Path(path)
        path = str(whole.with_name(f"{whole.stem}.{os.getpid()}{whole.suffix}"))
    if _runtimes[0] != os.getpid():  # else a forked child would go on counting its parent's
        _runtimes = (os.getpid(), count(1))
    number = next(_runtimes[1])
    return path if number == 1 else f"{path}.{number}"


def new_family(path: str) -> dict[str, str]:
    """The variables that make this process the first of those that write to ``path``."""
    return {_TRACE: path, FAMILY: f"{os.getpid()}-{time.time_ns()}:{path}"}


def family_of_environment() -> str | None:
    """What the traces of this process and of its relatives have in common. None while nobody has said."""
    family, _, path = os.environ.get(FAMILY, "").partition(":")
    known = path and path == os.environ.get(_TRACE) and family.partition("-")[0].isdecimal()
    return family if known else None
