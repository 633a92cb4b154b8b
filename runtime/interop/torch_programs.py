"""``cuplug.as_torch()``: ``import torch`` means cuplug, so that programs written for torch run as they are."""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ...allocators.errors import CuplugError
from ..facade.public_paths import why_missing
from ..machine.default_runtime import init
from .program_runs import note_misplaced, run_program, what_is_missing

_PACKAGE = __name__.partition(".")[0]
_SHADOW = Path(__file__).parent / "torch_shadow"
"""Holds a file ``torch.py``, which processes that the program starts find first."""

_TORCH = "2.13.0"
"""The version of PyTorch that cuplug is compared with. Programs ask for it before they call what is newer."""


def as_torch() -> None:
    """Let every import of ``torch`` find cuplug: in this process, and in those that it starts. Again it does nothing.

    ``import torch``, ``from torch.x import y`` and ``torch.nn.functional`` then mean cuplug. What cuplug does not have
    is an error that says so. ``torch.__version__``, and with it cuplug's, names PyTorch's version and then cuplug's.

    Raises:
        CuplugError: PyTorch itself was imported before.
    """
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    found = sys.modules.get("torch")
    if found is not None and not getattr(found, "is_shadow_of_torch", False):
        raise CuplugError("PyTorch was imported before cuplug could take its place: call as_torch() first")
    sys.meta_path.insert(0, _Finder())
    package: Any = importlib.import_module(_PACKAGE)
    package.__version__ = f"{_TORCH}+cuplug.{package.__version__}"
    sys.modules["torch"] = package
    sys.path.insert(min(1, len(sys.path)), str(_SHADOW))  # spawned processes get this list
    os.environ["CUPLUG_AS_TORCH"] = "1"  # where cuplug is installed, the variable alone does it
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(_SHADOW) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([str(_SHADOW), *filter(None, paths)])


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch's modules, and puts cuplug's there."""

    def find_spec(self, fullname: str, *_path: object, **_named: object) -> importlib.machinery.ModuleSpec | None:
        head, _, rest = fullname.partition(".")
        if head != "torch":
            return None
        if rest:
            _module(rest)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        rest = module.__name__.partition(".")[2]
        # The import system then takes what stands there.
        sys.modules[module.__name__] = _module(rest) if rest else sys.modules[_PACKAGE]


def _module(rest: str) -> ModuleType:
    """The module at torch's path ``rest``: one of cuplug's public paths, or a module that is a name of one.

    Raises:
        ModuleNotFoundError: there is none; the error says what to use instead.
    """
    path = f"{_PACKAGE}.{rest}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            raise
        known = "is not part of cuplug" in str(error)
        reason = str(error) if known else why_missing("torch", rest)
    above, _, name = path.rpartition(".")
    found = getattr(sys.modules.get(above), name, None)
    if isinstance(found, ModuleType):
        return found
    # Of another name than the one that was asked for: of ``from torch.nn import X`` it would be silent otherwise.
    raise ModuleNotFoundError(f"torch.{reason} (torch is cuplug here: cuplug.as_torch)", name="torch")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a program with cuplug as ``torch``, as ``python`` would. ``arguments`` are by default the process's own.

    Raises:
        SystemExit: the command line is wrong, or the driver cannot be had; or the program ends so.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cuplug.as_torch",
        description="Run a program that imports torch on cuplug: on a GPU, the simulator (-d sim) or the CPU.",
    )
    parser.add_argument("-d", "--driver", help="for example cuda, or sim:memory=1GiB")
    parser.add_argument("-a", "--allocator", help="for example expandable")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    missing = what_is_missing(asked.program, module=asked.module)
    if missing:
        parser.exit(2, f"{parser.prog}: {missing}\n")
    note_misplaced(parser.prog, asked.arguments, ("-d", "--driver", "-a", "--allocator"))
    try:
        if asked.driver or asked.allocator:
            init(driver=asked.driver, allocator=asked.allocator)
        as_torch()
    except CuplugError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    for name, value in {"CUPLUG_DRIVER": asked.driver, "CUPLUG_ALLOCATOR": asked.allocator}.items():
        if value:
            os.environ[name] = value  # for the processes that the program starts
    run_program(asked.program, asked.arguments, module=asked.module)
