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

from typing import Any

from ..facade import accelerator
from ..machine.device_name import current_factory_device as get_default_device
from ..machine.device_name import device, set_default_device
from ..streams.stream import Event, Stream
from . import backends as _backends  # noqa: F401 - they register themselves
from .core.dtype_limits import finfo, iinfo
from .core.dtypes import (
    bfloat16,
    can_cast,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.dtypes import bool_ as bool
from .core.generator import Generator, initial_seed, manual_seed, seed
from .core.memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from .core.shapes import Size
from .core.switches import (
    are_deterministic_algorithms_enabled,
    get_float32_matmul_precision,
    is_deterministic_algorithms_warn_only_enabled,
    set_float32_matmul_precision,
    use_deterministic_algorithms,
)
from .methods import Tensor
from .ops.arguments.facts import is_complex, is_floating_point, is_same_size, is_signed, is_tensor, numel
from .ops.arguments.numpy_arrays import from_numpy
from .ops.arguments.scalars import truth as is_nonzero
from .ops.arithmetic import repairing
from .ops.arithmetic.arithmetic import add, clamp, clamp_, div, positive, result_type, sub, where
from .ops.arithmetic.comparing import allclose, equal, isclose
from .ops.arithmetic.repairing import *  # noqa: F403
from .ops.copying.copying import clone, detach
from .ops.elementwise import elementwise_functions
from .ops.elementwise.elementwise_functions import *  # noqa: F403 - the functions of the table
from .ops.elementwise.filling import fill_, zero_
from .ops.exchange.exchange import asarray, from_dlpack, frombuffer
from .ops.exchange.loading import load
from .ops.exchange.printing import set_printoptions
from .ops.exchange.saving import save
from .ops.indexing.indexing import index_select, masked_fill, masked_select, nonzero
from .ops.joining import stacking
from .ops.joining.joining import cat, stack
from .ops.joining.stacking import *  # noqa: F403
from .ops.making.creation import empty, empty_like, empty_strided, full, full_like, ones, ones_like, zeros, zeros_like
from .ops.making.from_values import as_tensor, scalar_tensor, tensor
from .ops.making.legacy_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from .ops.making.patterns import arange, eye, linspace
from .ops.products import linalg, products
from .ops.products.matmul import bmm, dot, matmul, mm, mv
from .ops.products.products import *  # noqa: F403
from .ops.random import random_states as random
from .ops.random.random_choices import bernoulli, multinomial
from .ops.random.random_numbers import (
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from .ops.random.random_states import default_generator, get_rng_state, set_rng_state
from .ops.rearranging import triangles
from .ops.rearranging.repeating import flip, fliplr, flipud, repeat_interleave, roll, tile
from .ops.rearranging.triangles import *  # noqa: F403
from .ops.reductions import combined_reductions, normalising, scans
from .ops.reductions.combined_reductions import *  # noqa: F403
from .ops.reductions.normalising import *  # noqa: F403
from .ops.reductions.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    norm,
    prod,
    std,
    sum,
    var,
)
from .ops.reductions.scans import *  # noqa: F403
from .ops.scattering import index_writes, scattering
from .ops.scattering.index_writes import *  # noqa: F403
from .ops.scattering.scattering import *  # noqa: F403
from .ops.shapes.reshape import flatten, ravel, reshape, unflatten
from .ops.shapes.resizing import resize_as_
from .ops.shapes.views import (
    as_strided,
    broadcast_tensors,
    broadcast_to,
    chunk,
    conj,
    diagonal,
    movedim,
    narrow,
    permute,
    select,
    split,
    squeeze,
    t,
    transpose,
    unbind,
    unsqueeze,
)
from .ops.shapes.views import common_shape as broadcast_shapes
from .ops.sorting import counting, sorting
from .ops.sorting.counting import *  # noqa: F403
from .ops.sorting.sorting import *  # noqa: F403

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "Event",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "Size",
    "Stream",
    "Tensor",
    "accelerator",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "arange",
    "are_deterministic_algorithms_enabled",
    "argmax",
    "argmin",
    "as_strided",
    "as_tensor",
    "asarray",
    "bfloat16",
    "bmm",
    "bool",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "can_cast",
    "cat",
    "channels_last",
    "channels_last_3d",
    "chunk",
    "clamp",
    "clamp_",
    "clip",
    "clip_",
    "clone",
    "concat",
    "concatenate",
    "conj",
    "contiguous_format",
    "count_nonzero",
    "default_generator",
    "detach",
    "device",
    "diagonal",
    "div",
    "divide",
    "dot",
    "double",
    "dtype",
    "e",
    "empty",
    "empty_like",
    "empty_strided",
    "equal",
    "eye",
    "fill_",
    "finfo",
    "flatten",
    "flip",
    "float",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_rng_state",
    "half",
    "iinfo",
    "index_select",
    "inf",
    "initial_seed",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_complex",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "isclose",
    "layout",
    "linspace",
    "load",
    "long",
    "manual_seed",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "mean",
    "memory_format",
    "min",
    "mm",
    "moveaxis",
    "movedim",
    "mv",
    "nan",
    "narrow",
    "newaxis",
    "nonzero",
    "norm",
    "normal",
    "numel",
    "ones",
    "ones_like",
    "permute",
    "pi",
    "positive",
    "preserve_format",
    "prod",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "ravel",
    "reshape",
    "resize_as_",
    "result_type",
    "save",
    "scalar_tensor",
    "seed",
    "select",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_printoptions",
    "set_rng_state",
    "short",
    "split",
    "squeeze",
    "stack",
    "std",
    "strided",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "tensor",
    "tile",
    "transpose",
    "true_divide",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unbind",
    "unflatten",
    "unsqueeze",
    "use_deterministic_algorithms",
    "var",
    "where",
    "zero_",
    "zeros",
    "zeros_like",
]
__all__ += elementwise_functions.__all__
__all__ += counting.__all__
__all__ += products.__all__
__all__ += repairing.__all__
__all__ += scans.__all__
__all__ += scattering.__all__
__all__ += index_writes.__all__
__all__ += normalising.__all__
__all__ += sorting.__all__
__all__ += stacking.__all__
__all__ += combined_reductions.__all__
__all__ += triangles.__all__
__all__ += ["bernoulli", "fliplr", "flipud", "linalg", "multinomial", "repeat_interleave", "roll", "row_stack"]

# Older and other names.
clip = clamp
clip_ = clamp_
concat = concatenate = cat
double = float64
float = float32
half = float16
int = int32
long = int64
moveaxis = movedim
row_stack = stacking.vstack
short = int16
subtract = sub
swapaxes = swapdims = transpose
true_divide = divide = div

e = 2.718281828459045
inf = 1e999
nan = inf - inf
newaxis = None
pi = 3.141592653589793

PUBLIC: dict[str, Any] = {name: globals()[name] for name in __all__}
"""Every name that ``cuplug`` has from here, as torch names it; it looks them up at first use."""
