"""Random numbers: fills in place, and new tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import index
from typing import Any

import numpy as np

from .....allocators.errors import DeviceMismatchError
from ....machine.callers import warn_program
from ....machine.device_name import current_factory_device, device
from ...core.dtype_limits import finfo
from ...core.dtypes import bool_, dtype, dtype_of, get_default_dtype, int64
from ...core.generator import Generator, default_generator
from ...core.gradient_seam import required
from ...core.memory_formats import check_layout
from ...core.needed_tensors import layout_of
from ...core.shapes import given_once, shape_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.dispatch import Plan, dispatch
from ...places.distributions import integers_of, words, words_for
from ...places.place import place_at
from ...places.registry import place_of
from ...places.tables_with_gradients.elementwise_table import BY_NAME
from ..arguments.facts import typename
from ..arguments.numpy_arrays import adopt_array
from ..arguments.scalars import truth
from ..copying.copying import copied_to, detach
from ..copying.copying import pin_memory as pin_memory_of
from ..elementwise import elementwise_functions as each_of
from ..elementwise.elementwise import apply
from ..elementwise.results import into
from ..making.creation import empty, empty_like
from ..reductions.reductions import any as any_of

__all__ = ["normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]


def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers of the normal distribution.

    Raises:
        ValueError: ``std`` is negative.
        TypeError: the elements are not floating-point.
    """
    if not std >= 0:
        raise ArgumentError(f"normal expects std >= 0.0, but found std {std}")
    return _drawn(input, "normal", float(mean), float(std), generator)


