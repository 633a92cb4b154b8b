"""Tensors: arrays on the CPU and on devices, with torch's names and meanings."""

from typing import Any

from . import functions, torch_settings
from .core import dtype_limits, dtypes, generator, layout
from .core.device_name import device
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
)
from .methods import Tensor
from .ops import creation, exchange, filling, joining, matmul, printing, reshaping
from .ops.legacy_types import LEGACY

__all__ = ["LEGACY", "PUBLIC", "Tensor", "device", "dtype"]

PUBLIC: dict[str, Any] = {
    "Generator": generator.Generator,
    "Size": layout.Size,
    "Tensor": Tensor,
    "backends": torch_settings.backends,
    "broadcast_shapes": reshaping.common_shape,
    "broadcast_tensors": reshaping.broadcast_tensors,
    "cat": joining.cat,
    "concat": joining.cat,
    "concatenate": joining.cat,
    "device": device,
    "finfo": dtype_limits.finfo,
    "from_dlpack": exchange.from_dlpack,
    "from_numpy": exchange.from_numpy,
    "iinfo": dtype_limits.iinfo,
    "initial_seed": generator.initial_seed,
    "manual_seed": generator.manual_seed,
    "matmul": matmul.matmul,
    "newaxis": None,
    "no_grad": torch_settings.no_grad,
    "seed": generator.seed,
    "set_printoptions": printing.set_printoptions,
    "stack": joining.stack,
    **functions.FUNCTIONS,
    **{name: getattr(functions, name) for name in functions.__all__ if name != "FUNCTIONS"},
    **{name: getattr(creation, name) for name in creation.__all__},
    **{name: getattr(filling, name) for name in filling.__all__ if name != "FillMethods"},
    **LEGACY["cpu"],
    # element types and their older names
    "bfloat16": bfloat16,
    "bool": dtypes.bool_,
    "can_cast": can_cast,
    "double": float64,
    "dtype": dtype,
    "float": float32,
    "float16": float16,
    "float32": float32,
    "float64": float64,
    "get_default_dtype": get_default_dtype,
    "half": float16,
    "int": int32,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "int8": int8,
    "long": int64,
    "promote_types": promote_types,
    "set_default_dtype": set_default_dtype,
    "short": int16,
    "uint8": uint8,
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
}
"""Every name that ``cuplug`` has from here, as torch names it; it looks them up at first use."""
