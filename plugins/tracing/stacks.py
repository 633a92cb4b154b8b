"""Call stacks: which to record, and numbers for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from itertools import count
from types import CodeType, FrameType
from typing import TypeAlias

from ...allocators import native
from ...allocators.errors import TraceError
from ...allocators.libraries import split_context
from .training_scope import NO_MODULE, scope

DEFAULT_DEPTH = 16
"""Levels of a call stack that are kept, counted from the program's innermost."""

Level: TypeAlias = "tuple[str, int, str]"
"""One level of a call stack: file name, line, function."""

_PACKAGE = __name__.partition(".")[0]
_ENDS_HERE = "__cuplug_stacks_end_here__"
"""The module variable by which a module says that its frames, and those that called it, are no part of the program."""
_PROGRAM, _LEFT_OUT, _END = range(3)


class PythonStacks:
    """Numbers for Python call stacks, each told when it is first seen.

    A stack has the program's own frames, innermost first. Frames of cuplug are left out, generated code included,
    since its globals name a module of cuplug, and so are frames of ``runpy``; they do not count as levels.

    What costs time happens once a stack: an event only walks over the frames and looks their code objects and
    positions up. Where the native core is, that walk is in C, and asks here for the kind of code that it sees first.
    """

    def __init__(self, number_of: Callable[[Iterable[Level]], int], depth: int = DEFAULT_DEPTH) -> None:
        """Make a source of contexts.

        Args:
            number_of: gives a call stack its number, which is not 0; it is asked once for each.
            depth: how many levels to keep.
        """
        self._number_of = number_of
        self._depth = depth
        self._numbers: dict[tuple[int, ...], int] = {}
        self._kinds: dict[int, int] = {}
        """Whose frames a code object's are, by its identity."""
        self._codes: list[CodeType] = []
        """Keeps the code objects alive whose identities are known, so that none is used again."""
        self.context: Callable[[], int] = self.walk
        """The number of the call stack of the program that called, or 0 where cuplug was not called by a program."""
        if native.is_available():
            from ...allocators import _native

            self.context = _native.StackWalker(self._kind, self._number, depth)

    def walk(self) -> int:
        """What ``context`` gives, in Python: where there is no native core, and for comparison."""
        frame: FrameType | None = sys._getframe(1)
        kinds = self._kinds
        key: list[int] = []
        left = self._depth
        while frame is not None and left:
            code = frame.f_code
            kind = kinds.get(id(code))
            if kind is None:
                kind = self._kind(frame)
            if kind == _PROGRAM:
                key += (id(code), frame.f_lasti)
                left -= 1
            elif kind == _END:
                break
            frame = frame.f_back
        stack = tuple(key)
        number = self._numbers.get(stack)
        if number is None:
            number = self._numbers[stack] = self._number(len(key) // 2, sys._getframe(1))
        return number

    def _kind(self, frame: FrameType) -> int:
        names = frame.f_globals
        module = names.get("__name__")
        package = module.partition(".")[0] if isinstance(module, str) else ""
        kind = _LEFT_OUT if package in (_PACKAGE, "runpy") else _PROGRAM
        if _ENDS_HERE in names:
            kind = _END
        self._codes.append(frame.f_code)  # before its identity is known: an exception may come between the two
        self._kinds[id(frame.f_code)] = kind
        return kind

    def _number(self, count: int, frame: FrameType | None) -> int:
        """The number of a stack seen first, of ``count`` levels of the program, from its innermost frame on."""
        levels: list[Level] = []
        while frame is not None and len(levels) < count:
            code = frame.f_code
            if self._kinds.get(id(code)) == _PROGRAM:
                levels.append((code.co_filename, frame.f_lineno or code.co_firstlineno, _function_name(code)))
            frame = frame.f_back
        return self._number_of(levels) if levels else 0


class ModuleStacks:
    """Numbers for where a training is: modules as levels, the innermost first, with the phase in place of a file.

    ``layer1.0.conv`` in the phase ``forward`` has the levels ``("forward", 0, "layer1.0.conv")``, then those of
    ``layer1.0`` and ``layer1``. Outside of modules, and in no phase, there is no stack.
    """

    def __init__(self, number_of: Callable[[Iterable[Level]], int]) -> None:
        """Make a source of contexts. ``number_of`` gives levels their number, which is not 0; once for each."""
        self._number_of = number_of
        self._numbers: dict[tuple[str, str], int] = {("", ""): 0}

    def context(self) -> int:
        """The number of the module and phase in which this thread is."""
        key = scope.path(), scope.phase_here()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._number_of(_module_levels(*key))
        return number


def _module_levels(path: str, phase: str) -> list[Level]:
    parts = path.split(".") if path else [NO_MODULE]
    return [(phase, 0, ".".join(parts[:count])) for count in range(len(parts), 0, -1)]


class CallStacks:
    """Call stacks in memory, for an observer that wants to know where the program was.

    An observer with an attribute ``context`` is called with what that returned, on the thread that caused the event::

        class Watch:
            def __init__(self):
                self.stacks = CallStacks()
                self.context = self.stacks.context

            def __call__(self, kind, time_ns, thread, stream, address, nbytes, requested, context):
                for filename, line, function in self.stacks.levels(context):
                    ...
    """

    def __init__(self, depth: int = DEFAULT_DEPTH) -> None:
        """Keep ``depth`` levels of each stack, counted from the program's innermost."""
        self._stacks: dict[int, tuple[Level, ...]] = {0: ()}
        self._count = count(1)
        self.context = PythonStacks(self._add, depth).context
        """The number of the program's call stack at this moment, or 0 where there is none."""

    def levels(self, context: int) -> tuple[Level, ...]:
        """The call stack of that number, innermost level first. Empty for 0.

        Raises:
            KeyError: no stack has this number.
        """
        return self._stacks[split_context(context)[0]]

    def _add(self, levels: Iterable[Level]) -> int:
        number = next(self._count)
        self._stacks[number] = tuple(levels)
        return number


def parse_stacks(text: str | None) -> tuple[str, int | None]:
    """The kind of stacks and the depth, None for the default, that ``none``, ``python``, ``python:DEPTH`` or
    ``modules`` mean.

    Raises:
        TraceError: it is none of these.
    """
    source = ""
    if text is None:
        text, source = (
            os.environ.get("CUPLUG_TRACE_STACKS") or "none",
            " (the environment variable CUPLUG_TRACE_STACKS)",
        )
    kind, _, levels = text.partition(":")
    fits = kind == "python" and levels.isdecimal() and 0 < int(levels) < 1000 if levels else ":" not in text
    if kind not in ("none", "python", "modules") or not fits:
        raise TraceError(
            f"cannot record stacks as {text!r}{source}: write none, python, python:DEPTH with 1 to 999 levels, "
            "or modules"
        )
    return kind, int(levels) if levels else None


def _function_name(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))  # qualified from Python 3.11 on
