"""Where in a program a call came from: the first frame that is not cuplug's."""

from __future__ import annotations

import sys
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def calling_frame() -> FrameType:
    """The frame of the program that called into cuplug; the outermost of all where every frame is cuplug's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame
