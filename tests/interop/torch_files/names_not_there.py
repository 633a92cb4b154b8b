"""What stands for names that are not there: of cuplug, or of PyTorch's tools for tests."""

from __future__ import annotations

import functools
import inspect
import unittest
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Marker", "as_it_is", "left_out", "loading", "tool_is_not_here"]

loading = {"now": True}
"""Whether a file of tests is being read: what is missing may then be named, and is refused when a test uses it."""


class Marker:
    """Stands for a name that is not there while a file is read; a test that uses it ends as ``refuse`` says."""

    __spec__, __name__ = None, "a name that is not there"  # what the import system asks of a module

    def __init__(self, name: str, refuse: Callable[[str], BaseException]) -> None:
        self.name, self._refuse = name, refuse

    def _used(self, name: str | None = None) -> Any:
        if not loading["now"]:
            raise self._refuse(name or self.name)
        return Marker(name or self.name, self._refuse)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._used(f"{self.name}.{name}")

    def __call__(self, *given: Any, **named: Any) -> Any:
        if loading["now"] and len(given) == 1 and not named and inspect.isfunction(given[0]):
            return self._instead_of(given[0])  # it was to decorate a test, or to make a decorator
        return self._used()

    def _instead_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def refused(*given: Any, **named: Any) -> Any:
            raise self._refuse(self.name)

        return refused

    def __repr__(self) -> str:
        return f"{self.name} is not part of cuplug"  # what an error says that names an argument

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        marker = self

        class Refused:
            def __init__(self, *given: Any, **named: Any) -> None:
                raise marker._refuse(marker.name)

        return (Refused,)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        if not loading["now"]:
            raise self._refuse(self.name)
        return iter(())

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __or__ = __ror__ = __add__


def tool_is_not_here(name: str) -> Marker:
    return Marker(name, lambda name: unittest.SkipTest(f"needs {name} of PyTorch's tools for tests"))


def as_it_is(*given: Any, **_: Any) -> Any:
    """A decorator that changes nothing, with arguments or without: what it asks for does not concern a CPU."""
    if len(given) == 1 and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
        return given[0]
    return lambda function: function


def left_out(why: str) -> Callable[..., Any]:
    """A decorator that skips, with arguments or without."""

    def decorate(*given: Any, **_: Any) -> Any:
        if len(given) == 1 and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
            return unittest.skip(why)(given[0])
        return unittest.skip(why)

    return decorate
