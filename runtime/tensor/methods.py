"""``Tensor``: an array of elements of one type on one device. Its methods stand in the files of its base classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..kernels.launch.arguments import ADDRESS_EXPRESSIONS
from .core.tensor import use_class
from .core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from .ops.comparing import CompareMethods
from .ops.copying import CopyMethods
from .ops.elementwise import apply, apply1, apply2, apply_into, apply_into2, into
from .ops.exchange import ExchangeMethods
from .ops.filling import FillMethods
from .ops.indexing import IndexMethods
from .ops.matmul import matmul
from .ops.new_tensors import CreationMethods
from .ops.pickling import PickleMethods
from .ops.printing import text_of
from .ops.promotion import OperandTypeError, result_types
from .ops.reductions import ReductionMethods
from .ops.repeating import ArrangeMethods
from .ops.views import ViewMethods
from .places.elementwise_table import BY_NAME, TABLE, Operation

__all__ = ["Tensor"]


class Tensor(
    ViewMethods,
    ArrangeMethods,
    IndexMethods,
    CopyMethods,
    FillMethods,
    ReductionMethods,
    CompareMethods,
    CreationMethods,
    ExchangeMethods,
    PickleMethods,
):
    """An array of elements of one type on one device, with torch's methods.

    ``Tensor(2, 3)`` and ``Tensor([1, 2])`` make tensors of the default type as old programs do; newer ones call
    ``empty`` and ``tensor``. Element-wise methods and operators come from the table in ``places/elementwise_table.py``.
    """

    __slots__ = ()
    __array_priority__ = 1000  # NumPy's arrays and numbers leave operators to us
    __hash__ = object.__hash__

    def __new__(cls, *args: Any, device: Any = None) -> Tensor:  # noqa: PYI034 - made elsewhere
        from .core.dtypes import get_default_dtype
        from .ops.legacy_types import legacy_tensor

        return legacy_tensor(get_default_dtype(), "cpu" if device is None else device, args)

    def item(self) -> Any:
        """The only element as Python's number. Waits until it is there.

        Raises:
            ValueError: there is not exactly one element.
        """
        if self._layout.numel != 1:
            raise ShapeError(f"item() is for tensors of one element; this one has {self._layout.numel}")
        value = self._layout.place.read(self).item()
        return float(value) if self._layout.dtype.kind == "f" else value

    def tolist(self) -> Any:
        """The elements as nested lists of Python's numbers, or one number. Waits until they are there."""
        array = self._layout.place.read(self)
        return (array.astype("float32") if self._layout.dtype.is_half else array).tolist()

    def __repr__(self, **_: Any) -> str:
        return text_of(self)

    def __format__(self, specification: str) -> str:
        return format(self.item(), specification) if not self.ndim else object.__format__(self, specification)

    def __bool__(self) -> bool:
        if self._layout.numel != 1:
            raise ShapeError(
                f"whether a tensor of {self._layout.numel} elements is true is ambiguous; ask for .any() or .all()"
            )
        return bool(self.item())

    is_nonzero = __bool__

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.dtype.kind == "f":
            raise TypeError(f"only integer tensors of one element are indices; this one has {self.dtype!r}")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool(apply2(_EQ, self, value).any())

    # --- arithmetic beyond the table

    def add(self, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """``self + alpha * other``."""
        return into(_ADD, out, self, _scaled(_ADD, self, other, alpha))

    def add_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """``add``, in place."""
        return apply_into2(_ADD, self, _scaled(_ADD, self, other, alpha))

    def sub(self, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """``self - alpha * other``."""
        return into(_SUB, out, self, _scaled(_SUB, self, other, alpha))

    def sub_(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """``sub``, in place."""
        return apply_into2(_SUB, self, _scaled(_SUB, self, other, alpha))

    def div(self, other: Any, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
        """The quotient: true, or rounded down (``floor``) or towards 0 (``trunc``)."""
        return into(_division(rounding_mode), out, self, other)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """``div``, in place."""
        return apply_into(_division(rounding_mode), self, self, other)

    def pow(self, exponent: Any) -> Tensor:
        """The power, element by element."""
        return apply2(BY_NAME["pow"], self, exponent)

    def clamp(self, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:  # noqa: A002
        """Elements below ``min`` become ``min``, those above ``max`` become ``max``; either may be left out.

        Raises:
            ValueError: both are left out.
        """
        return into(*_clamp(self, min, max, out))

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002 - torch's names
        """``clamp``, in place."""
        return into(*_clamp(self, min, max, self))

    clip = clamp
    clip_ = clamp_

    def where(self, condition: Tensor, other: Any) -> Tensor:
        """The elements of ``self`` where ``condition`` is True, else those of ``other``."""
        return apply(BY_NAME["where"], condition, self, other)

    def matmul(self, other: Tensor) -> Tensor:
        """The product of matrices: see ``cuplug.matmul``."""
        return matmul(self, other)

    __matmul__ = matmul

    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices.

        Raises:
            ValueError: an operand has not two dimensions.
        """
        if self.ndim != 2 or mat2.ndim != 2:
            raise ShapeError(f"mm: both must have two dimensions; they have {self.ndim} and {mat2.ndim}")
        return matmul(self, mat2)

    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of two batches of matrices.

        Raises:
            ValueError: an operand has not three dimensions, or the batches differ in size.
        """
        if self.ndim != 3 or mat2.ndim != 3 or self.shape[0] != mat2.shape[0]:
            raise ShapeError(f"bmm: batches of matrices of equal size are needed; got {self.shape} and {mat2.shape}")
        return matmul(self, mat2)

    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector.

        Raises:
            ValueError: they are not a matrix and a vector.
        """
        if self.ndim != 2 or vec.ndim != 1:
            raise ShapeError(f"mv: a matrix and a vector are needed; they have {self.ndim} and {vec.ndim} dimensions")
        return matmul(self, vec)

    def dot(self, other: Tensor) -> Tensor:
        """The scalar product of two vectors.

        Raises:
            ValueError: an operand has not one dimension.
        """
        if self.ndim != 1 or other.ndim != 1:
            raise ShapeError(f"dot: both must have one dimension; they have {self.ndim} and {other.ndim}")
        return matmul(self, other)

    if TYPE_CHECKING:
        # The table's methods: their names are not known to static checks.
        def __getattr__(self, name: str) -> Callable[..., Tensor]: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __radd__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __rsub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __rmul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __rtruediv__(self, other: Any) -> Tensor: ...
        def __floordiv__(self, other: Any) -> Tensor: ...
        def __mod__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __and__(self, other: Any) -> Tensor: ...
        def __or__(self, other: Any) -> Tensor: ...
        def __xor__(self, other: Any) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __lt__(self, other: Any) -> Tensor: ...
        def __le__(self, other: Any) -> Tensor: ...
        def __gt__(self, other: Any) -> Tensor: ...
        def __ge__(self, other: Any) -> Tensor: ...
        def __eq__(self, other: object) -> Tensor: ...  # type: ignore[override]
        def __ne__(self, other: object) -> Tensor: ...  # type: ignore[override]


_ADD, _SUB, _EQ = BY_NAME["add"], BY_NAME["sub"], BY_NAME["eq"]
_ROUNDING = {None: BY_NAME["div"], "floor": BY_NAME["floor_divide"], "trunc": BY_NAME["trunc_divide"]}


def _scaled(operation: Operation, tensor: Any, other: Any, alpha: Any) -> Any:
    """``other`` times ``alpha``, which must be of no higher kind than the result."""
    if type(alpha) is int and alpha == 1:
        return other
    types, _ = result_types(operation, (tensor, other))
    kind = types[0].kind
    if (kind != "f" and isinstance(alpha, float)) or (kind != "b" and isinstance(alpha, bool)):
        raise ElementTypeError(f"{operation.name}: the result is of {types[0]!r}, and alpha cannot be {alpha!r}")
    return other * (bool(alpha) if kind == "b" else alpha)


def _division(rounding_mode: str | None) -> Operation:
    if rounding_mode not in _ROUNDING:
        raise ArgumentError(f"div: rounding_mode is None, 'floor' or 'trunc', not {rounding_mode!r}")
    return _ROUNDING[rounding_mode]


def _clamp(tensor: Tensor, low: Any, high: Any, out: Tensor | None) -> tuple[Any, ...]:
    if low is None and high is None:
        raise ArgumentError("clamp: give min, max or both")
    if high is None:
        return BY_NAME["clamp_min"], out, tensor, low
    if low is None:
        return BY_NAME["clamp_max"], out, tensor, high
    return BY_NAME["clamp_both"], out, tensor, low, high


def _add_methods(operation: Operation) -> None:
    """Give ``Tensor`` the methods and operators of a line of the table, unless it defines them itself."""
    methods: dict[str, Any] = {}
    if operation.arity == 1:
        methods[""] = lambda self: apply1(operation, self)
        methods["_"] = lambda self: apply_into(operation, self, self)
    elif operation.arity == 2:
        methods[""] = lambda self, other: apply2(operation, self, other)
        methods["_"] = lambda self, other: apply_into2(operation, self, other)
    else:
        methods[""] = lambda self, *others: apply(operation, self, *others)
        methods["_"] = lambda self, *others: apply_into(operation, self, self, *others)
    if not operation.in_place:
        del methods["_"]
    for suffix, method in methods.items():
        for name in (operation.name, *operation.aliases):
            _add(name + suffix, method, f"{operation.name}, element by element" + (", in place." if suffix else "."))
    if operation.operator:
        _add_operators(operation)


def _add_operators(operation: Operation) -> None:
    name = operation.operator
    if operation.arity == 1:
        _add(f"__{name}__", lambda self: apply1(operation, self))
        return

    def forward(self: Tensor, other: Any) -> Any:
        try:  # as in apply2
            plan = self._layout.plans[operation, other._layout]
        except (KeyError, AttributeError):
            try:
                return apply2(operation, self, other)
            except OperandTypeError:
                return NotImplemented  # Python asks the other operand, and raises TypeError in the end
        return plan(self, other)

    def backward(self: Tensor, other: Any) -> Any:
        try:
            return apply(operation, other, self)
        except OperandTypeError:
            return NotImplemented

    def in_place(self: Tensor, other: Any) -> Tensor:
        return apply_into2(operation, self, other)

    _add(f"__{name}__", forward)
    if name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return
    _add(f"__r{name}__", backward)
    _add(f"__i{name}__", in_place)


def _add(name: str, method: Any, text: str = "") -> None:
    if name in vars(Tensor) and name != "__eq__":
        return
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = text or None
    setattr(Tensor, name, method)


for _operation in TABLE:
    _add_methods(_operation)
use_class(Tensor)

_OFFSET = "{0}._offset * {0}._layout.dtype.itemsize"
ADDRESS_EXPRESSIONS[Tensor] = f"({{0}}._storage.address + {_OFFSET} if {{0}}._layout.place.ordinal >= 0 else refuse())"
"""On the CPU there is no ordinal: that raises."""
