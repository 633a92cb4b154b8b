"""Functions written out for the arguments that they take.

A loop over the operands of a small kernel takes longer than the kernel's launch. So the functions that launch are
generated: what a loop would do for each argument stands there once for each, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


class Unroller:
    """Writes out what is done for each of a function's arguments, and makes the function.

    For example, for two tensors and a number::

        arguments = Unroller(["tensor", "tensor", "number"])
        lines = arguments.each({"tensor": "p{k} = a{k}.address", "number": "p{k} = float(a{k})"}, between="; ")
        add = arguments.function(f"def add(a0, a1, a2):\\n    {lines}\\n    return p0, p1, p2", "add")
    """

    def __init__(self, kinds: Sequence[str]) -> None:
        """For arguments of these kinds. A kind is any word that templates know."""
        self.kinds = tuple(kinds)

    def each(self, template: str | Mapping[str, str], *, between: str = "", only: Iterable[str] | None = None) -> str:
        """The template once for each argument, with its place (from 0) for ``{k}``.

        Args:
            template: the text for every argument, or a text for each kind; arguments of other kinds are left out.
            between: what stands between two texts.
            only: the kinds of argument to write something for; all, if left out.
        """
        wanted = None if only is None else frozenset(only)
        texts = []
        for place, kind in enumerate(self.kinds):
            text = template if isinstance(template, str) else template.get(kind)
            if text is not None and (wanted is None or kind in wanted):
                texts.append(text.format(k=place))
        return between.join(texts)

    @staticmethod
    def function(source: str, name: str, names: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """The function ``name`` that ``source`` defines; ``names`` are the global ones that it uses."""
        space = {"__name__": __name__, **(names or {})}  # by which call stacks leave its frames out
        exec(compile(source, f"<{name}, written out by cuplug>", "exec"), space)
        made: Callable[..., Any] = space[name]
        return made
