"""By which names things of the package print themselves: those of torch's that programs and readers know."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

_PACKAGE = __name__.partition(".")[0]
Made = TypeVar("Made", bound=Callable[..., Any])


def package_name() -> str:
    """``torch`` where cuplug stands in its place, else ``cuplug``.

    Programs written for torch take such texts apart: ``str(x.dtype).replace("torch.", "")``.
    """
    return "torch" if sys.modules.get("torch") is sys.modules[_PACKAGE] else _PACKAGE


def printed_as(title: str) -> Callable[[Made], Made]:
    """For a function that torch records as one operation, and that is several here: ``grad_fn`` of what it makes
    prints ``title``, such as ``MseLossBackward0``."""

    def decorate(function: Made) -> Made:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            if isinstance(made, tuple):
                if made[0]._layout.tracked:  # behind it, positions may stand
                    for one in made:
                        entitle(title, one, (*args, *kwargs.values()))
            elif made._layout.tracked:
                entitle(title, made, (*args, *kwargs.values()) if kwargs else args)
            return made

        return called  # type: ignore[return-value]

    return decorate


def entitle(title: str, made: Any, given: Sequence[Any] = ()) -> None:
    """Let the operation that made a tensor, if one is recorded, print ``title``; but for what was ``given`` and handed
    on."""
    if not made._layout.tracked:
        return
    for each in given:
        if each is made:
            return
    state = made._gradient
    node = getattr(state, "node", state)
    if node is not None:
        node.title = title
