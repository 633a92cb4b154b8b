"""PyCUDA's own copies and fills, on cuplug's memory: what leaves the allocation that it begins in is refused.

The driver knows the segments that cuplug's blocks lie in, and lets one block be overwritten by a copy to another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ....allocators.errors import DriverError
from ..library_memory import LibraryMemory

_COPIES = {
    "memcpy_htod": ("dest", "src"),
    "memcpy_dtoh": ("dest", "src"),
    "memcpy_dtod": ("dest", "src", "size"),
    "memcpy_peer": ("dest", "src", "size"),
    "memset_d8": ("dest", "data", "size"),
    "memset_d16": ("dest", "data", "size"),
    "memset_d32": ("dest", "data", "size"),
}
"""Their first arguments, as PyCUDA calls them; those of ``_async`` begin alike. Sizes of fills are in elements."""
_ELEMENTS = {"memset_d8": 1, "memset_d16": 2, "memset_d32": 4}


def check_copies(driver: Any, memory: LibraryMemory) -> None:
    """Let the copies and fills of ``pycuda.driver`` raise its ``LogicError`` where they leave memory of cuplug's."""
    for name, arguments in _COPIES.items():
        for full in (name, f"{name}_async"):
            if hasattr(driver, full):
                setattr(driver, full, _checked(driver, memory, name, arguments, getattr(driver, full)))


def _checked(
    driver: Any, memory: LibraryMemory, name: str, arguments: tuple[str, ...], call: Any
) -> Callable[..., Any]:
    @wraps(call, assigned=("__doc__", "__name__"))
    def checked(*args: Any, **keywords: Any) -> Any:
        given = dict(zip(arguments, args)) | keywords  # noqa: B905 - there may be a stream behind them
        if given.keys() >= set(arguments):
            try:
                for pointer, nbytes in _touched(name, given):
                    memory.check(name, int(pointer), nbytes)
            except DriverError as error:
                raise driver.LogicError(str(error)) from None
        return call(*args, **keywords)

    return checked


def _touched(name: str, given: dict[str, Any]) -> list[tuple[Any, int]]:
    """The device memory that a call touches: pointers, and bytes from there on."""
    if name == "memcpy_htod":
        return [(given["dest"], memoryview(given["src"]).nbytes)]
    if name == "memcpy_dtoh":
        return [(given["src"], memoryview(given["dest"]).nbytes)]
    if name in _ELEMENTS:
        return [(given["dest"], int(given["size"]) * _ELEMENTS[name])]
    return [(given["dest"], int(given["size"])), (given["src"], int(given["size"]))]
