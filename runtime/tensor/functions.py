"""The functions that are methods too: ``cuplug.exp(x)`` is ``x.exp()``. The table's come from the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .methods import Tensor
from .ops.elementwise import apply, into
from .ops.promotion import common_dtype
from .places.elementwise_table import BY_NAME, TABLE, Operation

__all__ = ["FUNCTIONS", "is_tensor", "numel", "result_type", "where"]


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:  # noqa: A002 - torch's name
    """The elements of ``input`` where ``condition`` is True, else those of ``other``; either may be a number.

    With ``condition`` alone: the indices of its True elements, one tensor for each dimension.
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return apply(BY_NAME["where"], condition, input, other)


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:  # noqa: A002 - torch's name
    """The number of elements."""
    return input.numel()


def result_type(a: Any, b: Any) -> Any:
    """The type in which two operands, tensors or numbers, combine."""
    return common_dtype((a, b))


_KEYWORDS = {"pow": ("input", "exponent"), "lerp": ("input", "end", "weight")}
"""What torch calls the operands where it is not ``input`` and ``other``."""


def _of_operation(operation: Operation) -> Callable[..., Tensor]:
    keywords = _KEYWORDS.get(operation.name, ("input", "other"))

    def function(*operands: Any, out: Tensor | None = None, **named: Any) -> Tensor:
        if named:
            operands += tuple(named.pop(keyword) for keyword in keywords[len(operands) :] if keyword in named)
        if len(operands) != operation.arity or named:
            expected = ", ".join(keywords[: operation.arity])
            raise TypeError(f"{operation.name}() takes {expected} and out; got {len(operands)} operands, {named}")
        return into(operation, out, *operands)

    function.__doc__ = f"{operation.name}, element by element; written to ``out`` if given."
    return function


def _of_method(name: str) -> Callable[..., Any]:
    method = getattr(Tensor, name)
    takes = (Tensor, int, float) if name in ("add", "sub", "div") else Tensor

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's name
        if not isinstance(input, takes):
            raise TypeError(f"{name}() takes a tensor first, not {type(input).__name__}")
        return method(input, *args, **kwargs)

    function.__doc__ = method.__doc__
    return function


_METHODS = (
    *("sum", "prod", "mean", "var", "std", "norm", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all"),
    *("count_nonzero", "reshape", "flatten", "ravel", "unflatten", "permute", "transpose", "swapaxes", "swapdims"),
    *("movedim", "moveaxis", "t", "squeeze", "unsqueeze", "broadcast_to", "narrow", "select", "unbind", "split"),
    *("chunk", "flip", "diagonal", "as_strided", "tile", "clone", "clamp", "clip", "mm", "bmm", "mv", "dot", "nonzero"),
    *("masked_select", "masked_fill", "index_select", "add", "sub", "div", "is_floating_point"),
    *("is_complex", "is_signed", "is_nonzero", "is_same_size", "equal", "allclose", "isclose"),
)


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: _named(name, _of_operation(operation))
        for operation in TABLE
        for name in (operation.name, *operation.aliases)
        if name not in ("where", "clamp_both", "trunc_divide")
    },
    **{name: _named(name, _of_method(name)) for name in _METHODS},
    "subtract": _named("subtract", _of_method("sub")),
    "divide": _named("divide", _of_method("div")),
    "true_divide": _named("true_divide", _of_method("div")),
}
"""Every such function by its name."""
