"""CUDA's vector types as NumPy's: ``vec.float3``, ``vec.make_float3(x, y, z)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

_BASES = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
    "longlong": np.int64,
    "ulonglong": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


class vec:  # noqa: N801 - PyCUDA's name
    """The vector types, and a function ``make_…`` for each. Fields are ``x``, ``y``, ``z`` and ``w``."""

    types: dict[str, np.dtype[Any]] = {}  # noqa: RUF012 - filled below
    """The types by what CUDA calls them."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _maker(dtype: np.dtype[Any]) -> Any:
    def make(*parts: Any) -> Any:
        """One element; parts that are left out are zero."""
        count = len(dtype.names or ())
        if len(parts) > count:
            raise TypeError(f"{len(parts)} parts for a type of {count}")
        return np.array((*parts, *[0] * (count - len(parts))), dtype)[()]

    return make


for _base, _kind in _BASES.items():
    for _count in (1, 2, 3, 4):
        _name = f"{_base}{_count}"
        _type = np.dtype([(axis, _kind) for axis in "xyzw"[:_count]])
        vec.types[_name] = _type
        setattr(vec, _name, _type)
        setattr(vec, f"make_{_name}", staticmethod(_maker(_type)))
