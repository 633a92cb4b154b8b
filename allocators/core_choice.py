"""Whether the native core is used: it was built, and ``CUPLUG_NATIVE=0`` does not switch it off."""

from __future__ import annotations

import os
from importlib import import_module

__all__ = ["VARIABLE", "is_available", "why_not"]

VARIABLE = "CUPLUG_NATIVE"
"""The environment variable that switches the native allocators off, when it is ``0``."""


def _find_problem() -> str | None:
    if os.environ.get(VARIABLE, "") == "0":
        return f"{VARIABLE}=0 switches it off"
    module = f"{__package__}._native"
    try:
        import_module(module)
    except ImportError as error:
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
