"""The allocators in C++, as fast as a function call and without the interpreter's lock: whether they are here, and what
C and other libraries need of them.

Where the extension module was not built, or ``CUPLUG_NATIVE=0`` says so, everything works without it, in Python.
"""

from __future__ import annotations

from pathlib import Path

from ..core_choice import VARIABLE, is_available, why_not

__all__ = ["VARIABLE", "get_include", "is_available", "why_not"]


def get_include() -> str:
    """The folder of the C header ``cuplug_allocator.h``, for a compiler's ``-I``. It is there in any case."""
    return str(Path(__file__).resolve().parent)
