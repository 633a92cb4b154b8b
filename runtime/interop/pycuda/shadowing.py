"""Puts the stand-in where programs look for PyCUDA: ``import pycuda.driver`` finds ``stand_in/pycuda_driver.py``."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
from collections.abc import Iterator
from types import ModuleType

from ....allocators.errors import CuplugError
from . import stand_in
from .stand_in.cuda_libraries import LIBRARIES, StandInDistribution, library, note_version


def shadow() -> None:
    """Let every import of ``pycuda`` find the stand-in, for the rest of the process. Again it does nothing.

    Raises:
        CuplugError: PyCUDA itself was imported before.
    """
    if is_shadowed():
        return
    if "pycuda" in sys.modules:
        raise CuplugError(
            "PyCUDA was imported before cuplug could take its place: install cuplug at the start of the program"
        )
    sys.meta_path.insert(0, _Finder())


def is_shadowed() -> bool:
    """Whether imports of ``pycuda`` find the stand-in."""
    return any(isinstance(each, _Finder) for each in sys.meta_path)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds PyCUDA's modules, and puts the stand-in's there."""

    def find_spec(self, fullname: str, *_path: object, **_named: object) -> importlib.machinery.ModuleSpec | None:
        if fullname in LIBRARIES:
            return importlib.machinery.ModuleSpec(fullname, self)
        if fullname == "skcuda":
            note_version(stand_in.VERSION_TEXT)
        head, _, rest = fullname.partition(".")
        if head != "pycuda":
            return None
        if rest and rest not in stand_in.MODULES:
            raise ModuleNotFoundError(f"cuplug's stand-in for PyCUDA has no module {fullname}", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=not rest)

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterator[StandInDistribution]:
        """PyCUDA's version, for ``importlib.metadata``."""
        return StandInDistribution.found_as(context.name if context else None, stand_in.VERSION_TEXT)

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in LIBRARIES:
            sys.modules[module.__name__] = library(module.__name__)
            return
        rest = module.__name__.partition(".")[2]
        # The import system then takes what stands there.
        sys.modules[module.__name__] = getattr(stand_in, rest) if rest else stand_in
