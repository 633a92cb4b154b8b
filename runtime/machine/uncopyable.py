"""Refuses copies of objects that own something: a copy would be a second owner of one and the same thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex


def refuse_copies(advice: str) -> Callable[[Any, SupportsIndex], NoReturn]:
    """A ``__reduce_ex__`` for classes whose objects cannot be copied, deep-copied or pickled.

    ``copy.copy``, ``copy.deepcopy`` and ``pickle`` all call it, also for an object deep inside others. Assign it in the
    class: ``__reduce_ex__ = refuse_copies("allocate another one and copy the contents with memcpy")``.

    Args:
        advice: what to do instead. It ends the message of the TypeError that each attempt raises.
    """

    def __reduce_ex__(self: Any, protocol: SupportsIndex) -> NoReturn:  # noqa: ARG001, N807 - Python's name
        name = type(self).__name__
        raise TypeError(f"{name} objects cannot be copied or pickled, for a copy would own the same thing: {advice}")

    return __reduce_ex__
