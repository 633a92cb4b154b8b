"""Which module computes in this thread: its path from the outermost one, and the phase of the training."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

__all__ = ["current_path", "entered"]


class _Scope(threading.local):
    def __init__(self) -> None:
        self.modules: list[Any] = []


_scope = _Scope()


class entered:  # noqa: N801 - reads as a verb
    """A context within which a module computes."""

    __slots__ = ("_module",)

    def __init__(self, module: Any) -> None:
        self._module = module

    def __enter__(self) -> None:
        _scope.modules.append(self._module)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _scope.modules.pop()


def current_path() -> str:
    """The path of the module that computes in this thread, as the outermost one names it; empty outside of all."""
    modules = _scope.modules
    if not modules:
        return ""
    wanted = modules[-1]
    return next((path for path, each in modules[0].named_modules() if each is wanted), type(wanted).__name__)
