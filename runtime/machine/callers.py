"""Where in a program a call came from, and warnings of that line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def calling_frame(*others: str) -> FrameType:
    """The innermost frame that belongs neither to cuplug nor to the packages ``others``; the outermost of all where
    every frame does."""
    frame, inner = sys._getframe(1), (_PACKAGE, *others)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in inner:
        frame = frame.f_back
    return frame


def warn_program(text: str, category: type[Warning] = UserWarning, *others: str) -> None:
    """Warn as of the line of the program that called, however deep in cuplug, or in the packages ``others``, this is.

    ``warnings.warn`` counts frames, of which a function that layers and other functions call has now more, now fewer.
    """
    frame = calling_frame(*others)
    names, file, line = frame.f_globals, frame.f_code.co_filename, frame.f_lineno
    module, registry = names.get("__name__") or "<string>", names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, file, line, module, registry)  # of a module None, nothing is said
