"""Element types, and the rules by which operands of different types combine: torch's rules, not NumPy's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .printed_names import package_name

__all__ = [
    "bfloat16",
    "can_cast",
    "dtype",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "int8",
    "int16",
    "int32",
    "int64",
    "promote_types",
    "set_default_dtype",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

Scalar = bool | int | float


class dtype:  # noqa: N801 - torch's name
    """An element type. There is one object of each, so that ``is`` compares them."""

    __slots__ = ("_numpy", "_wrap", "c_name", "itemsize", "kind", "maximum", "minimum", "name", "struct")
    minimum: int
    maximum: int
    """The range of an integer type, or of bool."""

    def __init__(self, name: str, kind: str, itemsize: int, c_name: str, struct: str) -> None:
        self.name = name
        self.kind = kind
        """``b`` for bool, ``u`` and ``i`` for integers without and with a sign, ``f`` for floating point."""
        self.itemsize = itemsize
        """Bytes of one element."""
        self.c_name = c_name
        """The type in CUDA C."""
        self.struct = struct
        """The letter of the type that computes with it, for the module ``struct``: half types compute in float."""
        self._numpy: np.dtype[Any] | None = None
        self._wrap: Any = None
        if kind == "b":
            self.minimum, self.maximum = 0, 1
        elif kind != "f":
            half = 1 << (8 * itemsize - 1)
            self.minimum, self.maximum = (0, 2 * half - 1) if kind == "u" else (-half, half - 1)

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's type. bfloat16 is that of ``ml_dtypes``, imported at first use."""
        if self._numpy is None:
            if self.name == "bfloat16":
                import ml_dtypes

                self._numpy = np.dtype(ml_dtypes.bfloat16)
            else:
                self._numpy = np.dtype(self.name)
        return self._numpy

    @property
    def is_floating_point(self) -> bool:
        """Whether this is float16, bfloat16, float32 or float64."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """False: there are no complex types here."""
        return False

    @property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return self.kind in "if"

    @property
    def is_half(self) -> bool:
        """Whether it is a type of two bytes that is stored but not computed with: float16 or bfloat16."""
        return self.kind == "f" and self.itemsize == 2

    @property
    def computed(self) -> dtype:
        """The type in which arithmetic on it is done: float32 for the half types, else itself."""
        return float32 if self.is_half else self

    def scalar(self, value: Scalar) -> Any:
        """``value`` as NumPy's scalar of this type. Integers out of range wrap around, as a cast in C does."""
        wrap = self._wrap
        if wrap is None:
            wrap = self._wrap = self.numpy.type
        if self.kind in "ui":
            value = int(value)
            if not self.minimum <= value <= self.maximum:
                value = (value - self.minimum) % (1 << 8 * self.itemsize) + self.minimum
        return wrap(value)

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _named, (self.name,)


bool_ = dtype("bool", "b", 1, "bool", "?")
uint8 = dtype("uint8", "u", 1, "unsigned char", "B")
uint16 = dtype("uint16", "u", 2, "unsigned short", "H")
uint32 = dtype("uint32", "u", 4, "unsigned int", "I")
uint64 = dtype("uint64", "u", 8, "unsigned long long", "Q")
int8 = dtype("int8", "i", 1, "signed char", "b")
int16 = dtype("int16", "i", 2, "short", "h")
int32 = dtype("int32", "i", 4, "int", "i")
int64 = dtype("int64", "i", 8, "long long", "q")
float16 = dtype("float16", "f", 2, "__half", "f")
bfloat16 = dtype("bfloat16", "f", 2, "__nv_bfloat16", "f")
float32 = dtype("float32", "f", 4, "float", "f")
float64 = dtype("float64", "f", 8, "double", "d")

ALL = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
"""The types that all operations take, in order."""
UNSIGNED = (uint16, uint32, uint64)
"""The wider unsigned ones, for kernels' counters and keys: torch combines them with few others."""
LEGACY_NAMES = {
    "FloatTensor": float32,
    "DoubleTensor": float64,
    "HalfTensor": float16,
    "BFloat16Tensor": bfloat16,
    "ByteTensor": uint8,
    "CharTensor": int8,
    "ShortTensor": int16,
    "IntTensor": int32,
    "LongTensor": int64,
    "BoolTensor": bool_,
}
"""What old programs call tensors of a type; errors name the type by the first part."""
_BY_NAME = {each.name: each for each in (*ALL, *UNSIGNED)}
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2}
_default = float32


