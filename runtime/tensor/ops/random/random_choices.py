"""Random choices: coins with given probabilities, and positions by weight."""

from __future__ import annotations

from math import inf
from typing import Any

from ...core.dtype_limits import finfo
from ...core.generator import Generator
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ...places.tables_with_gradients.elementwise_table import BY_NAME, COPY
from ..arguments.out_argument import resize_output
from ..arguments.scalars import are_probabilities, item, truth
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.elementwise import apply, apply_into
from ..elementwise.results import into
from ..making.creation import empty_like
from ..reductions.reductions import amax, amin, argmax
from ..reductions.reductions import sum as sum_of
from ..reductions.scans import cumsum
from ..shapes.reshape import reshape
from ..shapes.views import narrow
from ..sorting.sorting import searchsorted, topk
from .random_numbers import uniform_

__all__ = ["bernoulli", "multinomial"]


def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability that each element says, else 0.

    Args:
        input: probabilities; with ``p`` only shape, type and device count.
        p: one probability for all.
        generator: where random numbers come from.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: the probabilities are not floating-point numbers.
        ValueError: ``p`` is none.
        DeviceMismatchError: the generator is of another device.
    """
    if p is None and layout_of(input).dtype.kind != "f":
        raise ElementTypeError(f"bernoulli: probabilities are floating-point numbers, and these are {input.dtype!r}")
    drawn = bernoulli_(empty_like(input), input if p is None else p, generator=generator)
    if out is None:
        return drawn
    resize_output(out, drawn.shape)
    return apply_into(COPY, out, each.ne(drawn, 0))


def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with the probability ``p``, a number or a tensor that broadcasts, else 0.

    Raises:
        ValueError: ``p`` is no probability.
        DeviceMismatchError: the generator is of another device.
    """
    if isinstance(p, Tensor):
        if p.dtype.kind != "f":
            raise ElementTypeError(f"bernoulli: probabilities are floating-point numbers, and these are {p.dtype!r}")
        if not are_probabilities(p):
            raise ArgumentError("bernoulli: a probability lies between 0 and 1, and not all of these do")
    elif not 0 <= p <= 1:
        raise ArgumentError(f"bernoulli: a probability lies between 0 and 1; it is {p}")
    from ...core.dtypes import float32

    drawn = uniform_(empty_like(input, dtype=float32), generator=generator)
    return apply_into(COPY, input, each.lt(drawn, p if not isinstance(p, Tensor) else to(p, float32)))


def exponential_(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers of the exponential distribution with the rate ``lambd``.

    Raises:
        TypeError: the elements are not floating-point numbers.
        ValueError: ``lambd`` is not greater than 0.
    """
    if not lambd > 0:
        raise ArgumentError(f"exponential_: a rate is greater than 0, not {lambd}")
    # Above 0, as torch's: who divides by such numbers counts on it. Below 1: of 1 less that, the logarithm is finite.
    uniform_(input, finfo(input.dtype).eps / 4 if input.dtype.kind == "f" else 0.0, generator=generator)
    return apply_into(BY_NAME["div"], input, each.log1p(each.neg(input)), -float(lambd))


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Positions chosen at random, each with a probability in proportion to its weight. Other arguments are those of
    ``bernoulli``.

    Args:
        input: weights, which need not add up to 1, in one row or several.
        num_samples: how many positions of each row.
        replacement: whether a position may be chosen again.

    Raises:
        TypeError: the weights are not floating-point numbers.
        ValueError: a weight is negative or not finite, all are 0, or more are wanted than there are.
        DeviceMismatchError: the generator is of another device.
    """
    if layout_of(input).dtype.kind != "f":
        raise ElementTypeError(f"multinomial: weights are floating-point numbers, and these are {input.dtype!r}")
    if input.ndim not in (1, 2):
        raise ShapeError(f"multinomial: the weights have {input.ndim} dimensions, and must have one or two")
    weights = reshape(input, (1, -1)) if input.ndim == 1 else input
    weights = to(weights, weights.dtype.computed)
    if num_samples <= 0 or (not replacement and num_samples > input.shape[-1]):
        raise ArgumentError(f"multinomial: {num_samples} positions cannot be drawn from {input.shape[-1]}")
    if weights.numel():
        least, most = item(amin(weights)), amax(weights, 1)  # a NaN is the least and the most of its row
        if not (least >= 0 and item(amin(most)) > 0 and item(amax(most)) < inf):
            raise ArgumentError("multinomial: weights are finite and not negative, and one of a row is greater than 0")
    if replacement:
        upto = cumsum(weights, 1)
        last = narrow(upto, 1, input.shape[-1] - 1, 1)
        drawn = uniform_(_row_of(weights, num_samples), generator=generator)
        made = searchsorted(upto, apply(BY_NAME["mul"], drawn, last), right=True)
        made = each.clamp_max(made, input.shape[-1] - 1)
    else:
        # The first to ring of clocks whose rates are the weights (Efraimidis and Spirakis, 2006).
        rung = apply(BY_NAME["div"], weights, exponential_(empty_like(weights), generator=generator))
        made = argmax(rung, 1, True) if num_samples == 1 else topk(rung, num_samples, 1).indices
        if num_samples > 1 and weights.shape[0] and truth(each.lt(amin(sum_of(each.gt(weights, 0), 1)), num_samples)):
            raise ArgumentError(f"multinomial: a row has fewer than {num_samples} weights greater than 0")
    return into(out, reshape(made, (*input.shape[:-1], num_samples)), exact=True)


def _row_of(weights: Tensor, count: int) -> Any:
    from ..making.creation import empty

    return empty((weights.shape[0], count), dtype=weights.dtype, device=weights.device)
