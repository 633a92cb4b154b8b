"""Numbers for call stacks, and which to record."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

from ...allocators.errors import TraceError
from .writer import TraceWriter

__all__ = ["DEFAULT_DEPTH", "PythonStacks", "parse_stacks"]

DEFAULT_DEPTH = 16
"""Levels of a call stack that are kept, counted from the program's innermost."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN = tuple(os.path.join(_PACKAGE, floor, "") for floor in ("allocators", "plugins", "runtime"))
_OWN_LEVELS = 6  # between the program's call and the allocator's question for its context


class PythonStacks:
    """Numbers for Python call stacks, each written to the side table when it is first seen.

    What costs time happens once a stack: an event only walks over the frames and looks their code objects and
    positions up.
    """

    def __init__(self, writer: TraceWriter, depth: int) -> None:
        self._writer = writer
        self._depth = depth
        self._numbers: dict[tuple[int, ...], int] = {}
        self._codes: dict[int, CodeType] = {}  # kept alive, so that no identity in ``_numbers`` is used again

    def context(self) -> int:
        """The number of the caller's call stack, less cuplug's own innermost levels."""
        frame: FrameType | None = sys._getframe(1)
        key: list[int] = []
        for _ in range(self._depth + _OWN_LEVELS):
            if frame is None:
                break
            key += (id(frame.f_code), frame.f_lasti)
            frame = frame.f_back
        stack = tuple(key)
        number = self._numbers.get(stack)
        return number if number is not None else self._number(stack, sys._getframe(1))

    def _number(self, key: tuple[int, ...], frame: FrameType | None) -> int:
        levels = []
        for _ in range(len(key) // 2):
            if frame is None:
                break
            code = frame.f_code
            self._codes[id(code)] = code
            levels.append((code.co_filename, frame.f_lineno or code.co_firstlineno, _function_name(code)))
            frame = frame.f_back
        own = 0
        while own < len(levels) and levels[own][0].startswith(_OWN):
            own += 1
        levels = levels[own:] or levels  # a stack that never leaves cuplug is better than none
        number = self._numbers[key] = self._writer.stack(levels[: self._depth])
        return number


def parse_stacks(text: str | None) -> tuple[str, int | None]:
    """The kind of stacks and the depth, None for the default, that ``none``, ``python`` or ``python:DEPTH`` mean.

    Raises:
        TraceError: it is none of these.
    """
    if text is None:
        text = os.environ.get("CUPLUG_TRACE_STACKS") or "none"
    kind, _, levels = text.partition(":")
    if kind not in ("none", "python") or (levels and not (levels.isdecimal() and 0 < int(levels) < 1000)):
        raise TraceError(f"cannot record stacks as {text!r}: write none, python, or python:DEPTH with 1 to 999 levels")
    return kind, int(levels) if levels else None


def _function_name(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))  # qualified from Python 3.11 on
