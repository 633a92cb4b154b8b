"""What becomes of results: written to what ``out=`` names, or to the tensor itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from .....allocators.errors import DeviceMismatchError
from ...core.dtypes import can_cast
from ...core.needed_tensors import layout_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError, ShapeError
from ...places.tables_with_gradients.elementwise_table import COPY, Elementwise
from ..arguments.out_argument import resize_output
from .elementwise import apply_into, apply_into1

Result = TypeVar("Result")


def into(out: Any, result: Result, *, exact: bool = False) -> Result:
    """``result``, a tensor or a tuple of them, written to ``out``: as many tensors, which take the results' shapes. The
    result itself if ``out`` is None.

    Args:
        out: a tensor or a tuple of tensors, or None.
        result: what was computed.
        exact: whether the element types must be the same; otherwise floats go to floats, integers to either.

    Raises:
        TypeError: the result cannot be stored in a tensor of this type.
        DeviceMismatchError: ``out`` is on another device.
        ValueError: there are not as many tensors as results.
    """
    if out is None:
        return result
    if isinstance(result, Tensor):
        return _written(out, result, exact)  # type: ignore[return-value]
    results: tuple[Any, ...] = result  # type: ignore[assignment]
    if len(out) != len(results):
        raise ShapeError(f"out= names {len(out)} tensors, and there are {len(results)} results")
    written = [_written(target, each, exact) for target, each in zip(out, results, strict=True)]
    made: Any = type(results)
    return made(*written) if hasattr(made, "_fields") else tuple(written)  # type: ignore[return-value]


def _written(out: Tensor, result: Tensor, exact: bool) -> Tensor:
    if not isinstance(out, Tensor):
        raise TypeError(f"out= must be a tensor, not {type(out).__name__}")
    if out._layout.place is not result._layout.place:
        raise DeviceMismatchError(
            f"Expected all tensors to be on the same device, but found at least two devices, {result.device} and "
            f"{out.device}! out= must be where the result is"
        )
    if out.dtype is not result.dtype and (exact or not can_cast(result.dtype, out.dtype)):
        raise ElementTypeError(
            f"Expected out tensor to have dtype {result.dtype!r}, but got {out.dtype!r} instead: the result cannot be "
            "stored there"
        )
    resize_output(out, result.shape)
    return apply_into(COPY, out, result)


def store(target: Tensor, result: Tensor) -> Tensor:
    """``result`` written to a tensor that keeps its shape.

    Raises:
        ValueError: the result has another shape.
        TypeError: it cannot be stored in a tensor of this type.
    """
    if target.shape != result.shape:
        raise ShapeError(f"in place the shape stays {list(target.shape)}; the result has {list(result.shape)}")
    return _written(target, result, exact=False)


def in_place(function: Callable[..., Tensor], *, keeps_input: bool = False) -> Callable[..., Tensor]:
    """The method that writes to a tensor what ``function``, whose first argument it is, makes of it. ``keeps_input``
    says that gradients are computed from this argument, which is copied then: it is written over."""

    def method(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copies = keeps_input and layout_of(input).tracked
        return store(input, function(input.clone() if copies else input, *args, **kwargs))

    _name_in_place(method, function.__name__, function.__module__, "the result")
    signature = inspect.signature(function)
    kept = [each for each in signature.parameters.values() if each.name != "out"]
    method.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return method


def in_place1(operation: Elementwise, module: str) -> Callable[[Tensor], Tensor]:
    """The function of ``module`` that writes to a tensor what ``operation`` makes of it alone."""

    def function(input: Tensor) -> Tensor:
        return apply_into1(operation, input)

    _name_in_place(function, operation.name, module, "it")
    return function


def _name_in_place(function: Any, plain: str, module: str, result: str) -> None:
    """Name a function for the one, ``plain``, of which it writes the result in place."""
    name = f"{plain}_"
    function.__code__ = function.__code__.replace(co_name=name)  # tracebacks and errors say it, too
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"``{plain}``, written to the tensor itself. Raises as it, and where {result} does not fit."
