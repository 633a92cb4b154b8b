"""Whether the native core is used: it was built, and ``CUPLUG_NATIVE=0`` does not switch it off."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from .environment import read_choice

VARIABLE = "CUPLUG_NATIVE"
"""The environment variable that switches the native allocators off, when it is ``0``."""


def _refuse_subinterpreters() -> None:
    """Raise ImportError in an interpreter that is not the process's first.

    A device's memory, its contexts and the kernels' libraries belong to the process, while a module's state belongs to
    an interpreter: two interpreters would each take the whole device for theirs. The standard library tells the running
    interpreter in a private module only, which had another name before Python 3.13.
    """
    interpreters: Any
    try:
        interpreters = import_module("_interpreters")
    except ImportError:
        try:
            interpreters = import_module("_xxsubinterpreters")
        except ImportError:  # a Python that has only one interpreter
            return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "cuplug was imported in a subinterpreter, and works in the main interpreter of a process only; "
            "import it there and use threads, or start another process (cuplug.multiprocessing)"
        )


def tell_if_outdated(module: ModuleType) -> None:
    """Let an extension module of cuplug's say why a name is missing in it: it was built from older sources than those
    that ask for the name, as happens in a checkout. What is there is found as ever, in the same time.

    A module that is being imported gets an ImportError. Whoever else asks gets an AttributeError, since pickle, to find
    where a function without ``__module__`` stands, asks each module for its name.
    """

    def missing(name: str) -> Any:
        if name.startswith("__"):  # Python asks whether it is there
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        told = (
            f"{module.__file__} was built from other sources of cuplug, and has no {name!r}: install cuplug again (in "
            f"a checkout: pip install -e .), or do without its C++ code ({VARIABLE}=0)"
        )
        if getattr(sys._getframe(1).f_globals.get("__spec__"), "_initializing", False):
            raise ImportError(told, name=module.__name__, path=module.__file__)
        raise AttributeError(told)

    vars(module)["__getattr__"] = missing


def _find_problem() -> str | None:
    # The core refuses subinterpreters by itself, so that they are asked for only where it is not there: asking takes
    # milliseconds.
    if read_choice(VARIABLE, ("0", "1")) == "0":
        _refuse_subinterpreters()
        return f"{VARIABLE}=0 switches it off"
    module = f"{__package__}._native"
    try:
        tell_if_outdated(import_module(module))
    except ImportError as error:
        _refuse_subinterpreters()
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            return "it was not built, for want of a C++ compiler at installation; install one and cuplug again"
        return f"it cannot be loaded: {error}"
    return None


_problem = _find_problem()


def is_available() -> bool:
    """Whether the native allocators are used. It is settled when this module is imported first."""
    return _problem is None


def why_not() -> str | None:
    """Why the native allocators are not used, as a clause; None if they are."""
    return _problem
