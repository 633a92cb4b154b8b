"""What the expressions in the tables' gradient columns mean: their names, and how they become functions.

An expression is Python over tensors: ``g`` is the result's gradient; ``a``, ``b`` and ``c`` are the operands; ``y`` is
the result. What else it may name stands in ``NAMES``: cuplug's own operations, so that gradients are computed wherever
tensors are, and can be differentiated themselves. What an expression names of operands and result is what is kept.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ...allocators.errors import CuplugError
from ..tensor.core.dtypes import bool_
from ..tensor.core.layout import Layout
from ..tensor.core.shapes import Shape
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arithmetic.arithmetic import where as _where
from ..tensor.ops.copying.copying import copied_to, to
from ..tensor.ops.elementwise import elementwise_functions as each
from ..tensor.ops.elementwise.elementwise import apply, apply2
from ..tensor.ops.indexing.indexing import get_item
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.creation import full, ones_like, zeros_like
from ..tensor.ops.making.patterns import eye
from ..tensor.ops.networks.softmax_gradients import log_softmax_gradient, softmax_gradient
from ..tensor.ops.rearranging.repeating import flip
from ..tensor.ops.rearranging.triangles import triu
from ..tensor.ops.reductions.reductions import amax, mean
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.reductions.scans import cumprod, cumsum, logcumsumexp
from ..tensor.ops.scattering.scattering import gather, scatter, scatter_add, scatter_reduce
from ..tensor.ops.shapes.reshape import reshape
from ..tensor.ops.shapes.views import expand, movedim, narrow, unsqueeze
from ..tensor.places.place import place_at
from ..tensor.places.tables_with_gradients.network_table import NETWORK_LINES

__all__ = ["NAMES", "Formula", "fitted", "formula"]


class Formula:
    """An expression as a function, and what it needs."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        code = compile(f"lambda {', '.join(names)}: {text}", f"<gradient {text}>", "eval")
        self.call: Callable[..., Any] = eval(code, NAMES)
        read = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        self.needs = frozenset(read.intersection(names))


@cache
def formula(text: str, names: tuple[str, ...]) -> Formula:
    """The expression ``text`` as a function of ``names``."""
    return Formula(text, names)


def fitted(gradient: Any, layout: Layout) -> Tensor:
    """A gradient as that of an operand of this layout: summed over what was broadcast, expanded over what was reduced,
    converted, and moved."""
    if not isinstance(gradient, Tensor):
        return full(tuple(layout.shape), gradient, dtype=layout.dtype, device=layout.place.device)
    if gradient._layout is layout:  # the most usual case
        return gradient
    shape = tuple(layout.shape)
    if tuple(gradient._layout.shape) != shape:
        gradient = _summed(gradient, shape)
    if gradient._layout.dtype is not layout.dtype or gradient._layout.place is not layout.place:
        gradient = copied_to(gradient, place_at(layout), layout.dtype)
    made: Tensor = gradient
    return made


def _summed(gradient: Any, shape: Shape) -> Any:
    more = gradient.ndim - len(shape)
    if more > 0:
        gradient = sum_of(gradient, tuple(range(more)), dtype=gradient.dtype)
    axes = tuple(axis for axis, (n, own) in enumerate(zip(shape, gradient.shape, strict=True)) if n == 1 and own != 1)
    if axes:
        gradient = sum_of(gradient, axes, True, dtype=gradient.dtype)
    return gradient if tuple(gradient.shape) == shape else expand(gradient, *shape)


# --- functions that expressions name


def where(condition: Tensor, chosen: Any, other: Any) -> Tensor:
    """``where`` with both alternatives, which makes one tensor."""
    made: Tensor = _where(condition, chosen, other)
    return made


def pow_base(g: Tensor, a: Any, b: Any) -> Any:
    """Of ``a ** b``, for ``a``: 0 where the exponent is, also of 0 ** 0."""
    if not isinstance(b, Tensor):
        return 0 if b == 0 else g * (b * a ** (b - 1))
    return where(b == 0, 0, g * (b * a ** (b - 1)))


