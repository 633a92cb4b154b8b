"""The limits of element types: ``finfo`` and ``iinfo``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import bool_, dtype, get_default_dtype

__all__ = ["finfo", "iinfo"]


class finfo:  # noqa: N801 - torch's name
    """The limits of a floating-point type, by default of the default dtype.

    Raises:
        TypeError: the type is none.
    """

    def __init__(self, dtype: dtype | None = None) -> None:
        kind = get_default_dtype() if dtype is None else dtype
        if kind.kind != "f":
            raise TypeError(f"finfo() is for floating-point types; {kind!r} is none, use iinfo()")
        found = _of_bfloat16() if kind.name == "bfloat16" else np.finfo(kind.numpy)
        self.dtype = kind.name
        self.bits = 8 * kind.itemsize
        self.eps = float(found.eps)
        """The distance from 1 to the next larger number."""
        self.max = float(found.max)
        self.min = float(found.min)
        self.tiny = float(found.tiny)
        """The smallest number above 0 that has all digits."""
        self.smallest_normal = self.tiny
        self.resolution = float(found.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:  # noqa: N801 - torch's name
    """The limits of an integer type.

    Raises:
        TypeError: the type is none.
    """

    def __init__(self, dtype: dtype) -> None:
        if dtype.kind == "f" or dtype is bool_:
            raise TypeError(f"iinfo() is for integer types; {dtype!r} is none")
        self.dtype = dtype.name
        self.bits = 8 * dtype.itemsize
        self.min = dtype.minimum
        self.max = dtype.maximum

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def _of_bfloat16() -> Any:
    import ml_dtypes

    found: Any = ml_dtypes.finfo
    return found(ml_dtypes.bfloat16)
