"""Convolutions and their gradients by cuDNN."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.layout import Layout
from ...places.tables_with_gradients.library_table import Convolving
from .cudnn import Dnn
from .cudnn_descriptors import DATA_TYPES, Attribute, Descriptor, Kind, Named
from .cudnn_graphs import GraphKernel, described

_CROSS_CORRELATION = 1
_TYPES = ("float32", "float64", "float16", "bfloat16")

# For each part: the kind of the operation, the numbers of the attributes that are its factors and its convolution, and
# those that are its result and its two operands, in this order.
_PARTS = {
    "forward": (Kind.CONVOLUTION_FORWARD, 700, 701, 702, (705, 704, 703)),
    "images": (Kind.CONVOLUTION_BACKWARD_DATA, 706, 707, 708, (710, 709, 711)),
    "filters": (Kind.CONVOLUTION_BACKWARD_FILTER, 712, 713, 714, (715, 716, 717)),
}


def convolution_kernel(dnn: Dnn, work: Convolving, layouts: Sequence[Layout]) -> GraphKernel | None:
    """The kernel that makes the first tensor of the two others, see ``Convolving``; None for types that it is not for.

    Raises:
        DnnError: cuDNN has no way to do it.
    """
    name = layouts[0].dtype.name
    if name not in _TYPES or not all(each.numel for each in layouts):
        return None
    double = name == "float64"
    convolution = Descriptor(
        dnn,
        Kind.CONVOLUTION,
        {
            Named.CONVOLUTION_COMP_TYPE: [DATA_TYPES["float64" if double else "float32"]],
            Named.CONVOLUTION_CONV_MODE: [_CROSS_CORRELATION],
            Named.CONVOLUTION_SPATIAL_DIMS: [2],
            Named.CONVOLUTION_PRE_PADDINGS: work.padding,
            Named.CONVOLUTION_POST_PADDINGS: work.padding,
            Named.CONVOLUTION_FILTER_STRIDES: work.stride,
            Named.CONVOLUTION_DILATIONS: work.dilation,
        },
    )
    kind, alpha, beta, shape, roles = _PARTS[work.part]
    tensors: dict[Attribute, list[Descriptor]] = {
        Named.part(role): [described(dnn, number, name, layout.shape, layout.strides)]
        for number, (role, layout) in enumerate(zip(roles, layouts, strict=True), 1)
    }
    operation = Descriptor(
        dnn,
        kind,
        {
            Named.convolution_scale(alpha, double): [1.0],
            Named.convolution_scale(beta, double): [0.0],
            Named.part(shape): [convolution],
            **tensors,
        },
    )
    return GraphKernel(dnn, [operation], len(layouts), work.choosing, single=name == "float32")