def pow_exponent(g: Tensor, a: Any, b: Tensor, y: Tensor) -> Any:
    """Of ``a ** b``, for ``b``: 0 where the base is 0 and the exponent is not negative."""
    if not isinstance(a, Tensor):
        if a == 0:
            return where(b >= 0, 0, g * (y * -math.inf))
        return g * (y * math.log(a)) if a > 0 else g * math.nan
    return where((a == 0) & (b >= 0), 0, g * (y * each.log(a)))


def chosen(g: Tensor, first: Tensor, equal: Tensor, a: Any) -> Tensor:
    """Of the larger or smaller of two: all where it was chosen or is NaN, half where both are equal."""
    taken = first | each.isnan(a) if isinstance(a, Tensor) and a.dtype.kind == "f" else first
    return where(equal, g / 2, where(taken, g, 0))


def shared(g: Tensor, mask: Tensor, axes: Shape) -> Tensor:
    """The gradient in equal parts for all elements that are the result."""
    return to(mask, g.dtype) * (g / sum_of(to(mask, g.dtype), axes, True))


def at_index(g: Tensor, a: Tensor, z: Tensor, axes: Shape) -> Tensor:
    """The gradient for the element that is the result."""
    return scatter(zeros_like(a), axes[0], z, g) if axes else g


def without_each(a: Tensor, axes: Shape) -> Tensor:
    """For each element the product of all others along dimensions, also where some are 0."""
    if not a.ndim:
        return ones_like(a)
    rest = [axis for axis in range(a.ndim) if axis not in axes]
    moved = movedim(a, list(axes), list(range(len(rest), a.ndim))) if axes else a
    flat = reshape(moved, (*moved.shape[: len(rest)], math.prod(moved.shape[len(rest) :])))
    length = flat.shape[-1]
    before = cumprod(flat, -1)
    after = flip(cumprod(flip(flat, -1), -1), -1)
    one = ones_like(narrow(flat, -1, 0, min(length, 1)))
    keep = max(length - 1, 0)
    made = cat([one, narrow(before, -1, 0, keep)], -1) * cat([narrow(after, -1, min(length, 1), keep), one], -1)
    back = reshape(made, moved.shape)
    return movedim(back, list(range(len(rest), a.ndim)), list(axes)) if axes else back


def variance_share(count: int, p: float) -> float:
    """What a squared distance from the mean adds to the variance; NaN where there are too few elements."""
    return 1 / (count - p) if count > p else math.nan


def norm_gradient(g: Tensor, a: Tensor, y: Tensor, axes: Shape, p: float) -> Any:
    """Of the ``p``-norm; 0 where that is 0."""
    if p == 0:
        return 0
    if p == 1:
        return each.sign(a) * g
    if p == 2:
        return a * where(y == 0, 0, g / y)
    if math.isinf(p):
        mask = each.abs(a) == y
        return each.sign(a) * shared(g, mask, axes)
    size = each.abs(a)
    powers = where(a == 0, 0, each.sign(a) * size ** (p - 1)) if p < 2 else a * size ** (p - 2)
    return powers * where(y == 0, 0, g * y ** (1 - p))


def backwards(scan: Callable[..., Tensor], a: Tensor) -> Tensor:
    """A scan of rows from their end."""
    return flip(scan(flip(a, 1), 1), 1)


