"""cuplug: a CUDA runtime for Python whose memory allocator is a plugin."""

import sys as _sys
from importlib import import_module as _import_module
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
from .runtime import cuda as _cuda
from .runtime.facade import public_paths as _public_paths
from .runtime.machine.buffer import Buffer
from .runtime.machine.default_runtime import default_runtime, init, shutdown
from .runtime.machine.runtime import Runtime
from .runtime.memory.pinned import PinnedBuffer

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
    "as_torch",
    "cuda",
    "default_runtime",
    "init",
    "interop",
    "shutdown",
]
__version__ = "0.1.0"

# The façade lives on its floor; `import cuplug.cuda` finds it all the same. A module `cuda.py` here would hide NVIDIA's
# package `cuda` from programs that run in this folder. Type checkers read `cuda/__init__.pyi`.
_sys.modules[f"{__name__}.cuda"] = _cuda

_public_paths.put_in_place(__name__)

if TYPE_CHECKING:
    from . import amp as amp
    from . import autograd as autograd
    from . import backends as backends
    from . import compiler as compiler
    from . import cuda as cuda
    from . import distributed as distributed
    from . import interop as interop
    from . import jit as jit
    from . import nn as nn
    from . import optim as optim
    from . import utils as utils
    from .runtime import tensor as _tensor
    from .runtime.amp import GradScaler as GradScaler
    from .runtime.amp import autocast as autocast
    from .runtime.amp.autocasting import get_autocast_dtype as get_autocast_dtype
    from .runtime.amp.autocasting import is_autocast_enabled as is_autocast_enabled
    from .runtime.autograd import enable_grad as enable_grad
    from .runtime.autograd import inference_mode as inference_mode
    from .runtime.autograd import is_anomaly_enabled as is_anomaly_enabled
    from .runtime.autograd import is_grad_enabled as is_grad_enabled
    from .runtime.autograd import is_inference_mode_enabled as is_inference_mode_enabled
    from .runtime.autograd import no_grad as no_grad
    from .runtime.autograd import set_grad_enabled as set_grad_enabled
    from .runtime.facade.eager_compiler import compile as compile  # noqa: A004 - torch's name
    from .runtime.interop.torch_programs import as_torch as as_torch
    from .runtime.kernels import SourceModule as SourceModule
    from .runtime.kernels import Texture as Texture

    # Modules all of whose names are public; mypy does not follow ``__all__`` from one to the next.
    from .runtime.tensor import *  # noqa: F403
    from .runtime.tensor.core.dtype_limits import *  # noqa: F403
    from .runtime.tensor.core.dtypes import *  # noqa: F403
    from .runtime.tensor.core.generator import *  # noqa: F403
    from .runtime.tensor.core.memory_formats import *  # noqa: F403
    from .runtime.tensor.core.switches import *  # noqa: F403
    from .runtime.tensor.ops.arguments.facts import *  # noqa: F403
    from .runtime.tensor.ops.arithmetic.arithmetic import *  # noqa: F403
    from .runtime.tensor.ops.arithmetic.comparing import *  # noqa: F403
    from .runtime.tensor.ops.arithmetic.repairing import *  # noqa: F403
    from .runtime.tensor.ops.elementwise.elementwise_functions import *  # noqa: F403
    from .runtime.tensor.ops.elementwise.filling import *  # noqa: F403
    from .runtime.tensor.ops.joining.joining import *  # noqa: F403
    from .runtime.tensor.ops.joining.stacking import *  # noqa: F403
    from .runtime.tensor.ops.making.creation import *  # noqa: F403
    from .runtime.tensor.ops.making.from_values import *  # noqa: F403
    from .runtime.tensor.ops.making.legacy_types import *  # noqa: F403
    from .runtime.tensor.ops.making.patterns import *  # noqa: F403
    from .runtime.tensor.ops.products.contractions import *  # noqa: F403
    from .runtime.tensor.ops.products.products import *  # noqa: F403
    from .runtime.tensor.ops.random.random_choices import *  # noqa: F403
    from .runtime.tensor.ops.random.random_numbers import *  # noqa: F403
    from .runtime.tensor.ops.rearranging.repeating import *  # noqa: F403
    from .runtime.tensor.ops.rearranging.triangles import *  # noqa: F403
    from .runtime.tensor.ops.reductions.combined_reductions import *  # noqa: F403
    from .runtime.tensor.ops.reductions.normalising import *  # noqa: F403
    from .runtime.tensor.ops.reductions.reductions import *  # noqa: F403
    from .runtime.tensor.ops.reductions.scans import *  # noqa: F403
    from .runtime.tensor.ops.scattering.index_writes import *  # noqa: F403
    from .runtime.tensor.ops.scattering.scattering import *  # noqa: F403
    from .runtime.tensor.ops.shapes.views import *  # noqa: F403
    from .runtime.tensor.ops.sorting.counting import *  # noqa: F403
    from .runtime.tensor.ops.sorting.sorting import *  # noqa: F403
    from .runtime.utils import shared_tensors as _shared_tensors

    multiprocessing = _shared_tensors
    __all__ += _tensor.__all__  # what is imported by * from a package is private to pyright otherwise
else:
    # Hidden from type checkers, which would take every name to exist.
    cuda = _cuda

    def __getattr__(name):
        """``SourceModule``, tensors and their functions (``tensor``, ``float32``, ...), imported at first use."""
        if name in ("SourceModule", "Texture"):
            from .runtime import kernels

            found = getattr(kernels, name)
        elif name in _BESIDE_TENSORS:
            found = getattr(_import_module(f"{__name__}.runtime.{_BESIDE_TENSORS[name]}"), name)
        elif name.startswith("_foreach_"):
            from .runtime.tensor.ops.elementwise.foreach import for_each

            _public()
            found = for_each(name)
        elif name in _public_paths.PACKAGES:
            found = _import_module(f"{__name__}.{name}")
        else:
            try:
                found = _public()[name]
            except KeyError:
                if name.startswith("__"):
                    raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
                from .runtime.tensor.core.absent import ABSENT, why_absent

                reason = why_absent(name, ABSENT) or _public_paths.why_missing("torch", name)
                raise AttributeError(reason) from None
        globals()[name] = found
        return found

    def __dir__():
        later = {"SourceModule", "Texture", *_BESIDE_TENSORS, *_public_paths.PACKAGES, *_public()}
        return sorted({*globals(), *later} - {"TYPE_CHECKING"})

    def _public():
        """The names of tensors. What computes their gradients is imported when it is needed first."""
        from .runtime.tensor import PUBLIC
        from .runtime.tensor.core.gradient_seam import serve_when_asked

        serve_when_asked(lambda: _import_module(f"{__name__}.runtime.autograd"))
        return PUBLIC

    _BESIDE_TENSORS = {
        **dict.fromkeys(("autocast", "GradScaler"), "amp"),
        **dict.fromkeys(("get_autocast_dtype", "is_autocast_enabled"), "amp.autocasting"),
        **dict.fromkeys(
            ("enable_grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"), "autograd"
        ),
        **dict.fromkeys(("is_anomaly_enabled", "is_inference_mode_enabled"), "autograd"),
        "compile": "facade.eager_compiler",
        "as_torch": "interop.torch_programs",
    }
    """What stands above tensors and belongs beside their functions, with its package: tensors do without it."""
