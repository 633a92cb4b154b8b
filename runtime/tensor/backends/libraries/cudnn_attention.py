"""Attention and its gradients by cuDNN, in one kernel each: the scores of all pairs are never in memory.

cuDNN knows attention by the pattern of single operations that it consists of (NVIDIA cuDNN, "Supported Graph Patterns":
fused attention forward and backward). Their order and types are part of the pattern.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ...core.layout import Layout
from ...core.shapes import Shape, contiguous_strides
from ...core.tensor import Tensor
from ...places.tables_with_gradients.library_table import Attending
from .cudnn import Dnn
from .cudnn_descriptors import DATA_TYPES, Descriptor, Kind, Named
from .cudnn_graphs import ALIGNMENT, GraphKernel

_OLDEST = 91000
"""Before version 9.10 masks were made of another number, and memory had to be cleared."""
_LONGEST, _MULTIPLE = 128, 8
"""Elements of a vector: at most so many, and a multiple of."""
_ADD, _MUL, _DIV, _SUB, _EXP, _LOG, _IDENTITY, _GREATER_EQUAL, _INDEX, _SELECT = (0, 1, 6, 9, 13, 15, 21, 303, 501, 601)
_SUM, _MAX = 0, 3
_FIRST_VIRTUAL = 1000


def attention_kernel(dnn: Dnn, work: Attending, layouts: Sequence[Layout]) -> Callable[..., None] | None:
    """The kernel of tensors of these layouts, see ``Attending``; None for what it is not for.

    Raises:
        DnnError: cuDNN has no way to do it.
    """
    results = 2 if work.part == "forward" else 3
    query, key = layouts[results], layouts[results + 1]
    if (
        dnn.library.cudnnGetVersion() < _OLDEST
        or work.choosing.deterministic  # the gradient of queries is added up in any order
        or not query.dtype.is_half
        or any(each.shape[3] > _LONGEST or each.shape[3] % _MULTIPLE for each in layouts[results : results + 3])
        or not all(each.numel for each in layouts)
    ):
        return None
    recipe = _Recipe(dnn, query.dtype.name, (*query.shape[:3], key.shape[2]))
    turned = {"forward": (3,), "backward": (4, 5)}[work.part]  # of the keys, and going back of the values
    tensors = [recipe.given(layout, turned=number in turned) for number, layout in enumerate(layouts)]
    write = _forward if work.part == "forward" else _backward
    write(recipe, work, *tensors)
    graph = GraphKernel(dnn, recipe.operations, recipe.count, work.choosing, single=False)

    def kernel(*given: Tensor) -> None:
        held, addresses = [], [each._address for each in given]
        for each in recipe.more:
            if isinstance(each, int):
                held.append(dnn.place.allocate(each))
                addresses.append(held[-1].address)
            else:
                addresses.append(ctypes.addressof(each))
        graph.run(addresses)

    return kernel


def _forward(recipe: _Recipe, work: Attending, out: _Part, logs: _Part, q: _Part, k: _Part, v: _Part) -> None:
    scores = recipe.product(q, k, recipe.between(recipe.scores))
    scores = recipe.each(_MUL, scores, recipe.constant(work.scale))
    if work.causal:
        scores = recipe.masked(scores)
    most = recipe.reduced(_MAX, scores)
    powers = recipe.each(_EXP, recipe.each(_SUB, scores, most))
    total = recipe.reduced(_SUM, powers)
    recipe.each(_ADD, most, recipe.each(_LOG, total), to=logs)
    shares = recipe.each(_DIV, powers, total, kind=recipe.kind)
    recipe.product(shares, v, out)


def _backward(recipe: _Recipe, work: Attending, *tensors: _Part) -> None:
    dq, dk, dv, q, k, v, out, gradient, logs = tensors
    along = recipe.reduced(_SUM, recipe.each(_MUL, gradient, out))
    along = recipe.each(_MUL, along, recipe.constant(1.0), to=recipe.needed(recipe.rows))
    scale = recipe.constant(work.scale)
    scores = recipe.each(_MUL, recipe.product(q, k, recipe.between(recipe.scores)), scale)
    scores = recipe.each(_SUB, scores, logs)
    if work.causal:
        scores = recipe.masked(scores)
    shares = recipe.each(_EXP, scores)
    recipe.product(recipe.turned(shares), gradient, dv)
    grown = recipe.product(gradient, v, recipe.between(recipe.scores))
    grown = recipe.each(_MUL, recipe.each(_SUB, grown, along), shares)
    grown = recipe.each(_MUL, grown, scale)
    recipe.product(recipe.turned(grown), q, dk)
    total = recipe.product(grown, recipe.turned(k), recipe.needed(dq.shape))
    recipe.each(_IDENTITY, total, to=dq)


class _Part:
    """A tensor of the graph."""

    def __init__(self, descriptor: Descriptor, shape: Shape, strides: Shape) -> None:
        self.descriptor, self.shape, self.strides = descriptor, shape, strides


class _Recipe:
    """Operations, in the order in which they are written down, and the tensors between them."""

    def __init__(self, dnn: Dnn, kind: str, scores: Shape) -> None:
        self._dnn = dnn
        self.kind, self.scores = kind, scores
        self.rows = (*scores[:3], 1)
        self.operations: list[Descriptor] = []
        self.count = self._virtual = 0
        self.more: list[Any] = []
        """What is in memory beside the given tensors, in the order of its numbers: of tensors that are needed while the
        kernel runs the bytes, and constants."""

    # --- tensors

    def given(self, layout: Layout, *, turned: bool = False) -> _Part:
        """A tensor in memory, before all others. ``turned``: the transposed matrices."""
        self.count += 1
        shape, strides = tuple(layout.shape), layout.strides
        if turned:
            shape, strides = ((*each[:2], each[3], each[2]) for each in (shape, strides))
        return self._made(self.count, layout.dtype.name, shape, strides)

    def needed(self, shape: Shape) -> _Part:
        """A tensor of float32 in memory that is only needed meanwhile."""
        strides = contiguous_strides(shape)
        self.count += 1
        self.more.append(4 * shape[0] * strides[0])
        return self._made(self.count, "float32", shape, strides)

    def constant(self, value: float) -> _Part:
        """A number."""
        self.count += 1
        self.more.append(ctypes.c_float(value))
        return self._made(self.count, "float32", (1, 1, 1, 1), (1, 1, 1, 1), Named.TENSOR_IS_BY_VALUE)

    def between(self, shape: Shape, kind: str = "float32", strides: Shape | None = None) -> _Part:
        """A tensor that is nowhere in memory."""
        self._virtual += 1
        number = _FIRST_VIRTUAL + self._virtual
        return self._made(number, kind, shape, strides or contiguous_strides(shape), Named.TENSOR_IS_VIRTUAL)

    def _made(self, number: int, kind: str, shape: Shape, strides: Shape, flag: Any = None) -> _Part:
        attributes: dict[Any, Any] = {
            Named.TENSOR_DATA_TYPE: [DATA_TYPES[kind]],
            Named.TENSOR_DIMENSIONS: shape,
            Named.TENSOR_STRIDES: strides,
            Named.TENSOR_UNIQUE_ID: [number],
            Named.TENSOR_BYTE_ALIGNMENT: [ALIGNMENT],
        }
        if flag is not None:
            attributes[flag] = [True]
        return _Part(Descriptor(self._dnn, Kind.TENSOR, attributes), shape, strides)

    # --- operations

    def each(
        self,
        mode: int,
        x: _Part,
        b: _Part | None = None,
        *,
        to: _Part | None = None,
        kind: str = "float32",
        axis: int | None = None,
        chosen: _Part | None = None,
    ) -> _Part:
        """An operation on each element. ``axis``: of an index; ``chosen``: where a selection takes ``x``."""
        to = to or self.between(x.shape, kind, x.strides)
        asked: dict[Any, Any] = {
            Named.POINTWISE_MODE: [mode],
            Named.POINTWISE_MATH_PREC: [DATA_TYPES["bool" if mode == _GREATER_EQUAL else "float32"]],
        }
        if axis is not None:
            asked[Named.POINTWISE_AXIS] = [axis]
        attributes: dict[Any, Any] = {
            Named.OPERATION_POINTWISE_DESCRIPTOR: [Descriptor(self._dnn, Kind.POINTWISE, asked)],
            Named.OPERATION_POINTWISE_X: [x.descriptor],
            Named.OPERATION_POINTWISE_Y: [to.descriptor],
        }
        if b is not None:
            attributes[Named.OPERATION_POINTWISE_B] = [b.descriptor]
        if chosen is not None:
            attributes[Named.OPERATION_POINTWISE_T] = [chosen.descriptor]
        self.operations.append(Descriptor(self._dnn, Kind.OPERATION_POINTWISE, attributes))
        return to

    def product(self, a: _Part, b: _Part, to: _Part) -> _Part:
        """The product of matrices."""
        asked = {Named.MATMUL_COMP_TYPE: [DATA_TYPES["float32"]]}
        attributes = {
            Named.OPERATION_MATMUL_DESCRIPTOR: [Descriptor(self._dnn, Kind.MATMUL, asked)],
            Named.OPERATION_MATMUL_A: [a.descriptor],
            Named.OPERATION_MATMUL_B: [b.descriptor],
            Named.OPERATION_MATMUL_C: [to.descriptor],
        }
        self.operations.append(Descriptor(self._dnn, Kind.OPERATION_MATMUL, attributes))
        return to

    def reduced(self, operator: int, x: _Part, to: _Part | None = None) -> _Part:
        """The rows' sums or largest elements."""
        to = to or self.between(self.rows)
        asked: dict[Any, Any] = {
            Named.REDUCTION_OPERATOR: [operator],
            Named.REDUCTION_COMP_TYPE: [DATA_TYPES["float32"]],
        }
        attributes = {
            Named.OPERATION_REDUCTION_DESCRIPTOR: [Descriptor(self._dnn, Kind.REDUCTION, asked)],
            Named.OPERATION_REDUCTION_X: [x.descriptor],
            Named.OPERATION_REDUCTION_Y: [to.descriptor],
        }
        self.operations.append(Descriptor(self._dnn, Kind.OPERATION_REDUCTION, attributes))
        return to

    def turned(self, x: _Part) -> _Part:
        """The transposed matrices, in the type of the operands."""
        n, h, rows, columns = x.shape
        far, near, down, right = x.strides
        to = self.between((n, h, columns, rows), self.kind, (far, near, right, down))
        attributes = {Named.OPERATION_RESHAPE_X: [x.descriptor], Named.OPERATION_RESHAPE_Y: [to.descriptor]}
        self.operations.append(Descriptor(self._dnn, Kind.OPERATION_RESHAPE, attributes))
        return to

    def masked(self, scores: _Part) -> _Part:
        """Minus infinity for keys behind their query."""
        row = self.each(_INDEX, scores, kind="int32", axis=2)
        column = self.each(_INDEX, scores, kind="int32", axis=3)
        seen = self.each(_GREATER_EQUAL, row, column, kind="bool")
        return self.each(_SELECT, scores, self.constant(float("-inf")), chosen=seen)