def cumprod_gradient(g: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """Of products up to each element of rows: a row's first 0 has a gradient of its own, what follows it has none."""
    if any(each._layout.tracked for each in (g, a)):
        return _cumprod_by_pairs(g, a)
    zeros = to(a == 0, g.dtype)
    seen = cumsum(zeros, 1)
    usual = backwards(cumsum, g * y) / where(seen > 0, 1, a)
    first = (a == 0) & (seen == 1)
    at_first = backwards(cumsum, g * cumprod(where(first, 1, a), 1) * (seen == 1))
    return where(seen == 0, usual, where(first, at_first, 0))


def _cumprod_by_pairs(g: Tensor, a: Tensor) -> Tensor:
    """The same, to be differentiated itself: for each pair of an element and one behind it the product of the others.
    It takes memory for all pairs."""
    length = a.shape[1]
    own = eye(length, dtype=bool_, device=a.device)
    others = cumprod(where(own, 1.0, expand(unsqueeze(a, 1), a.shape[0], length, length)), 2)
    return sum_of(triu(others * unsqueeze(g, 1)), 2)


def logcumsumexp_gradient(g: Tensor, a: Tensor, y: Tensor) -> Tensor:
    """Of logarithms of sums, without overflow: positive and negative gradients apart. It is not differentiable.

    Raises:
        CuplugError: gradients of it are asked for.
    """
    if any(each._layout.tracked for each in (g, a, y)):
        raise CuplugError("logcumsumexp: its gradient cannot be differentiated here; use logsumexp, or cumsum of exp")
    up = where(g > 0, each.log(where(g > 0, g, 1)), -math.inf)
    down = where(g < 0, each.log(where(g < 0, -g, 1)), -math.inf)
    made = [each.exp(backwards(logcumsumexp, part - y) + a) for part in (up, down)]
    return made[0] - made[1]


def scattered_products(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The product of what goes to each place."""
    return scatter_reduce(ones_like(a), -1, b, c, "prod")


def other_products(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """For each value the product of the others that go to its place."""
    zeros = to(c == 0, c.dtype)
    count = gather(scatter_add(zeros_like(a), -1, b, zeros), -1, b)
    product = gather(scattered_products(a, b, where(c == 0, 1, c)), -1, b)
    return where(c == 0, where(count == 1, product, 0), where(count == 0, product / where(c == 0, 1, c), 0))


def scattered_share(g: Tensor, a: Tensor, b: Tensor, c: Tensor, y: Tensor) -> Tensor:
    """The gradient of what was there, in equal parts for all that are the extreme at their place."""
    own = to(a == y, g.dtype)
    return g / _extremes(g, own, b, c, y) * own


def scattered_values(g: Tensor, a: Tensor, b: Tensor, c: Tensor, y: Tensor) -> Tensor:
    """The same of the values that go there."""
    part = g / _extremes(g, to(a == y, g.dtype), b, c, y)
    return gather(part, -1, b) * (c == gather(y, -1, b))


def _extremes(g: Tensor, own: Tensor, b: Tensor, c: Tensor, y: Tensor) -> Tensor:
    return scatter_add(own, -1, b, to(c == gather(y, -1, b), g.dtype))


def gelu_tanh_curvature(a: Tensor) -> Tensor:
    """The second derivative of ``gelu_tanh``."""
    inner = math.sqrt(2 / math.pi)
    t = each.tanh(inner * (a + 0.044715 * a * a * a))
    slope = inner * (1 + 0.134145 * a * a)
    around = 1 - t * t
    return around * slope + 0.5 * a * (around * (inner * 0.26829 * a) - 2 * t * around * slope * slope)


def silu_curvature(a: Tensor) -> Tensor:
    """The second derivative of ``silu``."""
    s = each.sigmoid(a)
    return s * (1 - s) * (2 + a * (1 - 2 * s))


_NAMED = (
    *(amax, at_index, backwards, chosen, cumprod_gradient, cumsum, gather, gelu_tanh_curvature, get_item),
    *(log_softmax_gradient, logcumsumexp_gradient, mean, norm_gradient, other_products, pow_base),
    *(pow_exponent, scatter, scatter_add, scattered_products, scattered_share, scattered_values, shared),
    *(silu_curvature, softmax_gradient, variance_share, where, without_each, zeros_like),
)
NAMES: dict[str, Any] = {
    **{name: getattr(each, name) for name in each.__all__},
    **{name: partial(apply2 if line.arity == 2 else apply, line) for name, line in NETWORK_LINES.items()},
    **{function.__name__: function for function in _NAMED},
    "sum": sum_of,
}
"""What expressions may name beside the operands."""
