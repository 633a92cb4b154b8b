"""Whether operations are recorded in this thread: ``no_grad``, ``enable_grad`` and their kin."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from ...allocators.core_choice import is_available

Function = TypeVar("Function", bound=Callable[..., Any])


class _Mode(threading.local):
    enabled = True
    inference = False
    keeper: Callable[[Any], Callable[[], Any]] | None = None
    """Takes what is to be kept for gradients, and gives what makes it again: None where it is simply kept."""


recording = _Mode()
"""Of the thread: ``enabled`` says whether operations of tracked tensors are recorded."""


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require gradients are recorded in this thread."""
    return recording.enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is within ``inference_mode``."""
    return recording.inference


class _Leaver:
    """The end of a context. A signal may interrupt it at its beginning; the one that the native core has, in C, it does
    not."""

    __slots__ = ()
    _mode: _Mode
    _before: list[tuple[bool, bool]]

    def __exit__(self, *_: object) -> None:
        self._mode.enabled, self._mode.inference = self._before.pop()


if is_available() and not TYPE_CHECKING:
    from ...allocators import _native

    _Leaver = _native.ModeLeaver


class _Switch(_Leaver):
    """A setting of the mode, as a context and as a decorator of functions and of generators."""

    _mode = recording
    _wanted: bool

    def __init__(self) -> None:
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((recording.enabled, recording.inference))
        recording.enabled = self._wanted

    def __call__(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function):

            @wraps(function)
            def steps(*args: Any, **kwargs: Any) -> Any:
                made = function(*args, **kwargs)
                value = None
                while True:
                    with self._again():  # the mode is the caller's between steps
                        try:
                            found = made.send(value)
                        except StopIteration as end:
                            return end.value
                    value = yield found

            return steps  # type: ignore[return-value]

        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return within  # type: ignore[return-value]

    def _again(self) -> _Switch:
        return type(self)()


class no_grad(_Switch):  # noqa: N801 - torch's name
    """``with no_grad():`` or ``@no_grad()``: operations are not recorded, and their results require no gradients."""

    _wanted = False

    def __new__(cls, function: Any = None) -> Any:
        # ``@no_grad`` without parentheses.
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)

    def __init__(self, function: Any = None) -> None:  # noqa: ARG002 - see __new__
        self._before = []


class enable_grad(_Switch):  # noqa: N801 - torch's name
    """``with enable_grad():`` or ``@enable_grad()``: operations are recorded, also within ``no_grad``."""

    _wanted = True


class set_grad_enabled(_Switch):  # noqa: N801 - torch's name
    """``with set_grad_enabled(flag):``, a decorator, or a call that holds from now on."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._wanted = bool(mode)
        self._before_call = recording.enabled
        recording.enabled = self._wanted

    def __enter__(self) -> None:
        self._before.append((self._before_call, recording.inference))
        recording.enabled = self._wanted

    def __call__(self, function: Function) -> Function:
        recording.enabled = self._before_call  # as a decorator it holds within the function only
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self._wanted})"

    def _again(self) -> _Switch:
        return enable_grad() if self._wanted else no_grad()


class inference_mode(_Switch):  # noqa: N801 - torch's name
    """``with inference_mode():`` or ``@inference_mode()``: as ``no_grad``. Tensors made within are ordinary ones."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._wanted = not mode

    def __enter__(self) -> None:
        self._before.append((recording.enabled, recording.inference))
        # Behind a call, super().__enter__, a signal's exception could come and leave gradients off.
        recording.enabled, recording.inference = self._wanted, not self._wanted

    def _again(self) -> _Switch:
        return inference_mode(not self._wanted)
