"""Fills in place, with a number or at random, and the factories of random tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core import TensorCore
from .dtypes import dtype_of, get_default_dtype, int64
from .elementwise import apply_into
from .errors import ArgumentError, ElementTypeError
from .generator import Generator, default_generator, integers_of, words
from .layout import shape_of
from .operations import COPY

if TYPE_CHECKING:
    from .tensor import Tensor

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
        if std < 0:
            raise ArgumentError(f"normal_: a standard deviation is 0 or more, not {std}")
        return _drawn(self, "normal", float(mean), float(std), generator)

    def uniform_(self, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with random numbers equally distributed from ``a`` up to but without ``b``.

        Raises:
            ValueError: ``b`` is less than ``a``.
            TypeError: the elements are not floating-point.
        """
        if b < a:
            raise ArgumentError(f"uniform_: the range from {a} to {b} is none")
        return _drawn(self, "uniform", float(a), float(b), generator)

    def random_(self, low: int = 0, high: int | None = None, *, generator: Generator | None = None) -> Tensor:
        """Fill with random integers from ``low`` up to but without ``high``; ``random_(n)`` is from 0 to ``n``.

        Without limits: up to what the type holds exactly.
        """
        kind = self._layout.dtype
        if high is None:
            whole = {"b": 2, "f": 2 ** {2: 11 if kind.name == "float16" else 8, 4: 24, 8: 53}[kind.itemsize]}
            low, high = (0, low) if low else (0, whole.get(kind.kind) or kind.maximum + 1)
        return _integers(self, low, high, generator)


def _drawn(tensor: Any, distribution: str, first: Any, second: Any, generator: Generator | None) -> Tensor:
    layout = tensor._layout
    if layout.dtype.kind != "f" and not distribution.endswith("integers"):
        raise ElementTypeError(f"a tensor of {layout.dtype!r} cannot be filled from the {distribution} distribution")
    if layout.overlaps_itself():
        raise ArgumentError("several indices of the tensor to be filled mean one element; .clone() it first")
    if layout.numel:
        key = ("random", distribution)
        kernel = layout.plans.get(key)
        if kernel is None:
            kernel = layout.plans[key] = layout.place.random(distribution, layout)
        source = generator or default_generator(layout.place.device)
        kernel(tensor, *source.take(distribution, layout.dtype, layout.numel), first, second)
    return tensor  # type: ignore[no-any-return]


def _integers(tensor: Any, low: int, high: int, generator: Generator | None) -> Tensor:
    if high <= low:
        raise ArgumentError(f"random integers from {low} up to but without {high}: there are none")
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
    from .factories import empty

    kind = get_default_dtype() if dtype is None else dtype_of(dtype)
    if kind.kind != "f":
        raise ElementTypeError(f"random numbers of this distribution are floating-point; {kind!r} is not")
    return empty(*size, dtype=kind, device=device)


def randint(
    *limits: Any, size: Any = None, generator: Generator | None = None, dtype: Any = int64, device: Any = None
) -> Tensor:
    """``randint(high, size)`` or ``randint(low, high, size)``: random integers from ``low`` (0) up to but without
    ``high``.

    Raises:
        ValueError: there are no such integers.
    """
    from .factories import empty

    if size is None:
        *limits, size = limits  # type: ignore[assignment]
    low, high = (0, *limits) if len(limits) == 1 else limits
    return _integers(empty(shape_of((tuple(size),)), dtype=dtype, device=device), low, high, generator)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = int64, device: Any = None) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order. Made on the CPU: the same everywhere."""
    import numpy as np

    from .factories import empty, wrap

    if generator is None:
        generator = default_generator(empty(0, device=device).device)
    # Random high bits above the integers themselves: sorted by the former, the latter stand in random order.
    low = np.uint64((1 << n.bit_length()) - 1)
    keys = words(*generator.take("long_integers", int64, n), n, wide=True) & ~low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low
    made = wrap(keys.view(np.int64))
    return made.to(device, dtype=dtype) if device is not None else made.to(dtype)


def rand_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: A002 - torch's name
    """``rand`` with the shape, type and device of another tensor."""
    return _like(input, dtype, device).uniform_()


def randn_like(input: Tensor, *, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: A002 - torch's name
    """``randn`` with the shape, type and device of another tensor."""
    return _like(input, dtype, device).normal_()


def randint_like(input: Tensor, *limits: int, dtype: Any = None, device: Any = None) -> Tensor:  # noqa: A002
    """``randint`` with the shape, type and device of another tensor."""
    low, high = (0, *limits) if len(limits) == 1 else limits
    return _integers(_like(input, dtype, device), low, high, None)


def _like(input: Tensor, dtype: Any, device: Any) -> Tensor:  # noqa: A002 - torch's name
    from .factories import empty_like

    return empty_like(input, dtype=dtype, device=device)
