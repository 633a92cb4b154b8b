"""``cuplug.serialization``: what files that ``load`` reads may name, beside tensors, containers and modules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .loading import admitting

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

_named: list[Any] = []


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let files name these classes and functions from now on. They are called while a file is read.

    Args:
        safe_globals: classes and functions; or pairs of one and the name by which files know it.
    """
    _named.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """What was named."""
    return list(_named)


def clear_safe_globals() -> None:
    """Let files name nothing more than before."""
    _named.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """A context within which files may name these, too: see ``add_safe_globals``."""
    before = get_safe_globals()
    try:
        add_safe_globals(safe_globals)
        yield
    finally:
        _named[:] = before


def _admitted(module: str, name: str) -> Any:
    for each in _named:
        meant, known = each if isinstance(each, tuple) else (each, f"{each.__module__}.{each.__qualname__}")
        if known == f"{module}.{name}":
            return meant
    return None


admitting.append(_admitted)
