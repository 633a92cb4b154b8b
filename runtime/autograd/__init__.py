"""Automatic differentiation, with torch's names: ``cuplug.autograd``.

It stands above the operations of tensors and knows them; they know of it by a seam only, to which it registers itself
(``tensor/core/gradient_seam.py``). How an operation is differentiated is a column of the table in which it stands
(``places/tables_with_gradients/``); what the columns' expressions mean is said in ``gradient_column.py``.
"""

from . import differentiation as _differentiation  # noqa: F401 - it registers itself
from .anomaly import detect_anomaly, is_anomaly_check_nan_enabled, is_anomaly_enabled, set_detect_anomaly
from .backward_pass import backward, grad
from .checking import GradcheckError, gradcheck, gradgradcheck
from .function import Function, FunctionCtx, once_differentiable
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .variable import Variable

__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
]
