"""The errors of ``pycuda.driver``, and how cuplug's become them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

from .....allocators import errors
from ...program_runs import is_on_purpose

__all__ = [
    *("CompileError", "Error", "LaunchError", "LogicError", "MemoryError", "RuntimeError"),
    *("lacking", "translated"),
]

F = TypeVar("F", bound=Callable[..., Any])
_LAUNCH = (*range(700, 704), *range(709, 720))
"""The CUresult codes of work that failed on the device."""
_LOGIC = (1, 3, 4, 100, 101, 200, 201, 217, 400, 500, 600, 704, 705)
"""Those of calls that are wrong."""


class Error(Exception):
    """What all errors of the driver are. They say that they are PyCUDA's: tracebacks show that name."""

    def __init_subclass__(cls) -> None:
        cls.__module__ = "pycuda.driver"


class CompileError(Error):
    """Source did not compile. ``msg``, ``stdout`` and ``stderr`` say why, ``command_line`` what was to do it."""

    def __init__(self, msg: str, command_line: Any, stdout: str | None = None, stderr: str | None = None) -> None:
        super().__init__(msg, command_line, stdout, stderr)
        self.msg, self.command_line, self.stdout, self.stderr = msg, command_line, stdout, stderr

    def __str__(self) -> str:
        return f"{self.msg}\n{self.stderr}" if self.stderr else self.msg


class MemoryError(Error):  # noqa: A001 - PyCUDA's name
    """There is not that much memory left."""


class LogicError(Error):
    """A call is wrong: an argument, or that it is made now."""


class LaunchError(Error):
    """Work failed on the device."""


class RuntimeError(Error):  # noqa: A001 - PyCUDA's name
    """Anything else that the driver says."""


def lacking(name: str, instead: str = "") -> NoReturn:
    """Refuse what the stand-in does not have.

    Raises:
        NotImplementedError: always; the message has the name, and what to do instead.
    """
    raise NotImplementedError(f"cuplug's stand-in for PyCUDA has no {name}{instead and f': {instead}'}")


def translated(function: F) -> F:
    """The function, raising what PyCUDA would where cuplug raises its own errors."""

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except errors.CuplugError as error:  # which says no more than its counterpart
            raise _counterpart(error) from None
        except Exception as error:
            if isinstance(error, Error) or is_on_purpose(error):  # of a call that this one made
                raise error.with_traceback(None) from None
            raise

    return call  # type: ignore[return-value]


def _counterpart(error: errors.CuplugError) -> Exception:
    text = str(error)
    if isinstance(error, errors.OutOfMemoryError):
        return MemoryError(text)
    if isinstance(error, errors.CompileError):
        return CompileError(error.message, (), "", error.log)
    if isinstance(error, errors.DriverError):
        kinds = ((LaunchError, _LAUNCH), (LogicError, _LOGIC))
        return next((kind(text) for kind, codes in kinds if error.code in codes), RuntimeError(text))
    return LogicError(text)
