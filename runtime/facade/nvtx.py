"""``cuplug.cuda.nvtx``: named moments and ranges of a program, for NVIDIA's tools and for the trace.

Nsight shows them where the package ``nvtx`` is installed. A trace that is being recorded keeps each mark, and each
beginning of a range, as a marker.
"""

from __future__ import annotations

import itertools
import threading
from contextlib import ContextDecorator
from functools import cache
from typing import Any

from ..machine.default_runtime import default_runtime, is_initialized

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


class _Thread(threading.local):
    """How many ranges of a thread have begun and not ended."""

    depth = 0


_here = _Thread()
_started: dict[int, Any] = {}
"""By number, what NVIDIA's package made of a range that may end in another thread."""
_numbers = itertools.count(1)


def mark(msg: str) -> None:
    """Name this moment.

    Raises:
        TraceError: a trace is being recorded and the disk is full; so do all functions here that begin something.
    """
    _record(msg)
    nvidia = _nvidia()
    if nvidia is not None:
        nvidia.mark(message=msg)


def range_push(msg: str) -> int:
    """Begin a range inside those that this thread has begun, until ``range_pop``. Returns how many those are."""
    _record(msg)
    nvidia = _nvidia()
    if nvidia is not None:
        nvidia.push_range(message=msg)
    depth = _here.depth
    _here.depth = depth + 1
    return depth


def range_pop() -> int:
    """End the range that this thread began last. Returns how many are left; -1 if there was none."""
    depth = _here.depth - 1
    if depth < 0:
        return -1
    nvidia = _nvidia()
    if nvidia is not None:
        nvidia.pop_range()
    _here.depth = depth
    return depth


def range_start(msg: str) -> int:
    """Begin a range that any thread may end. Returns its number, for ``range_end``."""
    _record(msg)
    nvidia, number = _nvidia(), next(_numbers)
    _started[number] = None if nvidia is None else nvidia.start_range(message=msg)
    return number


def range_end(range_id: int) -> None:
    """End a range that ``range_start`` began; nothing if it has ended."""
    found = _started.pop(range_id, None)
    if found is not None:
        _nvidia().end_range(found)


class range(ContextDecorator):  # noqa: A001, N801 - torch's name
    """``with range("forward"):`` begins a range and ends it; also a decorator. Further arguments are for ``format``."""

    def __init__(self, msg: str, *args: Any, **kwargs: Any) -> None:
        self._message = msg.format(*args, **kwargs) if args or kwargs else msg

    def __enter__(self) -> None:
        range_push(self._message)

    def __exit__(self, *_: object) -> None:
        range_pop()


def _record(msg: str) -> None:
    """Put a marker into the trace of the default runtime, if it records one."""
    if not isinstance(msg, str):
        raise TypeError(f"a mark or a range has a text for a name, not {msg!r}")
    if is_initialized():
        recorder = default_runtime().recorder
        if recorder is not None:
            recorder.marker(msg)


@cache
def _nvidia() -> Any:
    """NVIDIA's package, imported at the first mark; None where it is not installed."""
    try:
        import nvtx
    except ImportError:
        return None
    return nvtx
