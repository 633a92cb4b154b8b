"""Element-wise operations of networks: functions between layers and their gradients, each one kernel.

They are lines as those of ``elementwise_table.py``, but no methods of tensors and no functions of ``cuplug``: networks
call them. A gradient is a line of its own, whose first operand is the result's gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..choice import choose, constant, sign_shift
from ..error_function import erf
from ..numpy_forms import clamp_both
from .elementwise_table import Elementwise, TypeRule

_ROOT, _DENSITY, _INNER = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi), math.sqrt(2 / math.pi)


def _normal_cdf(a: Any) -> Any:
    """The normal distribution's cumulative distribution function (CDF)."""
    kind = a.dtype
    made = erf(a * constant(_ROOT, kind))
    made += constant(1, kind)
    made *= constant(0.5, kind)
    return made


def _gelu_gradient(g: Any, a: Any) -> Any:
    kind = a.dtype
    density = np.exp(a * a * constant(-0.5, kind)) * constant(_DENSITY, kind)
    return g * (_normal_cdf(a) + a * density)


def _gelu_tanh_gradient(g: Any, a: Any) -> Any:
    t = np.tanh(_INNER * (a + 0.044715 * (a * a * a)))
    return g * (0.5 * (1 + t) + 0.5 * a * ((1 - t * t) * (_INNER * (1 + 0.134145 * (a * a)))))


def _logistic(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def _silu_gradient(g: Any, a: Any) -> Any:
    s = _logistic(a)
    return g * (s * (1 + a * (1 - s)))


_FEW = 2048
"""Up to so many elements fewer passes are quicker than quick ones."""


def _elu(a: Any, alpha: Any, out: Any = None) -> Any:
    if a.size <= _FEW:
        made = np.expm1(np.minimum(a, constant(0, a.dtype)))
        made *= alpha
        return choose(a > constant(0, a.dtype), a, made, out)
    # By bits, for NumPy takes longer to find the smaller of two floats than for expm1: ``below`` has all bits set where
    # the sign is negative, and what is not negative becomes 0 before expm1, which is slow where it overflows.
    integer, shift = sign_shift(a.dtype)
    whole = a.view(integer)
    below = whole >> shift
    negative = whole & below
    positive = whole ^ negative
    made = np.expm1(negative.view(a.dtype), out=out)
    made *= alpha
    chosen = made.view(integer)
    chosen &= below
    chosen |= positive
    return made


_NORMAL_CDF = f"T(0.5) * (T(1) + erf(X * T({_ROOT!r})))"
_TANH = f"tanh(T({_INNER!r}) * (X + T(0.044715) * (X * X * X)))"
_LOGISTIC = "(T(1) / (T(1) + exp(-X)))"


def _of(text: str, name: str) -> str:
    return text.replace("X", name)


F = TypeRule.FLOATING

# fmt: off
NETWORK_TABLE = (
    Elementwise("gelu", 1, lambda a: a * _normal_cdf(a), f"a * ({_of(_NORMAL_CDF, 'a')})", F,
                gradient=("gelu_gradient(g, a)",)),
    Elementwise("gelu_gradient", 2, _gelu_gradient,
                f"a * ({_of(_NORMAL_CDF, 'b')} + b * (exp(b * b * T(-0.5)) * T({_DENSITY!r})))", F,
                gradient=("gelu_gradient(g, b)", "g * a * (exp(b * b * -0.5) * 0.3989422804014327 * (2 - b * b))")),
    Elementwise("gelu_tanh", 1, lambda a: 0.5 * a * (1 + np.tanh(_INNER * (a + 0.044715 * (a * a * a)))),
                f"T(0.5) * a * (T(1) + {_of(_TANH, 'a')})", F,
                title="GeluBackward", gradient=("gelu_tanh_gradient(g, a)",)),
    Elementwise("gelu_tanh_gradient", 2, _gelu_tanh_gradient,
                f"a * (T(0.5) * (T(1) + {_of(_TANH, 'b')}) + T(0.5) * b * ((T(1) - {_of(_TANH, 'b')} * "
                f"{_of(_TANH, 'b')}) * (T({_INNER!r}) * (T(1) + T(0.134145) * (b * b)))))", F,
                gradient=("gelu_tanh_gradient(g, b)", "g * a * gelu_tanh_curvature(b)")),
    Elementwise("silu", 1, lambda a: a * _logistic(a), f"a * {_of(_LOGISTIC, 'a')}", F,
                gradient=("silu_gradient(g, a)",)),
    Elementwise("silu_gradient", 2, _silu_gradient,
                f"a * ({_of(_LOGISTIC, 'b')} * (T(1) + b * (T(1) - {_of(_LOGISTIC, 'b')})))", F,
                gradient=("silu_gradient(g, b)", "g * a * silu_curvature(b)")),
    Elementwise("elu", 2, _elu, "a > T(0) ? a : b * expm1(a)", F, pieces=True,
                gradient=("where(a > 0, g, g * b * exp(clamp_max(a, 0)))", "")),
    Elementwise("hardtanh", 3, clamp_both, "minimum(maximum(a, b), c)", F,
                gradient=("where((a <= b) | (a >= c), 0, g)", "", "")),
    Elementwise("relu_gradient", 2,
                lambda g, y, out=None: choose(y > constant(0, y.dtype), g, constant(0, g.dtype), out),
                "b > T(0) ? a : T(0)", F, pieces=True,
                gradient=("relu_gradient(g, b)", "")),
    Elementwise("tanh_gradient", 2, lambda g, y, out=None: np.multiply(g, constant(1, y.dtype) - y * y, out),
                "a * (T(1) - b * b)", F, pieces=True,
                gradient=("tanh_gradient(g, b)", "-2 * g * a * b")),
    Elementwise("sigmoid_gradient", 2, lambda g, y, out=None: np.multiply(g, y * (constant(1, y.dtype) - y), out),
                "a * (b * (T(1) - b))", F, pieces=True,
                gradient=("sigmoid_gradient(g, b)", "g * a * (1 - 2 * b)")),
    Elementwise("dropped", 3, lambda a, b, c: choose(b < c, a / c, constant(0, a.dtype)), "b < c ? a / c : T(0)",
                TypeRule.KEPT,
                gradient=("dropped(g, b, c)", "", "")),
)
# fmt: on

NETWORK_LINES = {line.name: line for line in NETWORK_TABLE}
