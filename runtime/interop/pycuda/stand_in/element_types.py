"""Arrays whose elements are not what a kernel's parameter points to: the program is warned, since PyCUDA is silent."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from ....kernels.launch.arguments import Parameter, same_numbers
from ....kernels.source.callers import calling_frame

__all__ = ["warn_of_elements"]

_IN_C = {
    "f4": "float",
    "f8": "double",
    "h2": "half",
    "i2": "short",
    "u2": "unsigned short",
    "i4": "int",
    "u4": "unsigned int",
    "i8": "long long",
    "u8": "unsigned long long",
}


def warn_of_elements(kernel: str, place: int, parameter: Parameter, dtype: Any) -> None:
    """Warn, once for each line that launches, of an array that a kernel will read as other numbers.

    Memory may be meant as bytes, or as the unsigned twin of a signed type, and complex numbers as their parts: these
    pass, as does whatever is no number.

    Args:
        kernel: its name.
        place: the argument's, from 0.
        parameter: what it is passed for.
        dtype: what is known of the argument's elements: a NumPy type, or None.
    """
    if dtype is None or not _are_others(parameter.pointee, dtype):
        return
    frame = calling_frame()
    warnings.warn_explicit(
        f"argument {place} of kernel {kernel} holds {np.dtype(dtype).name}, and its parameter is "
        f"{_IN_C[parameter.pointee]} *{parameter.name}: the kernel reads other numbers than the array's (PyCUDA does "
        "not look). Convert the array, or change the parameter",
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


@functools.lru_cache(maxsize=1024)
def _are_others(wanted: str, dtype: Any) -> bool:
    """Whether elements of a NumPy type are other numbers than those of ``Parameter.pointee``.

    It is asked for each array of each launch, about few types: so the answers are kept.
    """
    if wanted not in _IN_C:
        return False
    dtype = np.dtype(dtype)
    kind, size = ("f", dtype.itemsize // 2) if dtype.kind == "c" else (dtype.kind, dtype.itemsize)
    found = "h2" if (kind, size) == ("f", 2) else f"{kind}{size}"
    return kind in "iuf" and size != 1 and not same_numbers(wanted, found)
