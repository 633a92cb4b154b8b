"""The table of element-wise operations. A new operation is one line in it, and nothing else.

A line gives the name, the number of operands, NumPy's implementation, the expression in CUDA C and the promotion rule.
From it come the function, the method, the in-place method (``write_generated.py`` writes their source), the operators
and both implementations.

Implementations receive operands that were converted to the type the operation computes in (float for the half
types). The expression calls them ``a``, ``b`` and ``c``, that type ``T``, and may use the helpers of
``backends/cuda_source.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from typing import Any

import numpy as np

from ...core.dtypes import dtype
from ...core.tensor_errors import ArgumentError
from .. import numpy_forms as forms
from .. import quotients
from ..choice import choose
from ..error_function import erf, erfc


class TypeRule(enum.Enum):
    """In which type an operation computes, and which type its result has."""

    SAME = "computes and results in the operands' common type"
    NUMERIC = "as SAME, but not for bool"
    NO_BOOL = "as SAME, and no operand may be bool"
    COUNTED = "as SAME; bool becomes int64"
    INTEGER = "as SAME, but for integers and bool only"
    WHOLE = "as SAME, but for integers only"
    FLOATING = "as SAME, but for floats only"
    ALIKE = "as FLOATING, and all tensors are of one type"
    FLOAT = "as SAME; integers and bool become the default floating-point type"
    TEST = "computes in the common type and results in bool"
    SELECT = "the first operand is bool; the others as SAME"
    FIRST = "computes and results in the first operand's type"
    KEPT = "computes in the common type and results in the first operand's"


@dataclass(frozen=True, eq=False)
class Elementwise:
    """One line of the table."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    """It may take ``out``, which can be the memory of an operand; then results are not copied."""
    cuda: str
    rule: TypeRule = TypeRule.SAME
    operator: str = ""
    """The name of Python's operator method, without underscores and without the ``r`` or ``i`` in front."""
    aliases: tuple[str, ...] = ()
    public: bool = True
    """Whether there are a function and a method of that name."""
    in_place: bool = True
    """Whether there is a method ``name_``."""
    pieces: bool = False
    """Whether NumPy's implementation makes several arrays on the way, and is faster with what fits into a cache."""
    divides: bool = False
    """Whether integers can be divided by zero: an error on the CPU; on a device the result is undefined."""
    numbers: bool = True
    """Whether a Python number may stand beside tensors."""
    check: Callable[[dtype], Callable[[Any], None] | None] = lambda kind: None  # noqa: ARG005
    """For a Python number as the last operand: what looks at it, given the type it is converted to, and may raise."""
    exact: bool | None = None
    """Whether ``out=`` beside one tensor must be of the result's type, as torch has it; None for what is usual: so it
    is of one operand, but where the result is floating-point in any case."""
    keywords: tuple[str, ...] = ()
    """What torch calls the operands, where that is not ``input`` and ``other``."""
    gradient: tuple[str, ...] | None = None
    """For each operand the gradient, an expression of Python: see ``autograd/gradient_column.py``. It calls the
    result's gradient ``g``, the operands ``a``, ``b`` and ``c``, the result ``y``; empty for an operand that has
    none. An empty tuple says that the operation has none; None that nobody thought of it, which a test finds."""
    title: str = ""
    """What ``grad_fn`` prints, without the 0 behind it, where that does not follow from the name: as in torch."""
    doc: str = ""
    """What it makes of each element, without a full stop."""
    into: ElementwiseInto = field(init=False)
    """The same operation, written to a tensor that is there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "into", ElementwiseInto(self))

    @property
    def exact_out(self) -> bool:
        """``exact``, settled."""
        if self.exact is not None:
            return self.exact
        return self.arity == 1 and self.rule not in (TypeRule.FLOAT, TypeRule.FIRST)

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


@dataclass(frozen=True, eq=False)
class ElementwiseInto:
    """An operation whose result is written to a tensor that is there."""

    operation: Elementwise


def _power_of_integers(kind: dtype) -> Callable[[Any], None] | None:
    def check(exponent: Any) -> None:
        if exponent < 0:
            raise ArgumentError(f"pow: integers have no power of {exponent}; convert to a floating-point type first")

    return None if kind.kind == "f" else check


_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
"""The largest numbers of floating-point types that are smaller than Python's."""


