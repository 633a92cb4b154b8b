"""What torch knows beside CUDA (``torch.xpu``, ``torch.backends.mps``): programs ask, and there is none."""

from __future__ import annotations

__all__ = ["device_count", "is_available", "is_built"]


def is_available() -> bool:
    """Whether there is such an accelerator or library: False."""
    return False


def is_built() -> bool:
    """Whether cuplug could use it: False."""
    return False


def device_count() -> int:
    """How many of its devices there are: 0."""
    return 0