def _named(name: str) -> dtype:
    return _BY_NAME[name]


def get_default_dtype() -> dtype:
    """The type of floating-point tensors whose type nobody names: float32 unless changed."""
    return _default


def set_default_dtype(new: dtype) -> None:
    """Let ``new`` be the type of floating-point tensors whose type nobody names.

    Raises:
        TypeError: it is not a floating-point type.
    """
    global _default
    if getattr(new, "kind", None) != "f":
        raise TypeError(f"the default dtype must be a floating-point type; {new!r} is not")
    _default = new


def from_numpy(numpy_dtype: Any) -> dtype:
    """The element type that NumPy calls ``numpy_dtype``.

    Raises:
        TypeError: there is none.
    """
    found = np.dtype(numpy_dtype)
    ours = _OF_NUMPY.get(found)
    return _of_numpy(found) if ours is None else ours


_OF_NUMPY: dict[Any, dtype] = {}
"""Types that were looked up: NumPy makes a type's name anew each time that it is asked for."""


def _of_numpy(found: np.dtype[Any]) -> dtype:
    ours = _BY_NAME.get(found.name)
    if ours is None:
        if found.kind == "c":
            raise TypeError(f"{found} is not part of cuplug; use two tensors, of real and imaginary parts")
        known = ", ".join(each.name for each in ALL)
        raise TypeError(f"tensors cannot hold elements of NumPy's type {found}; convert to one of: {known}")
    if not found.isnative:
        raise TypeError(f"elements are in foreign byte order ({found.str}); convert with .astype({found.name!r}) first")
    _OF_NUMPY[found] = ours
    return ours


def dtype_of(given: Any) -> dtype:
    """``given`` as an element type: one of ours, Python's ``float``, ``int``, ``bool``, or what NumPy understands.

    Raises:
        TypeError: it names no element type.
    """
    if type(given) is dtype:
        return given
    if type(given) is str and given in _BY_NAME:
        return _BY_NAME[given]
    if given is float:
        return float64
    if given is int:
        return int64
    if given is bool:
        return bool_
    try:
        return from_numpy(given)
    except TypeError as error:
        raise TypeError(f"{given!r} is no element type: {error}") from None


def scalar_dtype(kind: type) -> dtype:
    """The element type that a Python number of type ``kind`` stands for."""
    if kind is bool:
        return bool_
    if kind is float:
        return _default
    return int64


@cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that both convert to (``torch.promote_types``; torch, "Type promotion").

    Raises:
        TypeError: one is ``uint16``, ``uint32`` or ``uint64``, and the other another integer type or bool.
    """
    a, b = type1, type2
    if a is b:
        return a
    if (a in UNSIGNED or b in UNSIGNED) and "f" not in (a.kind, b.kind):
        raise TypeError(f"{a!r} and {b!r} have no common type, as in torch; convert one with .to(...)")
    if _RANK[a.kind] != _RANK[b.kind]:
        return a if _RANK[a.kind] > _RANK[b.kind] else b
    if a.kind == "f":
        if a.itemsize == b.itemsize:  # float16 and bfloat16
            return float32
        return a if a.itemsize > b.itemsize else b
    if a.itemsize == b.itemsize:  # uint8 and int8
        return int16
    return a if a.itemsize > b.itemsize else b


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether results of ``from_`` may be stored in ``to``: not from floats to integers, not to bool.

    Raises:
        TypeError: one is no dtype.
    """
    try:
        return _RANK[from_.kind] <= _RANK[to.kind]
    except AttributeError:
        raise TypeError(f"can_cast(): both arguments must be dtypes, not {from_!r} and {to!r}") from None


def combine(dimensioned: dtype | None, zero_dimensional: dtype | None, number: dtype | None) -> dtype:
    """The common type of operands in three groups; a later group counts only where it is of a higher kind.

    The groups are tensors with dimensions, tensors without, and Python numbers (torch, "Tensor Attributes",
    ``torch.dtype``; ``combine_categories`` in ``aten/src/ATen/native/TypeProperties.cpp``).
    """
    return _combine(dimensioned, _combine(zero_dimensional, number))  # type: ignore[return-value]


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    if higher is None or lower is None:
        return higher or lower
    if higher.kind == "f":
        return higher
    if higher.kind == "b" or lower.kind == "f":
        return promote_types(higher, lower)
    return higher
