"""Where in the program memory was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...plugins.tracing.trace_in_memory import Frame, Trace

__all__ = ["Site", "program_frame", "sites"]

_LIBRARIES = ("site-packages", "dist-packages", "/lib/python", "<frozen")


@dataclass(frozen=True)
class Site:
    """A line of the program, and what the blocks that it asked for hold."""

    where: str
    blocks: int
    nbytes: int


def program_frame(stack: tuple[Frame, ...]) -> Frame | None:
    """The innermost frame that is the program's own, rather than an installed library's; else the innermost."""
    own = (frame for frame in stack if not any(library in frame.filename for library in _LIBRARIES))
    return next(own, stack[0] if stack else None)


def sites(trace: Trace, contexts: npt.NDArray[Any], nbytes: npt.NDArray[Any], top: int) -> list[Site]:
    """The ``top`` lines by bytes, of blocks given by their stacks' numbers and their sizes."""
    found: dict[str, list[int]] = {}
    for context in np.unique(contexts):
        mine = contexts == context
        where = str(program_frame(trace.stack(context)) or "no call stack")
        entry = found.setdefault(where, [0, 0])
        entry[0] += int(np.count_nonzero(mine))
        entry[1] += int(nbytes[mine].sum())
    ranked = sorted(found.items(), key=lambda item: (-item[1][1], item[0]))
    return [Site(where, blocks, total) for where, (blocks, total) in ranked[:top]]
