"""A package in PyCUDA's place: the same functions and classes over cuplug's runtime and its simulator.

``shadowing.py`` puts it there under the name ``pycuda``. A module ``pycuda_X.py`` is what programs import as
``pycuda.X``. What is not here raises with its name.
"""

from __future__ import annotations

from typing import Any

__all__ = ["VERSION", "VERSION_STATUS", "VERSION_TEXT"]

VERSION = (2024, 1)
"""The version of PyCUDA whose interface is served."""
VERSION_STATUS = "+cuplug"
VERSION_TEXT = ".".join(map(str, VERSION)) + VERSION_STATUS


def __getattr__(name: str) -> Any:
    raise AttributeError(f"cuplug's stand-in for PyCUDA has no pycuda.{name}")
