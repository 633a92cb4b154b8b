"""Elements replaced or rounded in ways that take more than operands."""

from __future__ import annotations

from functools import cache

from ...core.dtype_limits import finfo
from ...core.dtypes import dtype
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME, REPAIR
from ..copying.copying import clone
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, apply_into1
from ..elementwise.results import in_place, into, store

__all__ = ["nan_to_num", "nan_to_num_", "round", "round_"]

_WHERE, _ROUND = BY_NAME["where"], BY_NAME["round"]


def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """NaN and infinities replaced by numbers. Integers stay as they are.

    Args:
        input: the tensor.
        nan: what replaces NaN; 0 if None.
        posinf: what replaces infinity; the type's largest number if None.
        neginf: what replaces negative infinity; the type's smallest number if None.
        out: where to write the result; it is given the result's shape.
    """
    if layout_of(input).dtype.kind != "f":
        return into(out, clone(input), exact=True)
    low, high = _limits(input.dtype)
    made = apply(REPAIR, input, high if posinf is None else float(posinf), low if neginf is None else float(neginf))
    if nan:
        made = apply(_WHERE, each.isnan(input), float(nan), made)
    return into(out, made, exact=True)


@cache
def _limits(kind: dtype) -> tuple[float, float]:
    """The smallest and the largest number of a floating-point type."""
    found = finfo(kind)
    return found.min, found.max


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, or number with so many decimals; of two, the even one.

    Args:
        input: the tensor.
        decimals: how many decimals stay; if negative, so many digits before the point become 0.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: the elements are of bool; or integers, and ``decimals`` is not 0.
    """
    if not decimals:
        return into(out, apply(_ROUND, input), exact=True)
    if input.dtype.kind != "f":
        raise ElementTypeError(f"round: integers have no decimals, and this tensor has {input.dtype!r}")
    factor = 10.0 ** abs(decimals)
    up, down = (BY_NAME["mul"], BY_NAME["div"]) if decimals > 0 else (BY_NAME["div"], BY_NAME["mul"])
    return into(out, apply(down, apply(_ROUND, apply(up, input, factor)), factor), exact=True)


nan_to_num_ = in_place(nan_to_num, keeps_input=True)


def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """``round``, written to the tensor itself. It raises what ``round`` raises, and where the result does not fit."""
    if not decimals:
        return apply_into1(_ROUND, input)
    return store(input, round(input, decimals=decimals))
