"""Device memory by the default runtime: ``alloc``."""

from __future__ import annotations

from typing import Any

from . import runtime
from .buffer import Buffer

__all__ = ["Buffer", "alloc"]


def alloc(nbytes: int, *, stream: Any = None) -> Buffer:
    """``nbytes`` bytes of device memory for use on ``stream``, uninitialised: see ``Runtime.alloc``."""
    if stream is None:
        try:
            current = runtime.here.current
        except AttributeError:
            current = runtime.default_runtime().current
        return Buffer(current.allocate(nbytes, stream=current.stream))
    return runtime.default_runtime().alloc(nbytes, stream=stream)
