"""Products of tensors by way of ``matmul``: added to others, of all pairs, and in Einstein's notation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...core.casting_seam import for_products, seam
from ...core.dtypes import bool_
from ...core.dtypes import dtype as ElementType  # noqa: N812 - as the other modules here say
from ...core.layout import Layout
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.printed_names import entitle, printed_as
from ...core.shapes import contiguous_strides
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError, ShapeError
from ...places.dispatch import Plan, dispatch
from ...places.tables_with_gradients.elementwise_table import BY_NAME, Elementwise
from ..arguments.overlap import refuse_part
from ..arguments.promotion import common_dtype
from ..copying.copying import to
from ..elementwise.elementwise import apply, apply2
from ..elementwise.results import in_place, into
from ..reductions.reductions import sum as sum_of
from ..shapes.reshape import reshape
from ..shapes.views import diagonal, expand, permute, unsqueeze
from .matmul import bmm, dot, matmul, mm, mv, product_plan

__all__ = [
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addmv_",
    "addr",
    "baddbmm",
    "einsum",
    "inner",
    "outer",
    "vdot",
]

_ADD, _MUL, _DIV, _ADD_SCALED = (BY_NAME[name] for name in ("add", "mul", "div", "add_scaled"))


def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of all pairs of elements of two vectors: a row for each element of the first.

    Args:
        input: a tensor of one dimension.
        vec2: a tensor of one dimension.
        out: where to write the result; it is given the result's shape.

    Raises:
        ValueError: one has other than one dimension.
    """
    if len(layout_of(input).shape) != 1 or len(layout_of(vec2).shape) != 1:
        raise ShapeError(f"outer: both must have one dimension; they have {input.ndim} and {needed(vec2).ndim}")
    return into(out, apply(_MUL, unsqueeze(input, 1), vec2))


def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The scalar products of all pairs of rows, along the last dimensions of both; a number scales.

    Raises:
        ValueError: the last dimensions differ in length.
    """
    if not needed(input).ndim or not needed(other).ndim:
        return into(out, apply(_MUL, input, other))
    if input.shape[-1] != other.shape[-1]:
        raise ShapeError(f"inner: the last dimensions are of lengths {input.shape[-1]} and {other.shape[-1]}")
    length = input.shape[-1]
    rows, columns = (reshape(each, prod(each.shape[:-1]), length) for each in (input, other))
    made = matmul(rows, permute(columns, 1, 0))
    return into(out, reshape(made, (*input.shape[:-1], *other.shape[:-1])), exact=True)


@printed_as("VdotBackward0")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``dot``: there are no complex numbers whose conjugates would be taken."""
    return dot(input, other, out=out)


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """A product that something will be added to: on the CPU the half types' is not rounded before."""
    if layout_of(a).dtype is layout_of(b).dtype and a.dtype.is_half and a.device.type == b.device.type == "cpu":
        a, b = to(a, a.dtype.computed), to(b, b.dtype.computed)
    return multiply(a, b)


