"""NumPy's arrays and numbers as they stand in PyTorch's files: by the names that NumPy's own pickles call.

NumPy would take any element type and any content from a file; here both are checked before an array takes them over.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...core.tensor_errors import ArgumentError, UnreadableNameError

_KINDS = "biufcSU"
"""Element types without objects, fields and units."""
_LONGEST_TYPE = 32
"""Characters in NumPy's name of an element type."""


def _dtype(name: Any, *_: Any) -> np.dtype[Any]:
    """An element type of its own: ``set_byte_order`` changes it."""
    found = np.dtype(name, copy=True) if type(name) is str and len(name) <= _LONGEST_TYPE else None
    if found is None or found.kind not in _KINDS:
        raise UnreadableNameError(
            f"load: the file names numpy's dtype {str(name)[:_LONGEST_TYPE]!r}, of which arrays are not read"
        )
    return found


def set_byte_order(kind: Any, state: Any) -> None:
    """Give an element type that ``_dtype`` made the byte order of a pickle's state, and nothing else of it."""
    version, _, *others = kind.__reduce__()[2]
    kind.__setstate__((version, kind.newbyteorder(state[1]).str[0], *others))


def _array(*_: Any) -> np.ndarray[Any, Any]:
    """An array without elements, which ``fill_array`` fills."""
    return np.empty(0, np.uint8)


def fill_array(array: np.ndarray[Any, Any], state: Any) -> None:
    """Give an array the shape, the element type and the content of a pickle's state.

    Raises:
        ArgumentError: the state is not what NumPy writes.
    """
    _, shape, kind, by_columns, content = state
    if (
        not isinstance(kind, np.dtype)
        or type(content) is not bytes
        or type(shape) is not tuple
        or not all(type(length) is int and length >= 0 for length in shape)
        or prod(shape) * kind.itemsize != len(content)
    ):
        raise ArgumentError("load: an array of NumPy's is not what the file holds of it: it is damaged")
    try:
        array.__setstate__((1, shape, kind, bool(by_columns), content))  # type: ignore[arg-type]
    except MemoryError:  # so NumPy says that there are too many dimensions
        raise ArgumentError(f"load: an array of NumPy's has {len(shape)} dimensions, which is too many") from None


def _number(kind: Any, content: Any) -> Any:
    array = _array()
    fill_array(array, (1, (), kind, False, content))
    return array[()]


NUMPY_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): _dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _array for core in ("_core", "core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _number for core in ("_core", "core")},
}
"""What the names in NumPy's pickles stand for: since NumPy 2, and before."""
