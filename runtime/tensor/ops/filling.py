"""Fills in place, with a number or at random, and the factories of random tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.device_name import current_factory_device
from ..core.dtypes import dtype_of, get_default_dtype, int64
from ..core.generator import Generator, default_generator, integers_of, words
from ..core.layout import Layout, shape_of
from ..core.tensor import TensorCore
from ..core.tensor_errors import ArgumentError, ElementTypeError
from ..places.elementwise_table import COPY
from ..places.place import Kernel
from ..places.registry import place_of
from .copying import copied_to
from .elementwise import apply_into

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["FillMethods", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]


class FillMethods(TensorCore):
    """The methods of a tensor that fill it."""

    __slots__ = ()

    def fill_(self, value: Any) -> Tensor:
        """Write ``value``, a number or a tensor without dimensions, everywhere."""
        if isinstance(value, TensorCore) and value._layout.place is not self._layout.place:
            value = value.item()  # type: ignore[attr-defined]
        return apply_into(COPY, self, value)  # type: ignore[arg-type]

    def zero_(self) -> Tensor:
        """Write 0 everywhere."""
        return apply_into(COPY, self, 0)  # type: ignore[arg-type]

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with random numbers of the normal distribution.

        Raises:
            ValueError: ``std`` is negative.
            TypeError: the elements are not floating-point.
        """
        if not std >= 0:
            raise ArgumentError(f"normal_: a standard deviation is 0 or more, not {std}")
        return _drawn(self, "normal", float(mean), float(std), generator)

    def uniform_(self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with random numbers equally distributed from ``from_`` up to but without ``to``.

        Raises:
            ValueError: ``to`` is less than ``from_``, or a limit is not finite.
            TypeError: the elements are not floating-point.
        """
        if not 0 <= to - from_ < inf:
            raise ArgumentError(f"uniform_: the range from {from_} to {to} is none")
        return _drawn(self, "uniform", float(from_), float(to), generator)

    def random_(self, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Fill with random integers from ``from_`` up to but without ``to``; ``random_(n)`` is from 0 to ``n``.

        Without limits: up to what the type holds exactly.

        Raises:
            ValueError: there are none, or the type does not hold them.
        """
        kind = self._layout.dtype
        if to is None:
            from_, to = 0, _WHOLE.get(kind.name) or kind.maximum + 1 if from_ is None else from_
        return _integers(self, from_ or 0, to, generator)


_WHOLE = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
"""By floating-point types: up to which all whole numbers can be stored."""


def _drawn(tensor: Any, distribution: str, first: Any, second: Any, generator: Generator | None) -> Tensor:
    layout = tensor._layout
    kernel = layout.plans.get(("random", distribution))
    if kernel is None:
        kernel = _prepared(layout, distribution)
    if layout.numel:
        source = generator or default_generator(layout.place.device)
        kernel(tensor, *source.take(distribution, layout.dtype, layout.numel), first, second)
    return tensor  # type: ignore[no-any-return]


def _prepared(layout: Layout, distribution: str) -> Kernel:
    if layout.dtype.kind != "f" and not distribution.endswith("integers"):
        raise ElementTypeError(f"a tensor of {layout.dtype!r} cannot be filled from the {distribution} distribution")
    if layout.overlaps_itself():
        raise ArgumentError("several indices of the tensor to be filled mean one element; .clone() it first")
    kernel = layout.plans["random", distribution] = layout.place.random(distribution, layout)
    return kernel


def _integers(tensor: Any, low: int, high: int, generator: Generator | None) -> Tensor:
    if high <= low:
        raise ArgumentError(f"random integers from {low} up to but without {high}: there are none")
    kind = tensor._layout.dtype
    if kind.kind != "f" and not (kind.minimum <= low and high - 1 <= kind.maximum):
        raise ArgumentError(f"{kind!r} does not hold integers from {low} up to but without {high}")
    return _drawn(tensor, integers_of(high - low), int(low), int(high) - int(low), generator)


def rand(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of this shape with random numbers equally distributed in [0, 1)."""
    return _floating(size, dtype, device).uniform_(generator=generator)


def randn(*size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of this shape with random numbers of the standard normal distribution."""
    return _floating(size, dtype, device).normal_(generator=generator)


def normal(
    mean: float, std: float, size: Any, *, generator: Generator | None = None, dtype: Any = None, device: Any = None
) -> Tensor:
    """A tensor of this shape with random numbers of a normal distribution."""
    return _floating((size,), dtype, device).normal_(mean, std, generator=generator)


def _floating(size: Any, dtype: Any, device: Any) -> Tensor:
    from .creation import empty

    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    if kind.kind != "f":
        raise ElementTypeError(f"random numbers of this distribution are floating-point; {kind!r} is not")
    return empty(*size, dtype=kind, device=device)


def randint(
    *limits: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = int64,
    device: Any = None,
) -> Tensor:
    """``randint(high, size)`` or ``randint(low, high, size)``: random integers from ``low`` (0) up to but without
    ``high``.

    Raises:
        ValueError: there are no such integers, or the type does not hold them.
    """
    from .creation import empty

    if size is None:
        if not limits:
            raise TypeError("randint() takes a limit or two, and a size")
        *limits, size = limits  # type: ignore[assignment]
    first, last = _limits("randint", limits, low, high)
    return _integers(empty(shape_of((tuple(size),)), dtype=dtype, device=device), first, last, generator)


def _limits(name: str, limits: Sequence[Any], low: Any, high: Any) -> tuple[int, int]:
    """The lower and the upper limit, given in order or by name; the lower one may be left out."""
    given = [*limits]
    if high is None and given:
        high = given.pop()
    if low is None:
        low = given.pop() if given else 0
    if given or high is None:
        raise TypeError(f"{name}() takes an upper limit, or a lower and an upper one")
    return index(low), index(high)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = int64, device: Any = None) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order. Made on the CPU: the same everywhere."""
    from .creation import wrap

    n = index(n)
    place = place_of(current_factory_device() if device is None else device)
    if generator is None:
        generator = default_generator(place.device)
    # Random high bits above the integers themselves: sorted by the former, the latter stand in random order.
    low = np.uint64((1 << n.bit_length()) - 1)
    keys = words(*generator.take("long_integers", int64, n), n, wide=True) & ~low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low
    return copied_to(wrap(keys.view(np.int64)), place, dtype_of(dtype))


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: A002 - torch's name
    """``rand`` with the shape, type and device of another tensor."""
    return _like(input, dtype, device).uniform_()


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: A002 - torch's name
    """``randn`` with the shape, type and device of another tensor."""
    return _like(input, dtype, device).normal_()


def randint_like(
    input: Tensor,  # noqa: A002 - torch's name
    *limits: int,
    low: int | None = None,
    high: int | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """``randint`` with the shape, type and device of another tensor."""
    first, last = _limits("randint_like", limits, low, high)
    return _integers(_like(input, dtype, device), first, last, None)


def _like(input: Tensor, dtype: Any, device: Any) -> Tensor:  # noqa: A002 - torch's name
    from .creation import empty_like

    return empty_like(input, dtype=dtype, device=device)