def _sum_of(name: str, input: Tensor, product: Tensor, factors: tuple[Any, Any], kind: ElementType) -> Tensor:
    """``beta * input + alpha * product``; with ``beta`` 0 what is in ``input`` does not count, not even NaN."""
    if input.dtype is not kind:
        raise ElementTypeError(f"{name}: the operands are of {input.dtype!r} and {kind!r}; convert one")
    beta, alpha = map(int, factors) if kind.kind in "ui" else factors  # their whole parts, as in torch
    if beta == 1 and alpha == 1 and product.dtype is kind:
        return apply(_ADD, product, expand(input, *product.shape) if product.shape else input)
    made = to(product, kind.computed)  # rounded once, at the end
    made = made if alpha == 1 else apply(_MUL, made, alpha)
    added = expand(input, *product.shape) if product.shape else input
    if beta != 0:
        added = to(added, kind.computed)
        made = apply(_ADD, made, added if beta == 1 else apply(_MUL, added, beta))
    return to(made, kind)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` for matrices; ``input`` broadcasts.

    Raises:
        TypeError: the element types differ.
        ValueError: the shapes do not fit.
    """
    if seam.on:
        input, mat1, mat2 = for_products(input, mat1, mat2)
    elif alpha == 1 and beta == 1 and out is None:
        try:
            plan = mat1._layout.plans.get(("addmm", mat2._layout, input._layout))
        except AttributeError:
            raise no_tensor(input, mat1, mat2) from None
        if plan is not None:  # what ``dispatch`` does, in fewer steps
            return plan(mat1, mat2, input)  # type: ignore[no-any-return]
    if alpha == 1 and beta == 1 and out is None and _adds_row(input, mat1, mat2):
        return dispatch("addmm", _prepare_addmm, (mat1, mat2, input))  # type: ignore[no-any-return]
    if alpha == 1 and beta == 1 and out is None and not mat1._layout.dtype.is_half:
        product = mm(mat1, mat2)
        made, added = product._layout, input._layout
        if added.dtype is made.dtype and (added.shape == made.shape or added.shape == made.shape[1:]):
            found = apply2(_ADD, product, input)
        else:
            found = _sum_of("addmm", input, product, (beta, alpha), made.dtype)
        entitle("AddmmBackward0", found)
        return found
    found = _sum_of("addmm", input, _product(mm, mat1, mat2), (beta, alpha), mat1.dtype)
    entitle("AddmmBackward0", found)
    return into(out, found, exact=True)


def _adds_row(row: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether a row is added to a product of matrices, in place of the product, all of one type and at one place."""
    own, left, right = row._layout, a._layout, b._layout
    return (
        len(own.shape) == 1
        and len(left.shape) == len(right.shape) == 2
        and own.shape[0] == right.shape[1]
        and own.place is left.place is right.place
        and own.dtype is left.dtype is right.dtype
        and own.dtype.kind == "f"
        and not (own.dtype.is_half and own.place.device.type == "cpu")  # not to be rounded before
    )


def _prepare_addmm(_: str, a: Tensor, b: Tensor, row: Tensor) -> Plan:
    return product_plan(a, b, row=row)


@printed_as("AddmvBackward0")
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * (mat @ vec)`` for a matrix and a vector; ``input`` broadcasts. Raises as ``addmm``."""
    input, mat, vec = for_products(input, mat, vec)
    return into(out, _sum_of("addmv", input, _product(mv, mat, vec), (beta, alpha), mat.dtype), exact=True)


@printed_as("AddrBackward0")
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``; ``input`` broadcasts.

    Raises:
        TypeError: a factor is of a higher kind than the result.
        ValueError: the shapes do not fit.
    """
    input, vec1, vec2 = for_products(input, vec1, vec2)
    kind = common_dtype((input, vec1, vec2))
    for factor in (beta, alpha):
        if isinstance(factor, float) and kind.kind != "f":
            raise ElementTypeError(f"addr: the result is of {kind!r}, and a factor cannot be {factor!r}")
    a, b = (to(to(each, kind), kind.computed) for each in (vec1, vec2))
    return into(out, _sum_of("addr", to(input, kind), outer(a, b), (beta, alpha), kind))


@printed_as("BaddbmmBackward0")
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2)`` for batches of matrices; otherwise as ``addmm``."""
    input, batch1, batch2 = for_products(input, batch1, batch2)
    return into(out, _sum_of("baddbmm", input, _product(bmm, batch1, batch2), (beta, alpha), batch1.dtype), exact=True)


@printed_as("AddbmmBackward0")
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """``beta * input + alpha * bmm(batch1, batch2).sum(0)`` for batches of matrices; otherwise as ``addmm``."""
    input, batch1, batch2 = for_products(input, batch1, batch2)
    made = _product(bmm, batch1, batch2)
    product = sum_of(made, 0, dtype=made.dtype)
    return into(out, _sum_of("addbmm", input, product, (beta, alpha), batch1.dtype), exact=True)


@printed_as("AddcmulBackward0")
def addcmul(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1, out: Tensor | None = None) -> Tensor:
    """``input + value * tensor1 * tensor2``, element by element; all broadcast together.

    Raises:
        TypeError: all elements are of bool.
        ValueError: the shapes do not broadcast.
    """
    tensors = isinstance(tensor1, Tensor) and isinstance(tensor2, Tensor)
    if tensors and out is None and type(value) in (int, float) and value == 1 and layout_of(input).dtype.kind == "f":
        return apply(_ADD_SCALED, input, tensor1, tensor2)  # the most usual case, at once
    if common_dtype((input, tensor1, tensor2)) is bool_:
        raise ElementTypeError(f"addcmul() does not take elements of {bool_!r} alone")
    return _into_apart(out, _combined(_MUL, input, tensor1, tensor2, value), input, tensor1, tensor2)


@printed_as("AddcdivBackward0")
def addcdiv(input: Tensor, tensor1: Any, tensor2: Any, *, value: float = 1, out: Tensor | None = None) -> Tensor:
    """``input + value * tensor1 / tensor2``, element by element; all broadcast together.

    Raises:
        TypeError: all elements are integers, whose quotient torch refuses here.
        ValueError: the shapes do not broadcast.
    """
    if all(layout_of(each).dtype.kind != "f" for each in (tensor1, tensor2)):
        raise ElementTypeError(
            "Integer division with addcdiv is no longer supported: convert one to a floating-point type"
        )
    return _into_apart(out, _combined(_DIV, input, tensor1, tensor2, value), input, tensor1, tensor2)


def _into_apart(out: Tensor | None, result: Tensor, *operands: Any) -> Tensor:
    """``into``, where ``out`` lies over no part of an operand."""
    if out is not None:
        for each in operands:
            if isinstance(each, Tensor):
                refuse_part(out, each)
    return into(out, result)


def _combined(operation: Elementwise, input: Tensor, a: Tensor, b: Tensor, value: Any) -> Tensor:
    """``input + value * operation(a, b)``, computed in the common type; the half types in float32."""
    kind = common_dtype((input, a, b))
    input, a, b = (to(each, kind.computed) for each in (input, a, b))
    made = apply(operation, a, b)
    return to(apply(_ADD, input, made if value == 1 else apply(_MUL, made, value)), kind)


addbmm_ = in_place(addbmm)
addcdiv_ = in_place(addcdiv)
addcmul_ = in_place(addcmul)
addmm_ = in_place(addmm)
addmv_ = in_place(addmv)
addr_ = in_place(addr)
baddbmm_ = in_place(baddbmm)


# --- Einstein's notation

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(equation: str, *operands: Any) -> Tensor:
    """The sum of products that an equation of Einstein's notation names, as ``"ij,jk->ik"`` a product of matrices.

    Operands are multiplied from left to right; indices that occur no more are summed over as soon as they can be.

    Args:
        equation: a letter for each dimension, operands separated by commas; ``...`` stands for dimensions that
            broadcast. Behind ``->`` the result's dimensions; without it, those whose letters occur once, in order.
        operands: tensors of one element type, as arguments or as one sequence.

    Raises:
        ValueError: the equation does not fit the operands.
    """
    given: Sequence[Tensor] = operands[0] if len(operands) == 1 and not isinstance(operands[0], Tensor) else operands
    if len(given) == 2 and isinstance(given[0], Tensor) and isinstance(given[1], Tensor) and not seam.on:
        plans, key = given[0]._layout.plans, (einsum, equation, given[1]._layout)
        plan: Any = plans.get(key)
        if plan is None:
            plan = plans[key] = _product_of_two(equation, *given) or False
        if plan:
            return plan(*given)  # type: ignore[no-any-return]
    parts, result, lengths = _taken_apart(equation, given)
    term, tensor = parts[0]
    for position, (other, right) in enumerate(parts[1:], 1):
        needed = set(result).union(*(each for each, _ in parts[position + 1 :]))
        term, tensor = _contracted(term, tensor, other, right, needed, lengths)
    gone = [axis for axis, letter in enumerate(term) if letter not in result]
    if gone:
        tensor = sum_of(tensor, gone, dtype=tensor.dtype)
        term = [letter for letter in term if letter in result]
    return permute(tensor, *(term.index(letter) for letter in result)) if term else tensor


def _product_of_two(equation: str, a: Tensor, b: Tensor) -> Plan | None:
    """What ``einsum`` does with tensors of these layouts, where that is one product of matrices that lie in the tensors
    as they are, and there are no gradients; else None. So an equation is read once for the layouts."""
    own, theirs = a._layout, b._layout
    if own.tracked or theirs.tracked or own.place is not theirs.place:
        return None
    ((term, first), (other, second)), result, lengths = _taken_apart(equation, (a, b))
    left, right, made, is_product = _as_matrices(term, first, other, second, set(result), lengths)
    for each, given in ((left, a), (right, b)):
        if each._storage is not given._storage or each._offset != given._offset:
            return None
    if not is_product or len(made) != len(result):  # the result names none but those that are made
        return None
    product = product_plan(left, right)
    rows, columns = left._layout, right._layout
    steps = dict(zip(made, contiguous_strides(tuple(lengths[each] for each in made)), strict=True))
    shape = tuple(lengths[each] for each in result)
    final = Layout.of(own.place, own.dtype, shape, tuple(steps[each] for each in result))

    def plan(a: Tensor, b: Tensor) -> Tensor:
        out = product(make_tensor(a._storage, a._offset, rows), make_tensor(b._storage, b._offset, columns))
        return make_tensor(out._storage, 0, final)

    return plan


def _taken_apart(
    equation: str, operands: Sequence[Tensor]
) -> tuple[list[tuple[list[str], Tensor]], list[str], dict[str, int]]:
    """Each operand with the letters of its dimensions, none of them twice; the result's letters; and all lengths."""
    terms, result = _parsed(equation, operands)
    lengths: dict[str, int] = {}
    parts = []
    for term, tensor in zip(terms, operands, strict=True):
        term, tensor = _without_repeats(term, tensor)
        for letter, length in zip(term, tensor.shape, strict=True):
            known = lengths.get(letter, 1)
            if length not in (1, known) and known != 1:
                raise ShapeError(f"einsum: {letter!r} in {equation!r} stands for lengths {known} and {length}")
            lengths[letter] = length if known == 1 else known
        parts.append((term, tensor))
    return parts, result, lengths


def _parsed(equation: str, operands: Sequence[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand's dimensions and of the result's; dimensions of ``...`` are numbered from the end."""
    if not isinstance(equation, str):
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}")
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(f"einsum: {equation!r} names {len(terms)} operands, and there are {len(operands)}")
    spread = 0
    for term, tensor in zip(terms, operands, strict=True):
        named = len(term.replace("...", "", 1))
        if named > tensor.ndim or (named < tensor.ndim and "..." not in term):
            raise ArgumentError(f"einsum: {term!r} names {named} dimensions of a tensor that has {tensor.ndim}")
        spread = max(spread, tensor.ndim - named)
    found = [
        _letters(term, tensor.ndim - len(term.replace("...", "", 1)), equation)
        for term, tensor in zip(terms, operands, strict=True)
    ]
    if arrow:
        result = _letters(right, spread, equation)
        if len(set(result)) != len(result) or not set(result) <= {each for term in found for each in term}:
            raise ArgumentError(f"einsum: each dimension of the result occurs in {equation!r} once, and in an operand")
        return found, result
    counted = [each for term in found for each in term]
    once = sorted(each for each in set(counted) if counted.count(each) == 1 and not each.startswith("."))
    return found, [f".{number}" for number in reversed(range(spread))] + once


def _letters(term: str, spread: int, equation: str) -> list[str]:
    before, dots, after = term.partition("...")
    if not set(before + after) <= set(LETTERS):
        raise ArgumentError(f"einsum: dimensions are letters from a to z and A to Z; got {equation!r}")
    return [*before, *(f".{number}" for number in reversed(range(spread))), *after] if dots else [*before]


def _without_repeats(term: list[str], tensor: Tensor) -> tuple[list[str], Tensor]:
    """A letter that stands for several dimensions of an operand means their diagonal."""
    for letter in [each for each in dict.fromkeys(term) if term.count(each) > 1]:
        while term.count(letter) > 1:
            a = term.index(letter)
            b = term.index(letter, a + 1)
            if tensor.shape[a] != tensor.shape[b]:
                raise ShapeError(f"einsum: {letter!r} stands for lengths {tensor.shape[a]} and {tensor.shape[b]}")
            tensor = diagonal(tensor, 0, a, b)
            term = [each for axis, each in enumerate(term) if axis not in (a, b)] + [letter]
    return term, tensor


def _contracted(
    term: list[str], a: Tensor, other: list[str], b: Tensor, needed: set[str], lengths: dict[str, int]
) -> tuple[list[str], Tensor]:
    """The product of two operands, as a batch of products of matrices, summed over the letters not needed."""
    left, right, made, is_product = _as_matrices(term, a, other, b, needed, lengths)
    product = bmm(left, right) if is_product else apply(_MUL, left, right)
    return made, reshape(product, [lengths[each] for each in made])


def _as_matrices(
    term: list[str], a: Tensor, other: list[str], b: Tensor, needed: set[str], lengths: dict[str, int]
) -> tuple[Tensor, Tensor, list[str], bool]:
    """Two operands as batches of matrices; the letters of their product; and whether it is one of matrices, with a
    letter to sum over, or one of elements."""
    shared = [each for each in term if each in other]
    summed = [each for each in shared if each not in needed]
    batch = [each for each in shared if each in needed]
    rows = [each for each in term if each not in other]
    columns = [each for each in other if each not in term]

    def arranged(letters: list[str], tensor: Tensor, order: list[list[str]]) -> Tensor:
        # A dimension of length 1 broadcasts.
        wide = expand(tensor, *(lengths[each] if each in shared else -1 for each in letters)) if letters else tensor
        moved = permute(wide, *(letters.index(each) for group in order for each in group)) if letters else wide
        return reshape(moved, [prod(lengths[each] for each in group) for group in order])

    left, right = arranged(term, a, [batch, rows, summed]), arranged(other, b, [batch, summed, columns])
    return left, right, [*batch, *rows, *columns], bool(summed)
