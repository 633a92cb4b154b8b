"""``cuplug.linalg``: norms, products and least squares, with the names of ``torch.linalg``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.dtype_limits import finfo
from ...core.dtypes import dtype_of, float32, float64
from ...core.needed_tensors import layout_of
from ...core.shapes import normal_axes, normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ..arguments.numpy_arrays import from_numpy
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.results import into
from ..reductions.reduction_call import Axes
from ..reductions.reductions import amax, amin
from ..reductions.reductions import norm as norm_of
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import reshape
from .matmul import matmul

__all__ = ["lstsq", "matmul", "norm", "vector_norm"]


class LeastSquares(NamedTuple):
    """What ``lstsq`` gives, by torch's names."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor
    """Empty, as are the residuals, where torch on the CPU is told nothing else."""


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:  # noqa: N803
    """The matrices X for which ``A @ X`` comes nearest to ``B``, by NumPy on the CPU, wherever the operands are.

    Args:
        A: matrices of float32 or float64, (..., rows, columns).
        B: what to come near to, (..., rows, count).
        rcond: singular values less than this part of the largest count as 0; by default that of torch.
        driver: as torch's; makes no difference.

    Raises:
        TypeError: the elements are of other types.
        ValueError: the shapes do not fit; or gradients are asked for, which there are none of.
    """
    del driver
    kind = layout_of(A).dtype
    if kind not in (float32, float64) or layout_of(B).dtype is not kind:
        raise ElementTypeError(f"linalg.lstsq takes float32 or float64, both alike, not {kind!r} and {B.dtype!r}")
    if A.requires_grad or B.requires_grad:
        raise ArgumentError("linalg.lstsq has no gradients here: .detach() the operands, or use operations that have")
    if A.ndim < 2 or B.ndim != A.ndim or A.shape[:-1] != B.shape[:-1]:
        raise ShapeError(f"linalg.lstsq: matrices of shape {list(A.shape)} and {list(B.shape)} do not fit")
    least = finfo(kind).eps * max(A.shape[-2:]) if rcond is None else rcond
    pairs = [each.reshape(-1, *each.shape[-2:]) for each in (A.cpu().numpy(), B.cpu().numpy())]
    found = [np.linalg.lstsq(a, b, least) for a, b in zip(*pairs, strict=True)]
    solution = np.array([x for x, *_ in found], kind.numpy).reshape(*A.shape[:-2], A.shape[-1], B.shape[-1])
    rank = np.array([rank for _, _, rank, _ in found], np.int64).reshape(A.shape[:-2])
    nothing = np.empty(0, kind.numpy)
    return LeastSquares(*(to(from_numpy(array), A.device) for array in (solution, nothing, rank, nothing)))


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