def uniform_(input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with random numbers equally distributed from ``from_`` up to but without ``to``.

    Raises:
        ValueError: ``to`` is less than ``from_``, or a limit is not finite.
        TypeError: the elements are not floating-point.
    """
    kind = input._layout.dtype
    if kind.kind == "f":
        most = _largest(kind)
        if not -most <= from_ <= to <= most:
            raise ArgumentError(
                f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}, or one of them is "
                f"more than {kind!r} holds"
            )
        if to - from_ > most:
            raise ArgumentError(f"uniform_ expects to-from <= {most}, the most that {kind!r} holds, not {to}-{from_}")
    return _drawn(input, "uniform", float(from_), float(to), generator)


def random_(input: Tensor, from_: int | None = None, to: Any = ..., *, generator: Generator | None = None) -> Tensor:
    """Fill with random integers from ``from_`` up to but without ``to``; ``random_(n)`` is from 0 to ``n``.

    Without limits, and where ``to`` is None: up to what the type holds exactly.

    Raises:
        ValueError: there are none, or the type does not hold them.
    """
    kind = input._layout.dtype
    if to is ... and from_ is not None:
        from_, to = 0, from_
    elif to is ... or to is None:
        to = _WHOLE.get(kind.name) or kind.maximum + 1
    return _integers(input, from_ or 0, to, generator)


@cache
def _largest(kind: dtype) -> float:
    return finfo(kind).max


_WHOLE = {"float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}
"""By floating-point types: up to which all whole numbers can be stored."""


_PERMUTED = {name: most for name, most in _WHOLE.items() if name != "bfloat16"}
"""The same, but that torch lets ``randperm`` of bfloat16 round."""


def _drawn(tensor: Tensor, distribution: str, first: Any, second: Any, generator: Generator | None) -> Tensor:
    layout = tensor._layout
    if layout.dtype.kind != "f" and not distribution.endswith("integers"):
        raise ElementTypeError(f"a tensor of {layout.dtype!r} cannot be filled from the {distribution} distribution")
    if not layout.numel:
        return tensor
    seed, counter = _generator(generator, layout.place.device).take(words_for(distribution, layout.dtype, layout.numel))
    asked = ("random", distribution)
    plan = layout.plans.get((asked,))
    if plan is None:
        dispatch(asked, _prepare, (tensor,), seed, counter, first, second)
    else:  # as ``dispatch`` does, in fewer steps: mixed precision leaves alone what is written in place
        plan(tensor, seed, counter, first, second)
    tensor._storage.version += 1
    return tensor


def _generator(given: Generator | None, here: device) -> Generator:
    """The generator given, or the default one. One of another device of its kind serves as well."""
    if given is None:
        return default_generator(here)
    if not isinstance(given, Generator):
        raise TypeError(f"argument 'generator' must be Generator, not {typename(given)}")
    if given.device.type != here.type:
        raise DeviceMismatchError(f"a generator of {given.device} makes no numbers for a tensor on {here}")
    return given


def _prepare(asked: tuple[str, str], tensor: Tensor) -> Plan:
    distribution, layout = asked[1], tensor._layout
    if layout.overlaps_itself():
        raise ArgumentError(
            "unsupported operation: several indices of the tensor to be filled mean one element; .clone() it first"
        )
    return place_at(layout).random(distribution, layout)


def _integers(tensor: Tensor, low: int, high: int, generator: Generator | None) -> Tensor:
    if high <= low:
        raise ArgumentError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    kind = tensor._layout.dtype
    whole = _WHOLE[kind.name] if kind.kind == "f" else None
    least, most = (kind.minimum, kind.maximum) if whole is None else (-whole, whole)
    for name, limit in (("from", low), ("to - 1", high - 1)):
        if least <= limit <= most:
            continue
        if whole is None:
            raise ArgumentError(f"{name} is out of bounds for {kind!r}: it is {limit}, and {least} to {most} are held")
        warn_program(
            f"{name} is out of bounds [{least}, {most}]: it is {limit}, and not all such integers are numbers of "
            f"{kind!r}, so that some are never drawn",
        )
    if whole is not None:
        low, high = _held(low, high, kind)
    # Of all 2**64 integers the largest is never drawn, for their number does not fit into 64 bits.
    count = min(int(high) - int(low), 2**64 - 1)
    return _drawn(tensor, integers_of(count), int(low), count, generator)


def _held(low: int, high: int, kind: dtype) -> tuple[int, int]:
    """The limits moved inwards, so that no number between them is rounded to one beyond them."""
    first, last = np.array(low).astype(kind.numpy), np.array(high - 1).astype(kind.numpy)
    if int(first) < low:
        first = np.nextafter(first, np.array(np.inf, kind.numpy))
    if int(last) >= high:
        last = np.nextafter(last, np.array(-np.inf, kind.numpy))
    return int(first), int(last) + 1


def rand(
    *lengths: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape with random numbers equally distributed in [0, 1).

    Args:
        lengths: the shape, as integers or as one sequence; ``size`` means the same.
        generator: where random numbers come from.
        dtype: the element type; the default dtype if None.
        device: where; the CPU, or the device of ``with device(...)``, if None.
        pin_memory: whether to use page-locked memory of the CPU.
        out: a tensor to give this shape and to fill, instead of a new one.

    Raises:
        TypeError: ``dtype`` is no floating-point type.
        DeviceMismatchError: the generator is of another device.
    """
    made = _floating(given_once(lengths, size, "size"), dtype, device, layout, pin_memory, out)
    return required(uniform_(made, generator=generator), requires_grad)


def randn(
    *lengths: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of this shape with random numbers of the standard normal distribution: see ``rand``, whose arguments
    and errors these are."""
    made = _floating(given_once(lengths, size, "size"), dtype, device, layout, pin_memory, out)
    return required(normal_(made, generator=generator), requires_grad)


def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers of normal distributions; no gradients go through them to ``mean`` and ``std``. Other arguments
    are those of ``rand``; ``dtype``, ``device`` and ``pin_memory`` only count with ``size``.

    Args:
        mean: a number; or a tensor, with a mean for each result.
        std: a number; or a tensor, with a standard deviation for each result.
        size: the shape, where both are numbers or tensors without dimensions. Other tensors broadcast together.
        out: where to write the result; it is given the result's shape.

    Raises:
        TypeError: a tensor is not of a floating-point type, or ``size`` is missing.
        ValueError: a standard deviation is negative.
        DeviceMismatchError: the generator is of another device.
    """
    mean, std = (detach(each) if isinstance(each, Tensor) else each for each in (mean, std))
    given = [each for each in (mean, std) if isinstance(each, Tensor) and (size is None or each.ndim)]
    if not given:
        if size is None:
            raise TypeError("normal() takes a size where mean and std are numbers")
        made = _floating((size,), dtype, device, layout, pin_memory, out)
        return required(normal_(made, mean, std, generator=generator), requires_grad)
    if size is not None:
        raise TypeError("normal() takes a size where mean and std are numbers, and no tensors with dimensions")
    if any(each.dtype.kind != "f" for each in given):
        raise ElementTypeError("normal: means and standard deviations are floating-point numbers")
    if not isinstance(std, Tensor) and not std >= 0:
        raise ArgumentError(f"normal expects std >= 0.0, but found std {std}")
    if isinstance(std, Tensor) and std.numel() and truth(any_of(each_of.lt(std, 0))):
        raise ArgumentError("normal expects all elements of std >= 0.0")
    like = empty_like(given[0]) if len(given) == 1 else apply(BY_NAME["add"], *given)
    made = apply(BY_NAME["add"], apply(BY_NAME["mul"], normal_(like, generator=generator), std), mean)
    return required(into(out, made), requires_grad)


def _floating(size: Any, dtype: Any, device: Any, layout: Any, pin_memory: bool, out: Tensor | None) -> Tensor:
    kind = (get_default_dtype() if out is None else layout_of(out).dtype) if dtype is None else dtype_of(dtype)
    if kind.kind != "f":
        raise ElementTypeError(f"random numbers of this distribution are floating-point; {kind!r} is not")
    return empty(*size, dtype=kind, device=device, layout=layout, pin_memory=pin_memory, out=out)


def randint(
    *limits: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``randint(high, size)`` or ``randint(low, high, size)``: random integers from ``low`` (0) up to but without
    ``high``, of int64 unless ``dtype`` says otherwise. ``out`` says which tensor to give this shape and to fill.

    Raises:
        ValueError: there are no such integers, or the type does not hold them.
    """
    if size is None:
        if not limits:
            raise TypeError("randint() takes a limit or two, and a size")
        *limits, size = limits  # type: ignore[assignment]
    first, last = _limits("randint", limits, low, high)
    kind = int64 if dtype is None and out is None else dtype
    made = empty(shape_of((tuple(size),)), dtype=kind, device=device, layout=layout, pin_memory=pin_memory, out=out)
    return required(_integers(made, first, last, generator), requires_grad)


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


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: Any = int64,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Tensor | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order, of int64 unless ``dtype`` says otherwise. Made on the CPU: the
    same everywhere. Other arguments are those of ``rand``.

    Raises:
        ValueError: ``n`` is negative, or the type does not hold all of them.
        TypeError: the type is bool.
    """
    check_layout(layout)
    n = index(n)
    if n < 0:
        raise ArgumentError(f"randperm: there are no {n} integers")
    kind = dtype_of(dtype) if out is None else layout_of(out).dtype
    if kind is bool_:
        raise ElementTypeError(f"randperm: a tensor of {kind!r} holds no permutation")
    if n - 1 > (kind.maximum if kind.kind != "f" else _PERMUTED.get(kind.name, n)):
        raise ArgumentError(f"randperm: {kind!r} does not hold all integers from 0 up to but without {n}")
    if out is not None and device is None:
        device = out.device
    place = place_of(current_factory_device() if device is None else device)
    generator = _generator(generator if n else None, place.device)
    # Random high bits above the integers themselves: sorted by the former, the latter stand in random order.
    low = np.uint64((1 << n.bit_length()) - 1)
    keys = words(*generator.take(n), n, wide=True) & ~low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low
    made = copied_to(adopt_array(keys.view(np.int64)), place, dtype_of(dtype))
    return required(into(out, pin_memory_of(made) if pin_memory else made), requires_grad)


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``rand`` with the shape, type and device of another tensor."""
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(uniform_(x, generator=generator), requires_grad)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``randn`` with the shape, type and device of another tensor."""
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(normal_(x, generator=generator), requires_grad)


def randint_like(
    input: Tensor,
    *limits: int,
    low: int | None = None,
    high: int | None = None,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """``randint`` with the shape, type and device of another tensor."""
    first, last = _limits("randint_like", limits, low, high)
    x = empty_like(input, dtype=dtype, device=device, layout=layout, pin_memory=pin_memory, memory_format=memory_format)
    return required(_integers(x, first, last, generator), requires_grad)
