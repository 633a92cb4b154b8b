"""Conversion of arrays: between float16 and float32 in the core where that was built, for NumPy converts these one by
one (2 and 6 ns each, where eight at a time take 0.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....allocators.core_choice import is_available

_convert: Callable[[Any, Any], bool] | None = None
"""Of the core, if that is used: converts, and says whether it could."""
if is_available():
    from .....allocators import _native

    _convert = _native.convert_halves

_PAIR = (np.dtype(np.float16), np.dtype(np.float32))
_FEW = 256
"""Up to so many elements NumPy takes no longer."""


def converted(array: Any, kind: np.dtype[Any]) -> Any:
    """The array in the type ``kind``; itself if it has that."""
    if array.dtype == kind:
        return array
    if _is_pair(array, kind):
        made = np.empty(array.shape, kind)
        store(made, array)
        return made
    return array.astype(kind)


def store(out: Any, array: Any) -> None:
    """Write an array, which broadcasts, to ``out``, converted as a cast in C does."""
    quick = _is_pair(array, out.dtype) and out.shape == array.shape and out.flags.c_contiguous
    if not quick or _convert is None or not _convert(out, array):
        out[...] = array


def _is_pair(array: Any, kind: np.dtype[Any]) -> bool:
    return (
        _convert is not None
        and array.size > _FEW
        and (array.dtype, kind) in (_PAIR, _PAIR[::-1])
        and array.flags.c_contiguous
    )
