"""The table of element-wise operations. A new operation is one line in it, and nothing else.

A line gives the name, the number of operands, NumPy's implementation, the expression in CUDA C and the promotion rule.
From it come the function, the method, the in-place method, the operators and both implementations.

Implementations receive operands that were converted to the type the operation computes in (float for the half
types). The expression calls them ``a``, ``b`` and ``c``, that type ``T``, and may use the helpers of
``backends/cuda_source.py``.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.dtypes import dtype
from ..core.tensor_errors import ArgumentError

__all__ = ["BY_NAME", "COPY", "TABLE", "Operation", "Rule"]


class Rule(enum.Enum):
    """In which type an operation computes, and which type its result has."""

    SAME = "computes and results in the operands' common type"
    NUMERIC = "as SAME, but not for bool"
    NO_BOOL = "as SAME, and no operand may be bool"
    COUNTED = "as SAME; bool becomes int64"
    INTEGER = "as SAME, but for integers and bool only"
    WHOLE = "as SAME, but for integers only"
    FLOATING = "as SAME, but for floats only"
    FLOAT = "as SAME; integers and bool become the default floating-point type"
    TEST = "computes in the common type and results in bool"
    SELECT = "the first operand is bool; the others as SAME"
    FIRST = "computes and results in the first operand's type"


@dataclass(frozen=True, eq=False)
class Operation:
    """One line of the table."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    """It may take ``out``, which can be the memory of an operand; then results are not copied."""
    cuda: str
    rule: Rule = Rule.SAME
    operator: str = ""
    """The name of Python's operator method, without underscores and without the ``r`` or ``i`` in front."""
    aliases: tuple[str, ...] = ()
    in_place: bool = True
    """Whether there is a method ``name_``."""
    divides: bool = False
    """Whether integers can be divided by zero: an error on the CPU; on a device the result is undefined."""
    numbers: bool = True
    """Whether a Python number may stand beside tensors."""
    check: Callable[[dtype], Callable[[Any], None] | None] = lambda kind: None  # noqa: ARG005
    """For a Python number as the last operand: what looks at it, given the type it is converted to, and may raise."""

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


def _sigmoid(a: Any, out: Any = None) -> Any:
    out = np.empty_like(a) if out is None else out
    np.exp(np.negative(a, out=out), out=out)
    return np.reciprocal(np.add(out, 1, out=out), out=out)


def _rsqrt(a: Any, out: Any = None) -> Any:
    return np.reciprocal(np.sqrt(a, out=out), out=out)


def _relu(a: Any, out: Any = None) -> Any:
    return np.maximum(a, a.dtype.type(0), out=out)


def _integers_stay(rounding: np.ufunc) -> Callable[..., Any]:
    def rounded(a: Any, out: Any = None) -> Any:
        return rounding(a, out=out) if a.dtype.kind == "f" else np.positive(a, out=out)

    return rounded


def _pow(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f" and not np.ndim(b) and b == 2:
        return np.multiply(a, a, out=out)
    if a.dtype.kind != "i":
        return np.power(a, b, out=out)
    positive = np.power(a, np.maximum(b, 0))  # 1 / a**n is 0 in integers, unless a is 1 or -1
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0))
    return np.positive(np.where(b < 0, inverse.astype(positive.dtype), positive), out=out)


def _logical(ufunc: np.ufunc) -> Callable[..., Any]:
    def combined(a: Any, b: Any, out: Any = None) -> Any:
        # NumPy is much faster with a bool than with another number.
        return ufunc(a, b, out=out) if np.ndim(b) else ufunc(a, np.bool_(b), out=out)

    return combined


