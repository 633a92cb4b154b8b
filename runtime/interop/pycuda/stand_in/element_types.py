"""Arrays whose elements are not what a kernel's parameter points to: the program is warned, since PyCUDA is silent."""

from __future__ import annotations

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
    wanted = parameter.pointee
    if dtype is None or wanted not in _IN_C:
        return
    dtype = np.dtype(dtype)
    kind, size = ("f", dtype.itemsize // 2) if dtype.kind == "c" else (dtype.kind, dtype.itemsize)
    found = "h2" if (kind, size) == ("f", 2) else f"{kind}{size}"
    if kind not in "iuf" or size == 1 or same_numbers(wanted, found):
        return
    frame = calling_frame()
    warnings.warn_explicit(
        f"argument {place} of kernel {kernel} holds {dtype.name}, and its parameter is {_IN_C[wanted]} *"
        f"{parameter.name}: the kernel reads other numbers than the array's (PyCUDA does not look). Convert the array, "
        "or change the parameter",
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
