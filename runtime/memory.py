"""Device memory by the default runtime: ``alloc``."""

from __future__ import annotations

from typing import Any

from .buffer import Buffer
from .runtime import default_runtime

__all__ = ["Buffer", "alloc"]


def alloc(nbytes: int, *, stream: Any = None) -> Buffer:
    """``nbytes`` bytes of device memory for use on ``stream``, uninitialised: see ``Runtime.alloc``."""
    return default_runtime().alloc(nbytes, stream=stream)
