"""Products summed over chosen dimensions, and distances of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.needed_tensors import layout_of
from ...core.shapes import normal_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ShapeError
from ..copying.copying import to
from ..elementwise import elementwise_functions as each
from ..elementwise.results import into
from ..reductions.reductions import norm
from ..reductions.reductions import sum as sum_of
from ..shapes.views import transpose, unsqueeze
from .matmul import matmul
from .products import LETTERS, einsum

__all__ = ["cdist", "tensordot"]


_WHERE_MANY = "use_mm_for_euclid_dist_if_necessary"
_MODES = _WHERE_MANY, "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Products of the elements of ``a`` and ``b``, summed over some dimensions of both.

    Args:
        a: a tensor.
        b: a tensor of the same element type.
        dims: how many, the last ones of ``a`` and the first ones of ``b``; or two lists, of ``a`` and of ``b``. Of two
            that belong together one may have one element, which then stands beside each of the other's.
        out: where to write the result.

    Raises:
        ValueError: the lists, or the dimensions that they name, are not of the same length, or one is named twice.
        IndexError: there is no such dimension.
    """
    count, other = len(layout_of(a).shape), len(layout_of(b).shape)
    pairs: Sequence[Sequence[int]]
    if isinstance(dims, int):
        if not 0 <= dims <= min(count, other):
            raise ArgumentError(f"tensordot expects dims >= 0 and as many dimensions, but got dims={dims}")
        pairs = range(count - dims, count), range(dims)
    else:
        pairs = dims.tolist() if isinstance(dims, Tensor) else dims
    if len(pairs[0]) != len(pairs[1]):
        raise ShapeError(f"both dimension lists should have same length, got {list(pairs[0])} and {list(pairs[1])}")
    of_a, of_b = list(LETTERS[:count]), list(LETTERS[count : count + other])
    for first, second in zip(*pairs, strict=True):
        mine, theirs = normal_axis(first, count), normal_axis(second, other)
        if a.shape[mine] != b.shape[theirs] and 1 not in (a.shape[mine], b.shape[theirs]):
            raise ShapeError(
                f"contracted dimensions need to match, but first has size {a.shape[mine]} in dim {first} and second "
                f"has size {b.shape[theirs]} in dim {second}"
            )
        if of_a[mine] in of_b or of_b[theirs] in of_a:
            raise ArgumentError(f"tensordot: a dimension appears twice in {list(pairs[0])} or in {list(pairs[1])}")
        of_b[theirs] = of_a[mine]
    left = [letter for letter in of_a if letter not in of_b] + [letter for letter in of_b if letter not in of_a]
    return into(out, einsum(f"{''.join(of_a)},{''.join(of_b)}->{''.join(left)}", a, b))


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _WHERE_MANY) -> Tensor:
    """The distances between all rows of ``x1`` and of ``x2``, (..., rows of ``x1``, rows of ``x2``).

    Args:
        x1: rows, (..., count, length).
        x2: rows of the same length.
        p: which norm of the differences.
        compute_mode: as torch's: by ``use_mm_for_euclid_dist`` distances of p = 2 come from a product of matrices,
            which takes less memory and loses digits of small ones; by ``use_mm_for_euclid_dist_if_necessary`` where
            there are more than 25 rows; by ``donot_use_mm_for_euclid_dist`` never.

    Raises:
        ValueError: rows differ in length, or there are no rows; or there is no such ``compute_mode``.
    """
    if compute_mode not in _MODES:
        raise ArgumentError(f"cdist: compute_mode is one of {', '.join(_MODES)}, not {compute_mode!r}")
    own, other = layout_of(x1).shape, layout_of(x2).shape
    if len(own) < 2 or len(other) < 2 or own[-1] != other[-1]:
        raise ShapeError(f"cdist: X1 and X2 must be rows of the same number of columns, not {own} and {other}")
    many = max(own[-2], other[-2]) > 25 and compute_mode == _WHERE_MANY
    if p != 2 or not (many or compute_mode == "use_mm_for_euclid_dist"):
        return norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)
    lengths = sum_of(each.square(x1), -1, True), transpose(sum_of(each.square(x2), -1, True), -2, -1)
    squares = each.clamp_min(lengths[0] + lengths[1] - 2 * matmul(x1, transpose(x2, -2, -1)), 0)
    same = to(each.eq(squares, 0), squares.dtype)  # where the root has no derivative, that of the distance is 0
    made: Tensor = each.sqrt(squares + same) - same
    return made
