"""In which types operations compute, and which types results have: the rules of the table, applied to operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.dtypes import bool_, combine, dtype, get_default_dtype, int64, promote_types, scalar_dtype, uint8
from ...core.needed_tensors import layout_of
from ...core.tensor_errors import ElementTypeError
from ...places.tables_with_gradients.elementwise_table import Elementwise, TypeRule

_NUMBERS = (bool, int, float)


class OperandTypeError(TypeError):
    """An operand is neither a tensor nor a number."""


def result_types(operation: Elementwise, operands: Sequence[Any]) -> tuple[tuple[dtype, ...], dtype]:
    """The types to which the operands are converted, and that of the result.

    Raises:
        TypeError: the operation does not take them.
    """
    rule = operation.rule
    considered = operands[1:] if rule is TypeRule.SELECT else operands
    common = common_dtype(considered)
    if rule is TypeRule.FIRST:
        return (common,) * len(operands), common
    if rule is TypeRule.KEPT:
        return (common,) * len(operands), operands[0].dtype
    if rule is TypeRule.FLOAT and common.kind != "f":
        common = get_default_dtype()
    if common.kind not in _TAKES.get(rule, "buif") or (rule is TypeRule.NO_BOOL and any(map(_is_bool, operands))):
        refused = bool_ if rule is TypeRule.NO_BOOL else common
        raise ElementTypeError(f"{operation.name}() does not take elements of {refused!r}")
    if not operation.numbers and not all(hasattr(each, "_layout") for each in operands):
        raise OperandTypeError(f"{operation.name}() takes tensors, and no numbers beside them")
    tensors = [each for each in operands if hasattr(each, "_layout")]
    # The last one may be a number, or a tensor that stands for one.
    whole = [each for each in tensors if each._layout.shape or each is not operands[-1]]
    if rule is TypeRule.ALIKE and any(each.dtype.kind != "f" for each in whole):
        raise ElementTypeError(f"{operation.name}() takes floating-point tensors")
    if rule is TypeRule.ALIKE and len({each.dtype for each in whole}) > 1:
        raise ElementTypeError(f"{operation.name}() takes tensors of one type; convert those of others")
    if rule is TypeRule.COUNTED and common is bool_:
        common = int64
    if rule is TypeRule.TEST:
        return (common,) * len(operands), bool_
    if rule is TypeRule.SELECT:
        condition = operands[0]
        if layout_of(condition).dtype not in (bool_, uint8):  # uint8 stood for bool once
            raise ElementTypeError(f"{operation.name}() needs a condition of {bool_!r}, not of {condition.dtype!r}")
        return (bool_, *(common,) * (len(operands) - 1)), common
    return (common,) * len(operands), common


_TAKES = {
    TypeRule.NUMERIC: "uif",
    TypeRule.NO_BOOL: "uif",
    TypeRule.INTEGER: "bui",
    TypeRule.WHOLE: "ui",
    TypeRule.FLOATING: "f",
    TypeRule.ALIKE: "f",
}
"""The kinds of types that may be computed in, where not all may."""


def _is_bool(operand: Any) -> bool:
    return type(operand) is bool or getattr(operand, "dtype", None) is bool_


def common_dtype(operands: Sequence[Any]) -> dtype:
    """The type in which tensors and Python numbers combine (``torch.result_type``)."""
    groups: list[dtype | None] = [None, None, None]
    for each in operands:
        if hasattr(each, "_layout"):
            group, kind = (0 if each._layout.shape else 1), each._layout.dtype
        else:
            group, kind = 2, scalar_dtype(type(each))
        before = groups[group]
        groups[group] = kind if before is None else promote_types(kind, before)
    return combine(*groups)


def number_of(given: Any) -> Any:
    """An operand that is no tensor as a Python number.

    Raises:
        ElementTypeError: it is a complex one.
        OperandTypeError: it is none. NumPy's arrays are not taken, as in torch: only a tensor's operators do that.
    """
    if type(given) in _NUMBERS:
        return given
    if isinstance(given, np.generic):
        given = given.item()
    for kind in _NUMBERS:
        if isinstance(given, kind):
            return kind(given)
    if isinstance(given, complex):  # NotImplemented in its place would let == answer False
        raise ElementTypeError("complex is not part of cuplug; use two tensors, of real and of imaginary parts")
    advice = "; from_numpy() makes a tensor of an array" if isinstance(given, np.ndarray) else ""
    raise OperandTypeError(
        f"an operand is a {type(given).__name__}; tensors combine with tensors and with Python's numbers{advice}"
    )


def floating(kind: dtype) -> dtype:
    """The type itself, if it is a floating-point one; else the default dtype."""
    return kind if kind.kind == "f" else get_default_dtype()
