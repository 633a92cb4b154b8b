"""cuplug: a CUDA runtime for Python whose memory allocator is a plugin."""

import sys as _sys
from typing import Any as _Any

from .allocators.errors import (
    CompileError,
    CuplugError,
    DeviceMismatchError,
    DriverError,
    InvalidFreeError,
    OutOfMemoryError,
    PluginError,
    TraceError,
    UnknownAllocatorError,
)
from .runtime import cuda
from .runtime.buffer import Buffer
from .runtime.pinned import PinnedBuffer
from .runtime.runtime import Runtime, default_runtime, init, shutdown

__all__ = [
    "Buffer",
    "CompileError",
    "CuplugError",
    "DeviceMismatchError",
    "DriverError",
    "InvalidFreeError",
    "OutOfMemoryError",
    "PinnedBuffer",
    "PluginError",
    "Runtime",
    "TraceError",
    "UnknownAllocatorError",
    "__version__",
    "cuda",
    "default_runtime",
    "init",
    "shutdown",
]
__version__ = "0.1.0"

# The façade lives on its floor, among the runtime; `import cuplug.cuda` finds it all the same.
_sys.modules[f"{__name__}.cuda"] = cuda


def __getattr__(name: str) -> _Any:
    """``SourceModule``, tensors and their functions (``cuplug.tensor``, ``cuplug.float32``, ...), at first use."""
    if name == "SourceModule":
        from .runtime.kernels import SourceModule

        globals()[name] = SourceModule
        return SourceModule
    from .runtime.tensor import PUBLIC

    try:
        found = globals()[name] = PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return found


def __dir__() -> list[str]:
    from .runtime.tensor import PUBLIC

    return sorted({*globals(), "SourceModule", *PUBLIC})
