"""Where in the program memory was asked for: one rule for all tools and for the page.

The site of an allocation is the innermost frame of the user's own program. Where its stack has none, the site is the
operation in words, with its phase (``bmm, in backward``), and the innermost line of a library, if Python called one;
where no operation is named, that line; and only then a name of compiled code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...plugins.tracing.trace_in_memory import NOTES, Frame, Trace
from .frame_kinds import FrameKind, is_native, kind_of, short_path
from .operation_names import operation_of, phase_of

NO_STACK = "no call stack"


@dataclass(frozen=True)
class Site:
    """A line of the program, and what the blocks that it asked for hold."""

    where: str
    blocks: int
    nbytes: int


class SiteNames:
    """The sites of one trace's stacks. Files are named as briefly as tells the program's own apart."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._names: dict[int, str] = {}
        own = {frame.filename for frame in trace.frames.values() if kind_of(frame) == FrameKind.PROGRAM}
        self._files = _brief(own)

    def of(self, context: int) -> str:
        """The site of the call stack of that number."""
        name = self._names.get(context)
        if name is None:
            name = self._names[context] = self.of_stack(self._trace.stack(context))
        return name

    def of_stack(self, stack: Sequence[Frame]) -> str:
        """The site of a stack, innermost frame first."""
        return site_of(stack, self._files)


def site_of(stack: Sequence[Frame], files: Mapping[str, str] | None = None) -> str:
    """The site of a stack, innermost frame first.

    Args:
        stack: the frames.
        files: for paths of the program's own files what they are called; as they are where none is given.
    """
    own = next((frame for frame in stack if kind_of(frame) == FrameKind.PROGRAM), None)
    if own is not None:
        return str(own._replace(filename=(files or {}).get(own.filename, own.filename)))
    clear = without_noise(stack)
    noted = ", ".join(str(frame) for frame in stack if frame.filename in NOTES)
    python = [frame for frame in clear if not is_native(frame) and frame.filename not in NOTES]
    outside = [frame for frame in python if not short_path(frame.filename).startswith("torch/")]
    line = next(iter(outside or python), None)
    told = str(line._replace(filename=short_path(line.filename))) if line else ""
    operation, phase = operation_of(stack), phase_of(stack)
    words = ", ".join(filter(None, (", in ".join(filter(None, (operation, phase))), noted)))
    if operation:
        return f"{words}, at {told}" if outside else words
    return told or words or (str(clear[0].function) if clear else NO_STACK)


def without_noise(stack: Sequence[Frame]) -> tuple[Frame, ...]:
    """The stack without the frames that say nothing: unwinder, allocator, interpreter, dispatch, launcher."""
    return tuple(frame for frame in stack if kind_of(frame) != FrameKind.NOISE)


def sites(trace: Trace, contexts: npt.NDArray[Any], nbytes: npt.NDArray[Any], top: int) -> list[Site]:
    """The ``top`` lines by bytes, of blocks given by their stacks' numbers and their sizes."""
    names = SiteNames(trace)
    numbers, place = np.unique(contexts, return_inverse=True)
    blocks = np.bincount(place, minlength=len(numbers)).tolist()
    totals = np.zeros(len(numbers), np.int64)
    np.add.at(totals, place, nbytes)
    found: dict[str, list[int]] = {}
    for context, count, total in zip(numbers.tolist(), blocks, totals.tolist(), strict=True):
        entry = found.setdefault(names.of(context), [0, 0])
        entry[0] += count
        entry[1] += total
    ranked = sorted(found.items(), key=lambda item: (-item[1][1], not item[0].endswith(")"), item[0]))  # lines first
    return [Site(where, count, total) for where, (count, total) in ranked[:top]]


def _brief(filenames: set[str]) -> dict[str, str]:
    """For each path its last parts: as many as no other of these paths ends with."""
    parts = {name: name.replace("\\", "/").split("/") for name in filenames}
    short: dict[str, str] = {}
    for name, mine in parts.items():
        others = [theirs for other, theirs in parts.items() if other != name and theirs[-1] == mine[-1]]
        count = 1
        while count < len(mine) and any(theirs[-count:] == mine[-count:] for theirs in others):
            count += 1
        short[name] = "/".join(mine[-count:])
    return short
