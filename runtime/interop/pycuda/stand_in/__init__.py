"""A package in PyCUDA's place: the same functions and classes over cuplug's runtime and its simulator.

``shadowing.py`` puts it there under the name ``pycuda``. A module ``pycuda_X.py`` is what programs import as
``pycuda.X``. What is not here raises with its name.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NoReturn

__all__ = ["MODULES", "VERSION", "VERSION_STATUS", "VERSION_TEXT"]

MODULES = (
    "autoinit",
    "autoprimaryctx",
    "characterize",
    "compiler",
    "cumath",
    "curandom",
    "driver",
    "elementwise",
    "gpuarray",
    "reduction",
    "scan",
    "tools",
)
"""What the stand-in serves of PyCUDA, without ``pycuda.``."""

VERSION = (2024, 1)
"""The version of PyCUDA whose interface is served."""
VERSION_STATUS = "+cuplug"
VERSION_TEXT = ".".join(map(str, VERSION)) + VERSION_STATUS


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        _absent("pycuda", name)
    module = import_module(f".pycuda_{name}", __name__)  # for `from pycuda import gpuarray`
    module.__getattr__ = partial(_absent, f"pycuda.{name}")  # type: ignore[method-assign]
    return module


def _absent(module: str, name: str) -> NoReturn:
    raise AttributeError(f"cuplug's stand-in for PyCUDA has no {module}.{name}")
