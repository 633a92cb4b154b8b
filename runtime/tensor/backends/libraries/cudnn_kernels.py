"""The kernels that cuDNN makes of what networks ask for; what it refuses, kernels of our own do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...places.place import Kernel
from ...places.tables_with_gradients.library_table import Attending, Convolving, RecurrentKernel, Recurring
from .cudnn import Dnn, DnnError
from .cudnn_attention import attention_kernel
from .cudnn_convolution import convolution_kernel
from .cudnn_recurrent import CudnnRecurrent

_FLOATING = ("float32", "float64", "float16", "bfloat16")


def library_kernel(dnn: Dnn, work: Convolving | Attending, layouts: Sequence[Layout]) -> Kernel | None:
    """See ``Place.library``. A refusal is told once, with cuDNN's reason."""
    try:
        if isinstance(work, Attending):
            return attention_kernel(dnn, work, layouts)
        return convolution_kernel(dnn, work, layouts)
    except DnnError as refusal:
        what = "an attention" if isinstance(work, Attending) else "a convolution"
        shapes = ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in layouts)
        _tell(f"{what} ({work.part} of {shapes}; {_asked(work, 1)})", refusal)
        return None


def recurrent_kernel(dnn: Dnn, work: Recurring, kind: dtype) -> RecurrentKernel | None:
    """See ``Place.recurrent``. A refusal is told once, with cuDNN's reason."""
    if kind.name not in _FLOATING or work.choosing.deterministic:  # its order of sums is not promised
        return None
    try:
        return CudnnRecurrent(dnn, work, kind)
    except DnnError as refusal:
        _tell(f"recurrent layers ({kind.name}; {_asked(work, 0)})", refusal)
        return None


def _asked(work: Convolving | Attending | Recurring, first: int) -> str:
    names, values = work._fields[first:-1], work[first:-1]
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))


def _tell(what: str, refusal: DnnError) -> None:
    text = f"cuDNN refused {what}: {refusal}. Slower kernels of cuplug's do it"
    warnings.warn(text, RuntimeWarning, stacklevel=3)
