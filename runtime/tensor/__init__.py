"""Tensors: arrays on the CPU and on devices, with torch's names and meanings.

The floors, lowest first; an import never runs up:

- ``core``: what a tensor is. Its element type, device, layout and memory, the class with its fields, and what a random
  generator remembers.
- ``places``: the seam to what does the work. A *place* is the CPU or a device; tables say what work there is;
  ``dispatch`` is the one way to have it done.
- ``backends``: the three kinds of place. NumPy at once, NumPy as operations of a simulated stream, kernels on CUDA.
- ``ops``: what can be done with tensors, as functions.
- ``methods.py`` gives these functions to the class. ``write_generated.py`` writes the files that follow from others.
"""

# ruff: noqa: A001, A004 - torch's names

from typing import Any, get_type_hints

from ..facade import accelerator
from ..machine.device_name import current_factory_device as get_default_device
from ..machine.device_name import device, set_default_device
from ..streams.stream import Event, Stream
from . import backends as _backends  # noqa: F401 - they register themselves
from .core import dtype_limits, dtypes, generator, memory_formats, switches
from .core.dtype_limits import *  # noqa: F403
from .core.dtypes import *  # noqa: F403
from .core.dtypes import bool_ as bool
from .core.generator import *  # noqa: F403
from .core.memory_formats import *  # noqa: F403
from .core.shapes import Size
from .core.switches import *  # noqa: F403
from .methods import Tensor
from .ops.arguments import facts
from .ops.arguments.facts import *  # noqa: F403
from .ops.arguments.numpy_arrays import from_numpy
from .ops.arguments.scalars import truth as is_nonzero
from .ops.arithmetic import arithmetic, comparing, repairing
from .ops.arithmetic.arithmetic import *  # noqa: F403
from .ops.arithmetic.comparing import *  # noqa: F403
from .ops.arithmetic.repairing import *  # noqa: F403
from .ops.copying.copying import clone, detach
from .ops.elementwise import elementwise_functions, filling
from .ops.elementwise.elementwise_functions import *  # noqa: F403 - the functions of the table
from .ops.elementwise.filling import *  # noqa: F403
from .ops.exchange.exchange import asarray, from_dlpack, frombuffer
from .ops.exchange.loading import load
from .ops.exchange.printing import set_printoptions
from .ops.exchange.saving import save
from .ops.indexing.indexing import index_select, masked_fill, masked_select, nonzero
from .ops.joining import joining, stacking
from .ops.joining.joining import *  # noqa: F403
from .ops.joining.stacking import *  # noqa: F403
from .ops.making import creation, from_values, legacy_types, patterns
from .ops.making.creation import *  # noqa: F403
from .ops.making.from_values import *  # noqa: F403
from .ops.making.legacy_types import *  # noqa: F403
from .ops.making.patterns import *  # noqa: F403
from .ops.products import contractions, linalg, products
from .ops.products.contractions import *  # noqa: F403
from .ops.products.matmul import bmm, dot, matmul, mm, mv
from .ops.products.products import *  # noqa: F403
from .ops.random import random_choices, random_numbers
from .ops.random import random_states as random
from .ops.random.random_choices import *  # noqa: F403
from .ops.random.random_numbers import *  # noqa: F403
from .ops.random.random_states import default_generator, get_rng_state, set_rng_state
from .ops.rearranging import repeating, triangles
from .ops.rearranging.repeating import *  # noqa: F403
from .ops.rearranging.triangles import *  # noqa: F403
from .ops.reductions import combined_reductions, normalising, reductions, scans
from .ops.reductions.combined_reductions import *  # noqa: F403
from .ops.reductions.normalising import *  # noqa: F403
from .ops.reductions.reductions import *  # noqa: F403
from .ops.reductions.scans import *  # noqa: F403
from .ops.scattering import index_writes, scattering
from .ops.scattering.index_writes import *  # noqa: F403
from .ops.scattering.scattering import *  # noqa: F403
from .ops.shapes import views
from .ops.shapes.reshape import flatten, ravel, reshape, unflatten
from .ops.shapes.resizing import resize_as_
from .ops.shapes.views import *  # noqa: F403
from .ops.shapes.views import common_shape as broadcast_shapes
from .ops.sorting import counting, sorting
from .ops.sorting.counting import *  # noqa: F403
from .ops.sorting.sorting import *  # noqa: F403

__all__ = [
    "Event",
    "Size",
    "Stream",
    "Tensor",
    "accelerator",
    "asarray",
    "bmm",
    "bool",
    "broadcast_shapes",
    "clip",
    "clip_",
    "clone",
    "concat",
    "concatenate",
    "default_generator",
    "detach",
    "device",
    "divide",
    "dot",
    "double",
    "e",
    "flatten",
    "float",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "get_default_device",
    "get_rng_state",
    "half",
    "index_select",
    "inf",
    "int",
    "is_nonzero",
    "linalg",
    "load",
    "long",
    "masked_fill",
    "masked_select",
    "matmul",
    "mm",
    "moveaxis",
    "mv",
    "nan",
    "newaxis",
    "nonzero",
    "pi",
    "random",
    "ravel",
    "reshape",
    "resize_as_",
    "row_stack",
    "save",
    "set_default_device",
    "set_printoptions",
    "set_rng_state",
    "short",
    "subtract",
    "swapdims",
    "true_divide",
    "unflatten",
]
__all__ += arithmetic.__all__
__all__ += combined_reductions.__all__
__all__ += comparing.__all__
__all__ += contractions.__all__
__all__ += counting.__all__
__all__ += creation.__all__
__all__ += dtype_limits.__all__
__all__ += dtypes.__all__
__all__ += elementwise_functions.__all__
__all__ += facts.__all__
__all__ += filling.__all__
__all__ += from_values.__all__
__all__ += generator.__all__
__all__ += index_writes.__all__
__all__ += joining.__all__
__all__ += legacy_types.__all__
__all__ += memory_formats.__all__
__all__ += normalising.__all__
__all__ += patterns.__all__
__all__ += products.__all__
__all__ += random_choices.__all__
__all__ += random_numbers.__all__
__all__ += reductions.__all__
__all__ += repairing.__all__
__all__ += repeating.__all__
__all__ += scans.__all__
__all__ += scattering.__all__
__all__ += sorting.__all__
__all__ += stacking.__all__
__all__ += switches.__all__
__all__ += triangles.__all__
__all__ += views.__all__

# Older and other names.
clip = arithmetic.clamp
clip_ = arithmetic.clamp_
concat = concatenate = joining.cat
double = dtypes.float64
float = dtypes.float32
half = dtypes.float16
int = dtypes.int32
long = dtypes.int64
moveaxis = views.movedim
row_stack = stacking.vstack
short = dtypes.int16
subtract = arithmetic.sub
swapdims = views.transpose
true_divide = divide = arithmetic.div

e = 2.718281828459045
inf = 1e999
nan = inf - inf
newaxis = None
pi = 3.141592653589793

PUBLIC: dict[str, Any] = {name: globals()[name] for name in __all__}
"""Every name that ``cuplug`` has from here, as torch names it; it looks them up at first use."""

for _each in PUBLIC.values():
    if isinstance(_each, type):
        # Programs could not look them up by that name of the module. Methods such as ``Tensor.int`` are no types.
        _each.__annotations__ = get_type_hints(_each, localns={})
        _each.__module__ = __name__.partition(".")[0]  # as programs import and print them, and pickles name them
