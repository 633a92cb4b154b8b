"""Arrays whose elements are not what a kernel's parameter points to: the program is warned, since PyCUDA is silent."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ....kernels.launch.arguments import Parameter, same_numbers
from ....machine.callers import warn_program

_IN_C = {
    "f4": "float",
    "f8": "double",
    "h2": "half",
    "i2": "short",
    "u2": "unsigned short",
    "i4": "int",
    "u4": "unsigned int",
    "i8": "int64_t",
    "u8": "uint64_t",
}
_REMEDIES = {
    "p": "an array is one piece of memory: take one pointer, and compute the index (y * width + x)",
    "s": "NumPy lays structures out as C does with numpy.dtype(..., align=True)",
}


def warn_of_elements(kernel: str, place: int, parameter: Parameter, dtype: Any) -> None:
    """Warn, once for each line that launches, of an array that a kernel will read as other numbers.

    Memory may be meant as bytes, or as the unsigned twin of a signed type, and complex numbers as their parts: these
    pass, as does whatever is no number, except structures of another size.

    Args:
        kernel: its name.
        place: the argument's, from 0.
        parameter: what it is passed for.
        dtype: what is known of the argument's elements: a NumPy type, or None.
    """
    if dtype is None or not _are_others(parameter.pointee, dtype):
        return
    wanted, size = parameter.pointee[0], parameter.pointee[1:]
    what = {"p": "points to pointers", "s": f"points to structures of {size} bytes"}.get(wanted)
    what = f"{parameter.name!r} {what}" if what else f"is {_IN_C[parameter.pointee]} *{parameter.name}"
    remedy = _REMEDIES.get(wanted, "Convert the array, or change the parameter")
    dtype = np.dtype(dtype)
    held = f"structures of {dtype.itemsize} bytes" if dtype.kind == "V" else dtype.name
    warn_program(
        f"argument {place} of kernel {kernel} holds {held}, and its parameter {what}: the kernel reads other numbers "
        f"than the array's (PyCUDA does not look). {remedy[0].upper()}{remedy[1:]}"
    )


@functools.lru_cache(maxsize=1024)
def _are_others(wanted: str, dtype: Any) -> bool:
    """Whether elements of a NumPy type are other numbers than those of ``Parameter.pointee``.

    It is asked for each array of each launch, about few types: so the answers are kept.
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "V" and wanted[:1] == "s":
        return bool(dtype.itemsize != int(wanted[1:]))
    if wanted not in (*_IN_C, "p8"):
        return False
    found = kind_of(np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype)
    return found[0] in "iufh" and found[1:] != "1" and not same_numbers(wanted, found)


def kind_of(dtype: np.dtype[Any]) -> str:
    """A NumPy type as ``Parameter.pointee`` has it."""
    return "h2" if dtype == np.float16 else f"{dtype.kind}{dtype.itemsize}"