def _sign(a: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f":  # 0 for NaN in torch
        return np.subtract(a > 0, a < 0, dtype=a.dtype, out=out)
    return np.logical_or(a, a, out=out) if a.dtype.kind == "b" else np.sign(a, out=out)


def _by_python(function: Callable[[float], float]) -> Callable[..., Any]:
    """One of the module ``math``, which NumPy does not have: element by element, some 0.1 µs each."""
    each = np.frompyfunc(function, 1, 1)

    def elementwise(a: Any, out: Any = None) -> Any:
        return np.positive(np.asarray(each(a), a.dtype), out=out)

    return elementwise


def _signbit(a: Any, out: Any = None) -> Any:
    return np.signbit(a, out=out) if a.dtype.kind == "f" else np.less(a, 0, out=out)


def _lerp(a: Any, b: Any, weight: Any, out: Any = None) -> Any:
    return np.add(a, weight * (b - a), out=out)


def _frac(a: Any, out: Any = None) -> Any:
    return np.subtract(a, np.trunc(a), out=out)


def _divide_truncated(a: Any, b: Any, out: Any = None) -> Any:
    if a.dtype.kind == "f":
        return np.trunc(np.divide(a, b, out=out), out=out)
    quotient = np.floor_divide(a, b)
    return np.add(quotient, ((quotient < 0) & (quotient * b != a)).astype(quotient.dtype), out=out)


def _power_of_integers(kind: dtype) -> Callable[[Any], None] | None:
    def check(exponent: Any) -> None:
        if exponent < 0:
            raise ArgumentError(f"pow: integers have no power of {exponent}; convert to a floating-point type first")

    return None if kind.kind == "f" else check


def _fits(kind: dtype) -> Callable[[Any], None] | None:
    def check(value: Any) -> None:
        if not low <= value <= high:
            raise ArgumentError(f"{value} is beyond the range of {kind!r}")

    if kind.kind not in "ui":
        return None
    # A negative number wraps around in an unsigned type, as in C and in torch.
    low, high = -kind.maximum if kind.kind == "u" else kind.minimum, kind.maximum
    return check


S, N, I, F, T = Rule.SAME, Rule.NUMERIC, Rule.INTEGER, Rule.FLOAT, Rule.TEST  # noqa: E741

# fmt: off
TABLE = (
    # arithmetic of two operands
    Operation("add",           2, np.add,           "a + b",                    S, "add", ()),
    Operation("sub",           2, np.subtract,      "a - b",              Rule.NO_BOOL, "sub", ("subtract",)),
    Operation("mul",           2, np.multiply,      "a * b",                    S, "mul", ("multiply",)),
    Operation("div",           2, np.true_divide,   "a / b",                F, "truediv", ("true_divide", "divide")),
    Operation("floor_divide",  2, np.floor_divide,  "floor_divide(a, b)",       N, "floordiv", divides=True),
    Operation("trunc_divide",  2, _divide_truncated, "trunc_divide(a, b)",      N, divides=True),
    Operation("remainder",     2, np.remainder,     "floor_remainder(a, b)",    N, "mod", divides=True),
    Operation("fmod",          2, np.fmod,          "trunc_remainder(a, b)",    N, divides=True),
    Operation("pow",           2, _pow,             "power(a, b)",              N, "pow", check=_power_of_integers),
    Operation("maximum",       2, np.maximum,       "maximum(a, b)",            S, in_place=False, numbers=False),
    Operation("minimum",       2, np.minimum,       "minimum(a, b)",            S, in_place=False, numbers=False),
    Operation("clamp_min",     2, np.maximum,       "maximum(a, b)",            N),
    Operation("clamp_max",     2, np.minimum,       "minimum(a, b)",            N),
    Operation("fmax",          2, np.fmax,          "isnan_(a) || b > a ? b : a", S, in_place=False, numbers=False),
    Operation("fmin",          2, np.fmin,          "isnan_(a) || b < a ? b : a", S, in_place=False, numbers=False),
    Operation("atan2",         2, np.arctan2,       "atan2(a, b)",              F, aliases=("arctan2",), numbers=False),
    Operation("hypot",         2, np.hypot,         "hypot(a, b)",              Rule.FLOATING, numbers=False),
    Operation("copysign",      2, np.copysign,      "copysign(a, b)",           F),

    # comparison and logic
    Operation("eq",            2, np.equal,         "a == b",                   T, "eq"),
    Operation("ne",            2, np.not_equal,     "a != b",                   T, "ne", ("not_equal",)),
    Operation("lt",            2, np.less,          "a < b",                    T, "lt", ("less",)),
    Operation("le",            2, np.less_equal,    "a <= b",                   T, "le", ("less_equal",)),
    Operation("gt",            2, np.greater,       "a > b",                    T, "gt", ("greater",)),
    Operation("ge",            2, np.greater_equal, "a >= b",                   T, "ge", ("greater_equal",)),
    Operation("logical_and",   2, _logical(np.logical_and),   "a != T(0) && b != T(0)",   T, numbers=False),
    Operation("logical_or",    2, _logical(np.logical_or),    "a != T(0) || b != T(0)",   T, numbers=False),
    Operation("logical_xor",   2, _logical(np.logical_xor),   "(a != T(0)) != (b != T(0))", T, numbers=False),
    Operation("logical_not",   1, np.logical_not,   "a == T(0)",                T),
    Operation("bitwise_and",   2, np.bitwise_and,   "a & b",                    I, "and"),
    Operation("bitwise_or",    2, np.bitwise_or,    "a | b",                    I, "or"),
    Operation("bitwise_xor",   2, np.bitwise_xor,   "a ^ b",                    I, "xor"),
    Operation("bitwise_not",   1, np.invert,        "bitwise_not_(a)",          I, "invert"),
    Operation("bitwise_left_shift",  2, np.left_shift,  "shift_left(a, b)",  Rule.WHOLE, "lshift"),
    Operation("bitwise_right_shift", 2, np.right_shift, "shift_right(a, b)", Rule.WHOLE, "rshift"),

    # of one operand: signs and rounding
    Operation("neg",           1, np.negative,      "-a",                       N, "neg", ("negative",)),
    Operation("positive",      1, np.positive,      "a",                        N, "pos", in_place=False),
    Operation("abs",           1, np.absolute,      "absolute(a)",              N, "abs", ("absolute",)),
    Operation("sign",          1, _sign,            "sign(a)",                  S),
    Operation("square",        1, np.square,        "a * a",                    Rule.COUNTED),
    Operation("reciprocal",    1, np.reciprocal,    "T(1) / a",                 F),
    Operation("floor",         1, _integers_stay(np.floor), "floor_(a)",        N),
    Operation("ceil",          1, _integers_stay(np.ceil),  "ceil_(a)",         N),
    Operation("trunc",         1, _integers_stay(np.trunc), "trunc_(a)",        N, aliases=("fix",)),
    Operation("round",         1, _integers_stay(np.rint),  "rint_(a)",         N),
    Operation("frac",          1, _frac,            "a - trunc(a)",             Rule.FLOATING),
    Operation("signbit",       1, _signbit,    "signbit_(a)", T, in_place=False),
    Operation("isnan",         1, np.isnan,    "isnan_(a)", T, in_place=False),
    Operation("isinf",         1, np.isinf,    "isinf_(a)", T, in_place=False),
    Operation("isfinite",      1, np.isfinite, "!isinf_(a) && !isnan_(a)", T, in_place=False),

    # of one operand: functions of analysis
    Operation("exp",           1, np.exp,           "exp(a)",                   F),
    Operation("exp2",          1, np.exp2,          "exp2(a)",                  F),
    Operation("expm1",         1, np.expm1,         "expm1(a)",                 F),
    Operation("log",           1, np.log,           "log(a)",                   F),
    Operation("log2",          1, np.log2,          "log2(a)",                  F),
    Operation("log10",         1, np.log10,         "log10(a)",                 F),
    Operation("log1p",         1, np.log1p,         "log1p(a)",                 F),
    Operation("sqrt",          1, np.sqrt,          "sqrt(a)",                  F),
    Operation("rsqrt",         1, _rsqrt,           "rsqrt(a)",         F),
    Operation("sin",           1, np.sin,           "sin(a)",                   F),
    Operation("cos",           1, np.cos,           "cos(a)",                   F),
    Operation("tan",           1, np.tan,           "tan(a)",                   F),
    Operation("asin",          1, np.arcsin,        "asin(a)",                  F, aliases=("arcsin",)),
    Operation("acos",          1, np.arccos,        "acos(a)",                  F, aliases=("arccos",)),
    Operation("atan",          1, np.arctan,        "atan(a)",                  F, aliases=("arctan",)),
    Operation("sinh",          1, np.sinh,          "sinh(a)",                  F),
    Operation("cosh",          1, np.cosh,          "cosh(a)",                  F),
    Operation("tanh",          1, np.tanh,          "tanh(a)",                  F),
    Operation("asinh",         1, np.arcsinh,       "asinh(a)",                 F, aliases=("arcsinh",)),
    Operation("acosh",         1, np.arccosh,       "acosh(a)",                 F, aliases=("arccosh",)),
    Operation("atanh",         1, np.arctanh,       "atanh(a)",                 F, aliases=("arctanh",)),
    Operation("erf",           1, _by_python(math.erf),  "erf(a)",              F),
    Operation("erfc",          1, _by_python(math.erfc), "erfc(a)",             F),
    Operation("deg2rad",       1, np.deg2rad,       "a * T(0.017453292519943295)", F),
    Operation("rad2deg",       1, np.rad2deg,       "a * T(57.29577951308232)", F),
    Operation("sigmoid",       1, _sigmoid,         "T(1) / (T(1) + exp(-a))",  F),
    Operation("relu",          1, _relu,            "a < T(0) ? T(0) : a",      N),

    # of three operands
    Operation("lerp",          3, _lerp,            "a + c * (b - a)",          Rule.FLOATING),
    Operation("clamp_both",    3, np.clip,          "minimum(maximum(a, b), c)", N),
    Operation("where",         3, np.where,         "a ? b : c",                Rule.SELECT, in_place=False),
)
# fmt: on

BY_NAME = {name: operation for operation in TABLE for name in (operation.name, *operation.aliases)}

COPY = Operation("copy", 1, np.positive, "a", Rule.FIRST, check=_fits)
"""Writes its operand: copies, casts and fills. The implementations treat it apart."""
