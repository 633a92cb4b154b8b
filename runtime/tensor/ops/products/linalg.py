"""``cuplug.linalg``: norms and products, with the names of ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import dtype_of
from ...core.needed_tensors import layout_of
from ...core.shapes import normal_axes, normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.results import into
from ..reductions.reduction_call import Axes
from ..reductions.reductions import amax, amin
from ..reductions.reductions import norm as norm_of
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import reshape
from .matmul import matmul

__all__ = ["matmul", "norm", "vector_norm"]


def vector_norm(
    x: Tensor,
    ord: Any = 2,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of the elements as a vector.

    Args:
        x: a floating-point tensor.
        ord: a number; 0 counts the elements that differ from 0, an infinity takes the largest (or, if negative, the
            smallest) absolute value.
        dim: a dimension, several, or None for all.
        keepdim: whether reduced dimensions stay, with length 1.
        dtype: the element type of the result, to which elements are converted first.
        out: where to write the result; it is given the result's shape.

    Raises:
        IndexError: there is no such dimension.
        TypeError: the elements are not floating-point numbers.
    """
    kind = layout_of(x).dtype if dtype is None else dtype_of(dtype)
    if kind.kind != "f" or x.dtype.kind != "f":
        kind = kind if kind.kind != "f" else x.dtype
        raise ElementTypeError(f"linalg.vector_norm needs floating-point elements and this tensor has {kind!r}")
    return into(out, norm_of(to(x, kind), ord, dim, keepdim), exact=True)


def norm(
    A: Tensor,  # noqa: N803 - torch's name
    ord: Any = None,
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of vectors, or of matrices where ``ord`` is given and there are two dimensions.

    Other arguments and errors are those of ``vector_norm``.

    Args:
        ord: for vectors a number; for matrices ``fro``, 1, -1 or an infinity. None: of all elements as a vector.
        dim: the dimension of vectors, or the two of matrices.

    Raises:
        ValueError: the norm needs singular values, which are not there, or the dimensions do not fit.
    """
    axes = normal_axes(dim, len(layout_of(A).shape))
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if len(axes) == 1 and not isinstance(ord, str):
        return vector_norm(A, ord, dim, keepdim, dtype=dtype, out=out)
    if len(axes) != 2:
        raise ShapeError(f"linalg.norm: an order of {ord!r} is for one or two dimensions, not {len(axes)}")
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim, dtype=dtype, out=out)
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise ArgumentError(f"linalg.norm: {ord!r} needs singular values, which cuplug does not have")
    x = to(A, A.dtype if dtype is None else dtype_of(dtype))
    if x.dtype.kind != "f":
        raise ElementTypeError(f"linalg.norm needs floating-point elements and this tensor has {x.dtype!r}")
    given = axes if dim is None else tuple(normal_axis(axis, A.ndim) for axis in dim)
    added, chosen = given if abs(ord) == 1 else given[::-1]
    totals = sum_of(each.abs(x), added, True)
    if ord > 0 and not totals.shape[chosen]:
        made = sum_of(totals, chosen, True)  # the largest of no totals is 0
    else:
        made = (amax if ord > 0 else amin)(totals, chosen, True)
    if not keepdim:
        made = reshape(made, [length for axis, length in enumerate(A.shape) if axis not in given])
    return into(out, made, exact=True)
