"""The seam to mixed precision, which stands above all operations and registers itself here.

While a thread is within ``autocast``, operands pass through ``convert`` before an operation looks for its plan; at all
other times that costs one look at ``seam.on``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


class _Seam:
    __slots__ = ("convert", "on")

    def __init__(self) -> None:
        self.on = 0
        """How many contexts of ``autocast`` are entered, in all threads."""
        self.convert: Callable[[Hashable, Sequence[Any]], Sequence[Any]] = lambda _, operands: operands
        """The operands of an operation in the type in which it runs."""


seam = _Seam()
_counting = threading.Lock()


class _Casting(threading.local):
    """By the kind of device: the fast type while ``autocast`` is on, else None."""

    def __init__(self) -> None:
        self.fast: Mapping[str, Any] = {}
        self.cache: dict[Any, tuple[Any, int, Any]] | None = None
        """Weights that were converted, by identity: themselves, their version, and what came of them."""


autocasting = _Casting()


@contextmanager
def casting_as(fast: Mapping[str, Any], cache: dict[Any, Any] | None) -> Iterator[None]:
    """A context within which this thread computes with these fast types by kind of device, and keeps converted weights
    in ``cache``, where that is not None."""
    before = autocasting.fast, autocasting.cache
    active, counted = any(fast.values()), False
    try:  # a signal's exception may come behind each call
        if active:
            with _counting:
                seam.on += 1
                counted = True
        autocasting.fast, autocasting.cache = fast, cache
        yield
    finally:
        autocasting.fast, autocasting.cache = before
        if counted:
            with _counting:
                seam.on -= 1


def for_rows(name: str, operand: Any) -> Any:
    """The operand of a line of the table of rows, in the type in which that runs."""
    return seam.convert((name,), (operand,))[0] if seam.on else operand


def for_products(*operands: Any) -> Sequence[Any]:
    """The operands of a sum of products, in the type in which products of matrices run."""
    return seam.convert("matmul", operands) if seam.on else operands
