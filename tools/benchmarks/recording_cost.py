"""What it costs to record an event of an allocator in a trace: without call stacks, and with 16 levels of Python's."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from ...allocators import native
from ...allocators.base import Allocator
from ...allocators.upstreams.null import NullUpstream
from ...plugins.manager import default_manager
from ...plugins.tracing.recorder import TraceRecorder
from ...plugins.tracing.stacks import DEFAULT_DEPTH
from .timing import Repeat

RECORDED = {"without stacks": "none", f"with Python stacks of {DEFAULT_DEPTH} levels": f"python:{DEFAULT_DEPTH}"}
"""The kinds of recording, by what they are called."""

_PROGRAM = """
def descend(levels, allocate, free, times):
    if levels:
        return descend(levels - 1, allocate, free, times)
    for _ in range(times):
        free(allocate(1 << 20, stream=0))
"""


def contenders(allocator: Allocator | None = None) -> dict[str, Repeat]:
    """An allocation and its free, unrecorded and recorded, in each form of ``caching``; or with the allocator given."""
    found: dict[str, Repeat] = {}
    for form, one in ({"": allocator} if allocator is not None else _forms()).items():
        one.free(one.allocate(1 << 20, stream=0))
        found[f"{form}unrecorded"] = _repeat(one, None)
        for name, stacks in RECORDED.items():
            found[f"{form}{name}"] = _repeat(one, stacks)
    return found


def _forms() -> dict[str, Allocator]:
    from ...allocators.caching import CachingAllocator

    found: dict[str, Allocator] = {}
    if native.is_available():
        from ...allocators.native.without_device import NativeNullUpstream

        upstream: Any = NativeNullUpstream()
        found["native, "] = default_manager().make_allocator("caching", upstream)
    found["in Python, "] = CachingAllocator(NullUpstream())
    return found


def _repeat(allocator: Allocator, stacks: str | None) -> Repeat:
    program: dict[str, Any] = {"__name__": "program"}  # frames of cuplug itself would be left out
    exec(_PROGRAM, program)
    allocate, free, descend = allocator.allocate, allocator.free, program["descend"]
    if stacks is None:
        return lambda times: descend(DEFAULT_DEPTH + 4, allocate, free, times)
    folder = tempfile.mkdtemp()
    recorder = TraceRecorder(Path(folder) / "t.cuplug", stacks=stacks)
    weakref.finalize(recorder, shutil.rmtree, folder, ignore_errors=True)
    observer = recorder.observer(0)

    def repeat(times: int) -> None:
        allocator.attach(observer, context=recorder.context)
        descend(DEFAULT_DEPTH + 4, allocate, free, times)
        allocator.detach(observer)

    return repeat