@cache
def _fits(kind: dtype) -> Callable[[Any], None] | None:
    if kind.name in _LARGEST:
        low, high = -_LARGEST[kind.name], _LARGEST[kind.name]
    elif kind.kind in "ui":  # a negative number wraps around in an unsigned type, as in C and in torch
        low, high = -kind.maximum if kind.kind == "u" else kind.minimum, kind.maximum
    else:
        return None

    def check(value: Any) -> None:
        if not low <= value <= high and (kind.kind != "f" or isfinite(value)):
            raise ArgumentError(f"{value} is beyond the range of {kind!r}")

    return check


S, N, I, F, T = TypeRule.SAME, TypeRule.NUMERIC, TypeRule.INTEGER, TypeRule.FLOAT, TypeRule.TEST  # noqa: E741

# fmt: off
TABLE = (
    # arithmetic of two operands
    Elementwise("add", 2, np.add, "a + b", S, "add",
                gradient=("g", "g"),
                doc="The sum"),
    Elementwise("sub", 2, np.subtract, "a - b", TypeRule.NO_BOOL, "sub", ("subtract",),
                gradient=("g", "-g"),
                doc="The difference ``input - other``"),
    Elementwise("mul", 2, np.multiply, "a * b", S, "mul", ("multiply",),
                gradient=("g * b", "g * a"),
                doc="The product"),
    Elementwise("div", 2, np.true_divide, "a / b", F, "truediv", ("true_divide", "divide"),
                gradient=("g / b", "-g * (a / b) / b"),
                doc="The quotient ``input / other``"),
    Elementwise("floor_divide", 2, quotients.floor_divide, "floor_divide(a, b)", N, "floordiv",
                divides=True, pieces=True,
                title="DivBackward2", gradient=("0", "0"),
                doc="The quotient rounded down"),
    Elementwise("trunc_divide", 2, forms.divide_truncated, "trunc_divide(a, b)", N, divides=True, public=False,
                title="DivBackward2", gradient=("0", "0"),
                doc="The quotient rounded towards 0"),
    Elementwise("remainder", 2, quotients.remainder, "floor_remainder(a, b)", N, "mod", divides=True, pieces=True,
                gradient=("g", "-g * floor_divide(a, b)"),
                doc="The remainder of the quotient rounded down; it has the sign of ``other``"),
    Elementwise("fmod", 2, quotients.fmod, "trunc_remainder(a, b)", N, divides=True, pieces=True,
                gradient=("g", "-g * trunc(a / b)"),
                doc="The remainder of the quotient rounded towards 0; it has the sign of ``input``"),
    Elementwise("pow", 2, forms.power, "power(a, b)", N, "pow", check=_power_of_integers,
                keywords=("input", "exponent"),
                gradient=("pow_base(g, a, b)", "pow_exponent(g, a, b, y)"),
                doc="``input`` to the power of ``exponent``"),
    Elementwise("maximum", 2, np.maximum, "maximum(a, b)", S, in_place=False, numbers=False,
                gradient=("chosen(g, a > b, a == b, a)", "chosen(g, b > a, a == b, a)"),
                doc="The larger of two elements; NaN if one is NaN"),
    Elementwise("minimum", 2, np.minimum, "minimum(a, b)", S, in_place=False, numbers=False,
                gradient=("chosen(g, a < b, a == b, a)", "chosen(g, b < a, a == b, a)"),
                doc="The smaller of two elements; NaN if one is NaN"),
    Elementwise("clamp_min", 2, np.maximum, "maximum(a, b)", N, exact=True,
                title="ClampBackward1", gradient=("where(a >= b, g, 0)", "where(a < b, g, 0)"),
                doc="The larger of each element and ``other``: a lower limit"),
    Elementwise("clamp_max", 2, np.minimum, "minimum(a, b)", N, exact=True,
                title="ClampBackward1", gradient=("where(a <= b, g, 0)", "where(a > b, g, 0)"),
                doc="The smaller of each element and ``other``: an upper limit"),
    Elementwise("fmax", 2, np.fmax, "isnan_(a) || b > a ? b : a", S, in_place=False, numbers=False,
                gradient=("where((a >= b) | isnan(b), g, 0)", "where((a >= b) | isnan(b), 0, g)"),
                doc="The larger of two elements; of a NaN and a number, the number"),
    Elementwise("fmin", 2, np.fmin, "isnan_(a) || b < a ? b : a", S, in_place=False, numbers=False,
                gradient=("where((a <= b) | isnan(b), g, 0)", "where((a <= b) | isnan(b), 0, g)"),
                doc="The smaller of two elements; of a NaN and a number, the number"),
    Elementwise("atan2", 2, np.arctan2, "atan2(a, b)", F, aliases=("arctan2",), numbers=False,
                gradient=("g * b / (a * a + b * b)", "-g * a / (a * a + b * b)"),
                doc="The angle in radians of the point (``other``, ``input``), from -pi to pi"),
    Elementwise("hypot", 2, np.hypot, "hypot(a, b)", TypeRule.FLOATING, numbers=False,
                gradient=("g * (a / y)", "g * (b / y)"),
                doc="The length of the hypotenuse, ``sqrt(input**2 + other**2)``"),
    Elementwise("copysign", 2, np.copysign, "copysign(a, b)", F,
                gradient=("where(a == 0, 0, g * (y / a))", "0"),
                doc="The size of ``input`` with the sign of ``other``"),

    # comparison and logic
    Elementwise("eq", 2, np.equal, "a == b", T, "eq",
                gradient=(),
                doc="Whether elements are equal"),
    Elementwise("ne", 2, np.not_equal, "a != b", T, "ne", ("not_equal",),
                gradient=(),
                doc="Whether elements differ"),
    Elementwise("lt", 2, np.less, "a < b", T, "lt", ("less",),
                gradient=(),
                doc="Whether ``input < other``"),
    Elementwise("le", 2, np.less_equal, "a <= b", T, "le", ("less_equal",),
                gradient=(),
                doc="Whether ``input <= other``"),
    Elementwise("gt", 2, np.greater, "a > b", T, "gt", ("greater",),
                gradient=(),
                doc="Whether ``input > other``"),
    Elementwise("ge", 2, np.greater_equal, "a >= b", T, "ge", ("greater_equal",),
                gradient=(),
                doc="Whether ``input >= other``"),
    Elementwise("logical_and", 2, forms.logical(np.logical_and), "a != T(0) && b != T(0)", T, numbers=False,
                gradient=(),
                doc="Whether both elements differ from 0"),
    Elementwise("logical_or", 2, forms.logical(np.logical_or), "a != T(0) || b != T(0)", T, numbers=False,
                gradient=(),
                doc="Whether an element of the two differs from 0"),
    Elementwise("logical_xor", 2, forms.logical(np.logical_xor), "(a != T(0)) != (b != T(0))", T, numbers=False,
                gradient=(),
                doc="Whether exactly one element of the two differs from 0"),
    Elementwise("logical_not", 1, np.logical_not, "a == T(0)", T, exact=False,
                gradient=(),
                doc="Whether an element is 0"),
    Elementwise("bitwise_and", 2, np.bitwise_and, "a & b", I, "and",
                gradient=(),
                doc="The bits that are set in both"),
    Elementwise("bitwise_or", 2, np.bitwise_or, "a | b", I, "or",
                gradient=(),
                doc="The bits that are set in one or both"),
    Elementwise("bitwise_xor", 2, np.bitwise_xor, "a ^ b", I, "xor",
                gradient=(),
                doc="The bits that are set in exactly one"),
    Elementwise("bitwise_not", 1, np.invert, "bitwise_not_(a)", I, "invert",
                gradient=(),
                doc="The bits inverted; of bool the opposite"),
    Elementwise("bitwise_left_shift", 2, np.left_shift, "shift_left(a, b)", TypeRule.WHOLE, "lshift",
                gradient=(),
                doc="``input * 2**other``, by shifting bits; 0 where all are shifted out"),
    Elementwise("bitwise_right_shift", 2, np.right_shift, "shift_right(a, b)", TypeRule.WHOLE, "rshift",
                gradient=(),
                doc="``input / 2**other`` rounded down, by shifting bits"),

    # of one operand: signs and rounding
    Elementwise("neg", 1, np.negative, "-a", N, "neg", ("negative",),
                gradient=("-g",),
                doc="``-input``"),
    Elementwise("abs", 1, np.absolute, "absolute(a)", N, "abs", ("absolute",),
                gradient=("g * sign(a)",),
                doc="The absolute value"),
    Elementwise("sign", 1, forms.sign, "sign(a)", S,
                gradient=("0",),
                doc="1, 0 or -1 by the sign; 0 for NaN"),
    Elementwise("square", 1, np.square, "a * a", TypeRule.COUNTED, exact=False,
                title="PowBackward", gradient=("g * (2 * a)",),
                doc="The square"),
    Elementwise("reciprocal", 1, np.reciprocal, "T(1) / a", F,
                gradient=("-g * y * y",),
                doc="``1 / input``"),
    Elementwise("floor", 1, forms.integers_stay(np.floor), "floor_(a)", N,
                gradient=("0",),
                doc="The largest integer that is not larger"),
    Elementwise("ceil", 1, forms.integers_stay(np.ceil), "ceil_(a)", N,
                gradient=("0",),
                doc="The smallest integer that is not smaller"),
    Elementwise("trunc", 1, forms.integers_stay(np.trunc), "trunc_(a)", N, aliases=("fix",),
                gradient=("0",),
                doc="The integer part"),
    Elementwise("round", 1, forms.integers_stay(np.rint), "rint_(a)", N,
                gradient=("0",),
                doc="The nearest integer; of two, the even one"),
    Elementwise("frac", 1, forms.frac, "a - trunc(a)", TypeRule.FLOATING,
                gradient=("g",),
                doc="The part behind the point: ``input - trunc(input)``"),
    Elementwise("signbit", 1, forms.signbit, "signbit_(a)", T, in_place=False,
                gradient=(),
                doc="Whether the sign is negative, also of -0.0"),
    Elementwise("isnan", 1, forms.tested(np.isnan), "isnan_(a)", T, in_place=False,
                gradient=(),
                doc="Whether an element is NaN"),
    Elementwise("isinf", 1, forms.tested(np.isinf), "isinf_(a)", T, in_place=False,
                gradient=(),
                doc="Whether an element is infinite"),
    Elementwise("isfinite", 1, forms.tested(np.isfinite), "!isinf_(a) && !isnan_(a)", T, in_place=False,
                gradient=(),
                doc="Whether an element is neither infinite nor NaN"),

    # of one operand: functions of analysis
    Elementwise("exp", 1, np.exp, "exp(a)", F,
                gradient=("g * y",),
                doc="e to the power of ``input``"),
    Elementwise("exp2", 1, np.exp2, "exp2(a)", F,
                gradient=("g * y * 0.6931471805599453",),
                doc="2 to the power of ``input``"),
    Elementwise("expm1", 1, np.expm1, "expm1(a)", F,
                gradient=("g * (y + 1)",),
                doc="``exp(input) - 1``, exact also near 0"),
    Elementwise("log", 1, np.log, "log(a)", F,
                gradient=("g / a",),
                doc="The natural logarithm"),
    Elementwise("log2", 1, np.log2, "log2(a)", F,
                gradient=("g / (a * 0.6931471805599453)",),
                doc="The logarithm to base 2"),
    Elementwise("log10", 1, np.log10, "log10(a)", F,
                gradient=("g / (a * 2.302585092994046)",),
                doc="The logarithm to base 10"),
    Elementwise("log1p", 1, np.log1p, "log1p(a)", F,
                title="Log1PBackward", gradient=("g / (a + 1)",),
                doc="``log(1 + input)``, exact also near 0"),
    Elementwise("sqrt", 1, np.sqrt, "sqrt(a)", F,
                gradient=("g / (2 * y)",),
                doc="The square root; NaN of negative numbers"),
    Elementwise("rsqrt", 1, forms.rsqrt, "rsqrt(a)", F,
                gradient=("-0.5 * g * y * y * y",),
                doc="``1 / sqrt(input)``"),
    Elementwise("sin", 1, np.sin, "sin(a)", F,
                gradient=("g * cos(a)",),
                doc="The sine of an angle in radians"),
    Elementwise("cos", 1, np.cos, "cos(a)", F,
                gradient=("-g * sin(a)",),
                doc="The cosine of an angle in radians"),
    Elementwise("tan", 1, np.tan, "tan(a)", F,
                gradient=("g * (1 + y * y)",),
                doc="The tangent of an angle in radians"),
    Elementwise("asin", 1, np.arcsin, "asin(a)", F, aliases=("arcsin",),
                gradient=("g * rsqrt(1 - a * a)",),
                doc="The arc sine in radians"),
    Elementwise("acos", 1, np.arccos, "acos(a)", F, aliases=("arccos",),
                gradient=("-g * rsqrt(1 - a * a)",),
                doc="The arc cosine in radians"),
    Elementwise("atan", 1, np.arctan, "atan(a)", F, aliases=("arctan",),
                gradient=("g / (a * a + 1)",),
                doc="The arc tangent in radians"),
    Elementwise("sinh", 1, np.sinh, "sinh(a)", F,
                gradient=("g * cosh(a)",),
                doc="The hyperbolic sine"),
    Elementwise("cosh", 1, np.cosh, "cosh(a)", F,
                gradient=("g * sinh(a)",),
                doc="The hyperbolic cosine"),
    Elementwise("tanh", 1, np.tanh, "tanh(a)", F,
                gradient=("tanh_gradient(g, y)",),
                doc="The hyperbolic tangent"),
    Elementwise("asinh", 1, np.arcsinh, "asinh(a)", F, aliases=("arcsinh",),
                gradient=("g * rsqrt(a * a + 1)",),
                doc="The inverse hyperbolic sine"),
    Elementwise("acosh", 1, np.arccosh, "acosh(a)", F, aliases=("arccosh",),
                gradient=("g * rsqrt(a * a - 1)",),
                doc="The inverse hyperbolic cosine"),
    Elementwise("atanh", 1, np.arctanh, "atanh(a)", F, aliases=("arctanh",),
                gradient=("g / (1 - a * a)",),
                doc="The inverse hyperbolic tangent"),
    Elementwise("erf", 1, erf, "erf(a)", F,
                gradient=("g * (1.1283791670955126 * exp(-a * a))",),
                doc="The error function"),
    Elementwise("erfc", 1, erfc, "erfc(a)", F,
                gradient=("g * (-1.1283791670955126 * exp(-a * a))",),
                doc="``1 - erf(input)``, exact also for large elements"),
    Elementwise("deg2rad", 1, forms.times(0.017453292519943295), "a * T(0.017453292519943295)", F,
                title="Deg2RadBackward", gradient=("g * 0.017453292519943295",),
                doc="Degrees converted to radians"),
    Elementwise("rad2deg", 1, forms.times(57.29577951308232), "a * T(57.29577951308232)", F,
                title="Rad2DegBackward", gradient=("g * 57.29577951308232",),
                doc="Radians converted to degrees"),
    Elementwise("sigmoid", 1, forms.sigmoid, "T(1) / (T(1) + exp(-a))", F,
                gradient=("sigmoid_gradient(g, y)",),
                doc="``1 / (1 + exp(-input))``"),
    Elementwise("relu", 1, forms.relu, "a < T(0) ? T(0) : a", N,
                gradient=("relu_gradient(g, y)",),
                doc="Negative elements replaced by 0"),

    # of three operands
    Elementwise("lerp", 3, forms.lerp, "absolute(c) < T(0.5) ? a + c * (b - a) : b - (b - a) * (T(1) - c)",
                TypeRule.ALIKE, pieces=True, keywords=("input", "end", "weight"),
                gradient=("g * (1 - c)", "g * c", "g * (b - a)"),
                doc="``input + weight * (end - input)``"),
    Elementwise("add_scaled", 3, forms.add_scaled, "a + c * b", S, public=False,
                title="AddBackward", gradient=("g", "g * c", "g * b"),
                doc="``input + alpha * other``"),
    Elementwise("sub_scaled", 3, forms.sub_scaled, "a - c * b", TypeRule.NO_BOOL, public=False,
                title="SubBackward", gradient=("g", "-g * c", "-g * b"),
                doc="``input - alpha * other``"),
    Elementwise("clamp_both", 3, forms.clamp_both, "minimum(maximum(a, b), c)", N, exact=True, public=False,
                title="ClampBackward1", gradient=("where((a >= b) & (a <= c), g, 0)", "where((a < b) & (b < c), g, 0)",
                          "where((a > c) | (c < b), g, 0)"),
                doc="Each element kept within ``low`` and ``high``"),
    Elementwise("where", 3, choose, "a ? b : c", TypeRule.SELECT, in_place=False, pieces=True,
                keywords=("condition", "input", "other"),
                gradient=("", "where(a, g, 0)", "where(a, 0, g)"),
                doc="``input`` where ``condition`` is True, else ``other``"),
)
# fmt: on

BY_NAME = {name: operation for operation in TABLE for name in (operation.name, *operation.aliases)}

REPAIR = Elementwise(
    "nan_to_num", 3, forms.repaired, "isnan_(a) ? T(0) : isinf_(a) ? (a > T(0) ? b : c) : a", TypeRule.FLOATING,
    gradient=("where(isfinite(a), g, 0)", "", ""),
)  # fmt: skip
"""NaN replaced by 0, infinity by ``b`` and negative infinity by ``c``."""

COPY = Elementwise("copy", 1, np.positive, "a", TypeRule.FIRST, check=_fits, title="CopyBackwards", gradient=("g",))
"""Writes its operand: copies, casts and fills. The implementations treat it apart."""
