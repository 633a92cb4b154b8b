"""Views whose shape and strides are worked out once: what was made of a tensor of one layout serves the next one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from .gradient_seam import engine
from .layout import Layout
from .printed_names import entitle
from .shapes import Size
from .tensor import Tensor, make_tensor

Function = TypeVar("Function", bound=Callable[..., Any])
_EXACT = frozenset((int, Size))
"""Types of arguments of which equal ones mean the same. Others might be equal to them, and refused."""

_TITLES: dict[str, str | Callable[..., str]] = {
    "diagonal": "DiagonalBackward",
    "expand": "ExpandBackward",
    "movedim": "PermuteBackward",
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
                    own = input._layout
                    found = own.plans.get((function, arguments))
                    if found is not None:  # as ``shown_as``, in fewer steps
                        layout, printed = found
                        made = make_tensor(input._storage, input._offset, layout)
                        return engine().view(input, made, printed) if own.tracked else made
                    made = function(input, *arguments)
                    name = title(*arguments) if callable(title) else title
                    if made is not input and made._storage is input._storage and made._offset == input._offset:
                        own.plans[function, arguments] = made._layout.plain, name or "ViewBackward"
                    return titled(made, name) if name and made is not input else made
        made = function(input, *arguments, **named)
        if not title or made is input or not isinstance(made, Tensor):
            return made
        return titled(made, title(*arguments, *named.values()) if callable(title) else title)

    return shown  # type: ignore[return-value]


def shown_as(tensor: Tensor, layout: Layout, offset: int | None = None, title: str = "ViewBackward") -> Tensor:
    """A view of a plain layout. The offset is in elements, and stays if None. ``title``: what ``grad_fn`` prints."""
    made = make_tensor(tensor._storage, tensor._offset if offset is None else offset, layout)
    return engine().view(tensor, made, title) if tensor._layout.tracked else made


def titled(view: Tensor, title: str) -> Tensor:
    """A view whose ``grad_fn`` prints ``title``, if it is recorded."""
    entitle(title, view)
    return view
