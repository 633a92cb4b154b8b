"""The kernels that cuDNN makes of what networks ask for; what it refuses, kernels of our own do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ...core.layout import Layout
from ...places.library_table import Attending, Convolving
from ...places.place import Kernel
from .cudnn import Dnn, DnnError
from .cudnn_attention import attention_kernel
from .cudnn_convolution import convolution_kernel

__all__ = ["library_kernel"]


def library_kernel(dnn: Dnn, work: Convolving | Attending, layouts: Sequence[Layout]) -> Kernel | None:
    """See ``Place.library``. A refusal is told once, with cuDNN's reason."""
    try:
        if isinstance(work, Attending):
            return attention_kernel(dnn, work, layouts)
        return convolution_kernel(dnn, work, layouts)
    except DnnError as refusal:
        what = "an attention" if isinstance(work, Attending) else "a convolution"
        asked = ", ".join(f"{name} {value}" for name, value in zip(work._fields[1:-1], work[1:-1], strict=True))
        shapes = ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in layouts)
        warnings.warn(
            f"cuDNN refused {what} ({work.part} of {shapes}; {asked}): {refusal}. Slower kernels of cuplug's do it",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
