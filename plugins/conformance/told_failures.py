"""What pytest prints of a broken rule: the rule, what was found, the last operations, and how to run it again.

The frames of the kit say nothing to the author of an allocator; those of the allocator's own code do.
"""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ...allocators.base import Allocator
from .rules import ContractBrokenError

if TYPE_CHECKING:
    import pytest

_MOST_FRAMES = 4
_KIT = Path(__file__).parent
_BASE = Path(sys.modules[Allocator.__module__].__file__ or "")


def told(error: ContractBrokenError, item: pytest.Item) -> str:
    """A failure of the test ``item`` in a few lines."""
    lines = [f"{error.rule.value} [{error.rule.name}]", "", f"  {error.detail}", ""]
    operations = next((one.operations for one in _chain(error) if one.operations), ())
    if operations:
        lines += ["What was done last:", ""]
        lines += [f"  {operation}" for operation in operations] + [""]
    frames = _frames_of_the_allocator(error)
    if frames:
        lines += ["In the allocator's code:", ""]
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in frames] + [""]
    lines += ["To run it alone (with --tb=long the kit's code is shown, too):", "", f"  {_again(item)}"]
    return "\n".join(lines) + "\n"


def _again(item: pytest.Item) -> str:
    """The command that runs one test of the contract."""
    given = item.callspec.params  # type: ignore[attr-defined]
    check = given.get("check")
    name = check.__name__.removeprefix("check_") if check else item.originalname  # type: ignore[attr-defined]
    words = ["--allocator", given["allocator_selection"], "--driver", given["driver_selection"], "-k", name]
    return shlex.join(["python", "-m", "pytest", "-p", "cuplug.plugins.conformance", *words])


def _chain(error: BaseException) -> Iterator[ContractBrokenError]:
    """The failure, and those that it was made of."""
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, ContractBrokenError):
            yield at
        at = at.__cause__


def _frames_of_the_allocator(error: BaseException) -> list[traceback.FrameSummary]:
    """Where the allocator was: in the error that is the failure's cause, if there is one."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, ContractBrokenError):
        return []
    return [frame for frame in traceback.extract_tb(_inside(error.__traceback__)) if _is_of_interest(frame)][
        -_MOST_FRAMES:
    ]


def _inside(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame of the base class on, behind which the allocator's code stands."""
    while trace is not None and Path(trace.tb_frame.f_code.co_filename) != _BASE:
        trace = trace.tb_next
    return trace


def _is_of_interest(frame: traceback.FrameSummary) -> bool:
    path = Path(frame.filename)
    return path != _BASE and _KIT not in path.parents
