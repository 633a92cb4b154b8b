"""Views whose shape and strides are worked out once: what was made of a tensor of one layout serves the next one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .gradient_seam import engine
from .layout import Layout
from .shapes import Size
from .tensor import Tensor, make_tensor

__all__ = ["kept", "shown_as", "titled"]

Function = TypeVar("Function", bound=Callable[..., Any])
_EXACT = frozenset((int, Size))
"""Types of arguments of which equal ones mean the same. Others might be equal to them, and refused."""

_TITLES: dict[str, str | Callable[..., str]] = {
    "diagonal": "DiagonalBackward",
    "expand": "ExpandBackward",
    "permute": "PermuteBackward",
    "reversed_dimensions": "PermuteBackward",
    "squeeze": lambda dim=None: f"SqueezeBackward{0 if dim is None else 1 if isinstance(dim, int) else 2}",
    "t": "TBackward",
    "transpose": "TransposeBackward",
    "transposed_matrices": "TransposeBackward",
    "unsqueeze": "UnsqueezeBackward",
}
"""What torch calls views; those of another shape are ``ViewBackward``."""


def kept(function: Function) -> Function:
    """``function(tensor, *arguments)``, which makes a view that begins where the tensor does, or something else. Views
    are kept by the tensor's layout and the arguments, where these are integers or sizes."""

    title: Any = _TITLES.get(function.__name__)

    @wraps(function)
    def shown(input: Any, *arguments: Any, **named: Any) -> Any:  # noqa: A002 - its name where it is given by name
        if not named:
            for each in arguments:
                if type(each) not in _EXACT:
                    break
            else:
                if isinstance(input, Tensor):
                    found = input._layout.plans.get((function, arguments))
                    made = _made(function, input, arguments) if found is None else shown_as(input, found)
                    if title and made._layout.tracked and made is not input:
                        titled(made, title if type(title) is str else title(*arguments))
                    return made
        made = function(input, *arguments, **named)
        if title and isinstance(made, Tensor) and made._layout.tracked and made is not input:
            titled(made, title if type(title) is str else title(*arguments, *named.values()))
        return made

    return shown  # type: ignore[return-value]


def shown_as(tensor: Tensor, layout: Layout, offset: int | None = None, title: str = "") -> Tensor:
    """A view of a plain layout. The offset is in elements, and stays if None. ``title``: what ``grad_fn`` prints."""
    made = make_tensor(tensor._storage, tensor._offset if offset is None else offset, layout)
    return titled(engine().view(tensor, made), title) if tensor._layout.tracked else made


def titled(view: Tensor, title: str) -> Tensor:
    """A view whose ``grad_fn`` prints the name of the operation, if it has one and the view is recorded."""
    if title and view._layout.tracked:
        node = getattr(view._gradient, "node", None)
        if node is not None:
            node.title = title
    return view


def _made(function: Callable[..., Any], tensor: Tensor, arguments: tuple[Any, ...]) -> Any:
    made = function(tensor, *arguments)
    if made is not tensor and made._storage is tensor._storage and made._offset == tensor._offset:
        tensor._layout.plans[function, arguments] = made._layout.plain
    return made
