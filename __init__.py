"""cuplug: a CUDA runtime for Python whose memory allocator is a plugin."""

import sys as _sys
from typing import TYPE_CHECKING

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
from .runtime import cuda, interop
from .runtime.buffer import Buffer
from .runtime.default_runtime import default_runtime, init, shutdown
from .runtime.pinned import PinnedBuffer
from .runtime.runtime import Runtime

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
    "interop",
    "shutdown",
]
__version__ = "0.1.0"

# The façade lives on its floor; `import cuplug.cuda` finds it all the same. A module `cuda.py` here would hide NVIDIA's
# package `cuda` from programs that run in this folder. Type checkers read `cuda.pyi`.
_sys.modules[f"{__name__}.cuda"] = cuda
# The same for what puts cuplug under other libraries: `import cuplug.interop.cupy` finds it, once under each name.
_sys.modules[f"{__name__}.interop"] = interop
for _library in interop.LIBRARIES:
    _sys.modules[f"{__name__}.interop.{_library}"] = getattr(interop, _library)

if TYPE_CHECKING:
    from .runtime.kernels import SourceModule as SourceModule

    # Modules all of whose names are public; mypy does not follow ``__all__`` from one to the next.
    from .runtime.tensor import *  # noqa: F403
    from .runtime.tensor.ops.combined_reductions import *  # noqa: F403
    from .runtime.tensor.ops.counting import *  # noqa: F403
    from .runtime.tensor.ops.elementwise_functions import *  # noqa: F403
    from .runtime.tensor.ops.normalising import *  # noqa: F403
    from .runtime.tensor.ops.products import *  # noqa: F403
    from .runtime.tensor.ops.repairing import *  # noqa: F403
    from .runtime.tensor.ops.scans import *  # noqa: F403
    from .runtime.tensor.ops.scattering import *  # noqa: F403
    from .runtime.tensor.ops.sorting import *  # noqa: F403
    from .runtime.tensor.ops.stacking import *  # noqa: F403
    from .runtime.tensor.ops.triangles import *  # noqa: F403
else:
    # Hidden from type checkers, which would take every name to exist.

    def __getattr__(name):
        """``SourceModule``, tensors and their functions (``tensor``, ``float32``, ...), imported at first use."""
        if name == "SourceModule":
            from .runtime import kernels

            found = kernels.SourceModule
        else:
            from .runtime.tensor import PUBLIC

            try:
                found = PUBLIC[name]
            except KeyError:
                from .runtime.tensor.core.absent import ABSENT, why_absent

                reason = why_absent(name, ABSENT)
                raise AttributeError(reason or f"module {__name__!r} has no attribute {name!r}") from None
        globals()[name] = found
        return found

    def __dir__():
        from .runtime.tensor import PUBLIC

        return sorted({*globals(), "SourceModule", *PUBLIC} - {"TYPE_CHECKING"})
