"""Views whose shape and strides are worked out once: what was made of a tensor of one layout serves the next one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .gradient_seam import engine
from .layout import Layout
from .shapes import Size
from .tensor import Tensor, make_tensor

__all__ = ["kept", "shown_as"]

Function = TypeVar("Function", bound=Callable[..., Any])
_EXACT = frozenset((int, Size))
"""Types of arguments of which equal ones mean the same. Others might be equal to them, and refused."""


def kept(function: Function) -> Function:
    """``function(tensor, *arguments)``, which makes a view that begins where the tensor does, or something else. Views
    are kept by the tensor's layout and the arguments, where these are integers or sizes."""

    @wraps(function)
    def shown(input: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A002 - its name where it is given by name
        if not named:
            for each in arguments:
                if type(each) not in _EXACT:
                    break
            else:
                if isinstance(input, Tensor):
                    found = input._layout.plans.get((function, arguments))
                    return _made(function, input, arguments) if found is None else shown_as(input, found)
        return function(input, *arguments, **named)

    return shown  # type: ignore[return-value]


def shown_as(tensor: Tensor, layout: Layout, offset: int | None = None) -> Tensor:
    """A view of a plain layout. The offset is in elements, and stays if None."""
    made = make_tensor(tensor._storage, tensor._offset if offset is None else offset, layout)
    return engine().view(tensor, made) if tensor._layout.tracked else made


def _made(function: Callable[..., Any], tensor: Tensor, arguments: tuple[Any, ...]) -> Any:
    made = function(tensor, *arguments)
    if made is not tensor and made._storage is tensor._storage and made._offset == tensor._offset:
        tensor._layout.plans[function, arguments] = made._layout.plain
    return made
