"""``cuplug.version``: what programs ask of ``torch.version``."""

from __future__ import annotations

import sys
from typing import Any

from ..machine.default_runtime import default_runtime

__all__ = ["__version__", "cuda", "debug", "hip", "xpu"]

__version__: str  # cuplug's own
cuda: str | None  # see ``__getattr__``
debug: bool = False
"""Whether this is a debug build: False."""
hip: str | None = None
"""No AMD GPUs."""
xpu: str | None = None
"""No Intel GPUs."""


def __getattr__(name: str) -> Any:
    """``cuda``: the version of CUDA that the driver supports, such as ``"12.8"``; None without a device.

    Raises:
        AttributeError: torch's module may have the name, and this has not.
    """
    if name == "cuda":
        running = default_runtime()
        return ".".join(map(str, running.driver.driver_version())) if running.device_count() else None
    if name == "__version__":
        return sys.modules[__name__.partition(".")[0]].__version__
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise AttributeError(f"version.{name} is not part of cuplug; use version.cuda and version.__version__")
