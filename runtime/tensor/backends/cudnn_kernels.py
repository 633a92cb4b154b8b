"""The kernels that cuDNN makes of what networks ask for; what it refuses, kernels of our own do."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from ..core.layout import Layout
from ..places.library_table import Convolving
from ..places.place import Kernel
from .cudnn import Dnn, DnnError
from .cudnn_convolution import convolution_kernel

__all__ = ["library_kernel"]


def library_kernel(dnn: Dnn, work: Convolving, layouts: Sequence[Layout]) -> Kernel | None:
    """See ``Place.library``. A refusal is told once, with cuDNN's reason."""
    try:
        return convolution_kernel(dnn, work, layouts)
    except DnnError as refusal:
        shapes = ", ".join(f"{each.dtype.name}{list(each.shape)}" for each in layouts)
        warnings.warn(
            f"cuDNN refused a convolution ({work.part} of {shapes}; stride {work.stride}, padding {work.padding}, "
            f"dilation {work.dilation}): {refusal}. A slower kernel of cuplug's does it",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
