"""How each kind of operation is recorded: what it keeps, and how its gradient is computed from a column of its table.

What comes here is an operation with a tracked operand. It runs on plain tensors, as any other; then its result gets a
node. Operations that write in place give their target a new history: the tensor's own, or, through a view, its base's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from ...allocators.errors import CuplugError
from ...plugins.tracing.training_scope import scope
from ..tensor.core.layout import Layout
from ..tensor.core.shapes import normal_axes
from ..tensor.core.tensor import Tensor, make_tensor
from ..tensor.ops.arithmetic.arithmetic import where
from ..tensor.ops.copying.copying import clone
from ..tensor.ops.indexing.indexing import get_item, set_item
from ..tensor.ops.making.creation import ones, zeros
from ..tensor.ops.products.matmul import matmul
from ..tensor.ops.scattering.index_writes import index_put_
from ..tensor.ops.shapes.reshape import reshape
from ..tensor.ops.shapes.views import expand, narrow, select, transpose, unsqueeze
from ..tensor.places.dispatch import Plan, PlanForOnce, dispatch, plan_for
from ..tensor.places.tables_with_gradients.elementwise_table import COPY, Elementwise, ElementwiseInto
from ..tensor.places.tables_with_gradients.reduction_table import REDUCTIONS
from ..tensor.places.tables_with_gradients.scan_and_sort_table import ROWS
from .grad_mode import recording
from .gradient_column import fitted, formula
from .gradient_streams import stream_at
from .graph import Kept, Node, attach, bare_copy, edge_of, make_kept, numbering, plain, state_of, title_of
from .sums_of_products import SumOfProduct
from .view_gradients import Geometry, geometry_of, joined_by, show, unshow

Apply = Callable[..., Sequence[Any]]
Recipe = tuple[str, Apply, Sequence[Kept], int]
"""What a node is made of: its title, what computes its gradients, what it keeps, and which result is differentiable."""


def recorded(operation: Hashable, prepare: Callable[..., Any], operands: Sequence[Any]) -> Plan:
    """The plan of an operation that has a tracked operand: it records where gradients are recorded."""
    if isinstance(operation, (Elementwise, ElementwiseInto)):
        plain_plan = plan_for(
            operation, prepare, [plain(each) if isinstance(each, Tensor) else each for each in operands]
        )
        if not isinstance(plain_plan, PlanForOnce):
            if isinstance(operation, Elementwise):
                return _recorded_elementwise(operation, plain_plan, operands)
            return _recorded_in_place(operation.operation, plain_plan, operands)
    if operation == "addmm":
        return SumOfProduct(plan_for(operation, prepare, [plain(each) for each in operands]), *operands)
    count = len(operands)
    return PlanForOnce(lambda *given: _record(operation, prepare, given[:count], given[count:]))


def _record(operation: Hashable, prepare: Callable[..., Any], operands: Sequence[Any], values: tuple[Any, ...]) -> Any:
    into = _writes_to(operation)
    bare = [plain(each) if isinstance(each, Tensor) else each for each in operands]
    if not recording.enabled:
        return dispatch(operation, prepare, bare, *values)
    if into:
        return record_in_place(operation, lambda: dispatch(operation, prepare, bare, *values), operands)
    result = dispatch(operation, prepare, bare, *values)
    recipe = _recipe(operation, operands, result, values)
    if recipe is not None:
        title, apply, kept, number = recipe
        made = result[number] if isinstance(result, (list, tuple)) else result
        if made._layout.dtype.kind == "f":
            attach(made, Node(title, _edges(operands), apply, kept, stream_at(made._layout)))
    return result


def _edges(operands: Sequence[Any]) -> list[Any]:
    return [edge_of(each) if isinstance(each, Tensor) and each._layout.tracked else None for each in operands]


def _writes_to(operation: Hashable) -> bool:
    if isinstance(operation, ElementwiseInto):
        return True
    if isinstance(operation, tuple):
        return operation[0] == "random" or (len(operation) == 2 and operation[1] == "scatter")
    return operation in ("copy", "put") or operation in _FILLS


_FILLS = frozenset(("arange_int", "arange_float", "linspace", "eye"))


def _recipe(operation: Hashable, operands: Sequence[Any], result: Any, values: tuple[Any, ...]) -> Recipe | None:
    if isinstance(operation, Elementwise):
        return _elementwise(operation, operands, result)
    if operation == "matmul":
        return _matmul(operands)
    if operation == "positions":
        return None
    assert isinstance(operation, tuple)
    name = operation[0]
    if name in ("cat", "stack") and len(operation) == 2:
        return _joined(operation, operands)
    if name == "take":
        return _taken(operation[1], operands)
    if len(operation) > 1 and operation[1] == "rows":
        return _rows(name, operands, result)
    return _reduced(operation, operands[0], result, values[0])


# --- element by element

_OPERANDS = ("a", "b", "c")


def _recorded_elementwise(operation: Elementwise, run: Plan, operands: Sequence[Any]) -> Plan:
    """The plan of an operation of operands of these layouts: all that they settle is settled here."""
    by = _formulas_of(operation, operands)
    tracked = [
        (position, each._layout.plain)
        for position, each in enumerate(operands)
        if isinstance(each, Tensor) and each._layout.tracked
    ]
    nothing: list[Any] = [None] * len(operands)
    copies = operation is COPY

    def plan(*given: Any) -> Tensor:
        bare = list(given)
        for position, layout in tracked:
            each = given[position]
            bare[position] = make_tensor(each._storage, each._offset, layout, each._array)
        made: Tensor = run(*bare)
        if by is not None and recording.enabled and made._layout.dtype.kind == "f":
            edges = nothing.copy()
            for position, _ in tracked:
                edges[position] = edge_of(given[position])
            kept, apply = by.keep(given, (made,))
            where = scope.path() if scope.watched else None
            stream, number = stream_at(made._layout), next(numbering.count)
            title = _copy_title(made, given[0]) if copies else by.title
            attach(made, numbering.make_node(title, edges, apply, kept, stream, number, where))
        return made

    return plan


def _elementwise(operation: Elementwise, operands: Sequence[Any], result: Tensor) -> Recipe | None:
    by = _formulas_of(operation, operands)
    if by is None:
        return None
    title, *rest = by.recipe(operands, (result,))
    return (_copy_title(result, operands[0]) if operation is COPY else title, *rest)  # type: ignore[return-value]


def _formulas_of(operation: Elementwise, operands: Sequence[Any]) -> _ByFormulas | None:
    column = operation.gradient
    if not column:
        return None
    return _ByFormulas(operation.name, operands, column, ("g", *_OPERANDS[: operation.arity], "y"))


class _ByFormulas:
    """The gradients of an operation of operands of given layouts, by the expressions in the column of its table."""

    def __init__(self, name: str, operands: Sequence[Any], column: Sequence[str], names: tuple[str, ...]) -> None:
        """For operands, those of which have gradients that are tracked. ``names`` are what expressions may read."""
        self.title = title_of(name)
        formulas = [
            formula(text, names) if text and isinstance(each, Tensor) and each._layout.tracked else None
            for text, each in zip(column, operands, strict=True)
        ]
        self.needs = needs = frozenset().union(*(each.needs for each in formulas if each is not None))
        """Which operands and results the expressions read."""
        self._calls = [
            None if one is None else (one.call, each._layout.plain)
            for each, one in zip(operands, formulas, strict=True)
        ]
        self._operands = [letter in needs for letter, _ in zip(_OPERANDS, operands)]  # noqa: B905 - there are three letters
        self._results = [(letter in needs, letter == "y") for letter in ("y", "z") if letter in names]
        self._kept_operands = [position for position, wanted in enumerate(self._operands) if wanted]
        self._kept_results = [(position, own) for position, (wanted, own) in enumerate(self._results) if wanted]
        self._apply_kept: _OfKept | None = None
        if all(isinstance(operands[position], Tensor) for position in self._kept_operands):
            wanted = [*self._operands, *(each for each, _ in self._results)]
            self._apply_kept = _OfKept(self._calls, [sum(wanted[:n]) if each else -1 for n, each in enumerate(wanted)])

    def keep(self, operands: Sequence[Any], results: Sequence[Tensor]) -> tuple[Sequence[Kept], Apply]:
        """What a node keeps of these, and what computes its gradients from that."""
        if self._apply_kept is not None:
            if recording.keeper is None:
                found = []
                for position in self._kept_operands:
                    each = operands[position]
                    found.append(make_kept(each, False, each._storage.version))
                for position, own in self._kept_results:
                    each = results[position]
                    found.append(make_kept(bare_copy(each) if own else each, own, each._storage.version))
            else:
                found = [Kept(operands[position]) for position in self._kept_operands]
                found += [Kept(results[position], own=own) for position, own in self._kept_results]
            return tuple(found), self._apply_kept
        kept: list[Kept] = []
        given: list[Any] = []
        for wanted, each in zip(self._operands, operands):  # noqa: B905 - there are three letters
            if not wanted:
                given.append(None)
            elif isinstance(each, Tensor):
                one = Kept(each)
                given.append(one)
                kept.append(one)
            else:
                given.append(each)
        for (wanted, own), each in zip(self._results, results):  # noqa: B905 - and two
            if wanted:
                one = Kept(each, own=own)
                given.append(one)
                kept.append(one)
            else:
                given.append(None)
        return kept, partial(self._apply, given)

    def recipe(self, operands: Sequence[Any], results: Sequence[Tensor]) -> Recipe:
        """What a node of these is made of."""
        kept, apply = self.keep(operands, results)
        return self.title, apply, kept, 0

    def _apply(self, given: Sequence[Any], node: Node, gradient: Tensor) -> Sequence[Any]:
        arguments = [each.get(node) if type(each) is Kept else each for each in given]
        return [None if each is None else fitted(each[0](gradient, *arguments), each[1]) for each in self._calls]


class _OfKept:
    """Gradients of what a node keeps. One serves all nodes of its layouts: what each of them made of its own would be
    there for the interpreter's collector to look at until the backward pass."""

    __slots__ = ("_calls", "_nothing", "_places", "_unread")

    def __init__(self, calls: Sequence[Any], places: Sequence[int]) -> None:
        """``calls``: for each operand the formula and the layout. ``places``: where what they read is kept, or -1."""
        self._calls = [(position, *each) for position, each in enumerate(calls) if each is not None]
        self._places = [(position, place) for position, place in enumerate(places) if place >= 0]
        self._nothing: list[Any] = [None] * len(calls)
        self._unread: list[Any] = [None] * len(places)

    def __call__(self, node: Node, gradient: Tensor) -> Sequence[Any]:
        kept = node.kept
        assert kept is not None
        arguments, made = self._unread.copy(), self._nothing.copy()
        for position, place in self._places:
            arguments[position] = kept[place].get(node)
        for position, call, layout in self._calls:
            found = call(gradient, *arguments)
            made[position] = found if type(found) is Tensor and found._layout is layout else fitted(found, layout)
        return made


def _copy_title(made: Tensor, source: Any) -> str:
    return "CloneBackward" if made._layout.dtype is source._layout.dtype else "ToCopyBackward"


# --- along rows, and reductions


def _rows(name: str, operands: Sequence[Any], results: Sequence[Tensor]) -> Recipe | None:
    column = ROWS[name].gradient
    if not column:
        return None
    names = ("g", *_OPERANDS[: len(operands)], "y", "z")[: 1 + len(operands) + len(results)]
    return _ByFormulas(name, operands, column, names).recipe(operands, results)


def _reduced(asked: tuple[Any, ...], operand: Tensor, results: Sequence[Tensor], parameter: Any) -> Recipe | None:
    name, dim, keepdim, _ = asked
    text = REDUCTIONS[name].gradient
    if not text:
        return None
    layout = operand._layout.plain
    axes = normal_axes(dim, len(layout.shape))
    names = ("g", "a", "y", "z", "axes", "count", "p")
    one = formula(text, names)
    count = 1
    for axis in axes:
        count *= layout.shape[axis]
    shape = tuple(1 if axis in axes else n for axis, n in enumerate(layout.shape))
    kept_operand = Kept(operand) if "a" in one.needs else None
    kept_result = Kept(results[0], own=True) if "y" in one.needs else None
    kept_index = Kept(results[1]) if "z" in one.needs else None
    kept = [each for each in (kept_operand, kept_result, kept_index) if each is not None]

    def apply(node: Node, gradient: Tensor) -> Sequence[Any]:
        a = None if kept_operand is None else kept_operand.get(node)
        y = None if kept_result is None else reshape(kept_result.get(node), shape)
        z = None if kept_index is None else reshape(kept_index.get(node), shape)
        g = gradient if keepdim else reshape(gradient, shape)
        return (fitted(one.call(g, a, y, z, axes, count, parameter), layout),)

    title = title_of(name)
    return f"{title}1" if dim is not None and name in _ALONG else title, apply, kept, 0


_ALONG = frozenset(("sum", "mean", "prod"))
"""Of what torch counts the form with dimensions as another operation."""


# --- products of matrices


def _matmul(operands: Sequence[Tensor]) -> Recipe:
    left, right = (each._layout.tracked for each in operands)
    layouts = [each._layout.plain for each in operands]
    a = Kept(operands[0]) if right else None
    b = Kept(operands[1]) if left else None

    def apply(node: Node, gradient: Tensor) -> Sequence[Any]:
        rows, columns = layouts[0].shape, layouts[1].shape
        if len(rows) == 1 and len(columns) == 1:
            return [
                None if each is None else fitted(gradient * each.get(node), layout)
                for each, layout in zip((b, a), layouts, strict=True)
            ]
        g = unsqueeze(gradient, -2) if len(rows) == 1 else gradient
        g = unsqueeze(g, -1) if len(columns) == 1 else g
        made: list[Any] = [None, None]
        if b is not None:
            other = b.get(node)
            made[0] = _left(g, unsqueeze(other, 1) if other.ndim == 1 else other, layouts[0])
        if a is not None:
            other = a.get(node)
            made[1] = _right(g, unsqueeze(other, 0) if other.ndim == 1 else other, layouts[1])
        return made

    title = _PRODUCTS.get(tuple(len(each.shape) for each in layouts), "UnsafeViewBackward")
    return title, apply, [each for each in (a, b) if each is not None], 0


_PRODUCTS: dict[tuple[int, ...], str] = {
    (2, 2): "MmBackward",
    (3, 3): "BmmBackward",
    (2, 1): "MvBackward",
    (1, 1): "DotBackward",
    (1, 2): "SqueezeBackward4",
}
"""What torch calls products, by the operands' numbers of dimensions."""


def _left(g: Tensor, b: Tensor, layout: Layout) -> Tensor:
    """The gradient of the left operand."""
    made = matmul(g, transpose(b, -1, -2))
    if len(layout.shape) == 1:
        made = select(made, -2, 0)
    return fitted(made, layout)


def _right(g: Tensor, a: Tensor, layout: Layout) -> Tensor:
    """The gradient of the right operand. One matrix on the right saw all rows: so do both here, as one product."""
    if len(layout.shape) <= 2 and a.ndim > 2:
        if g.shape[:-2] != a.shape[:-2]:
            a = expand(a, *g.shape[:-2], *a.shape[-2:])
        rows = math.prod(g.shape[:-1])
        a, g = reshape(a, rows, a.shape[-1]), reshape(g, rows, g.shape[-1])
    made = matmul(transpose(a, -1, -2), g)
    if len(layout.shape) == 1:
        made = select(made, -1, 0)
    return fitted(made, layout)


# --- several made one, and elements at indices


def _joined(asked: tuple[Any, ...], operands: Sequence[Tensor]) -> Recipe:
    name, dim = asked
    layouts = [each._layout.plain if each._layout.tracked else None for each in operands]
    shapes = [tuple(each._layout.shape) for each in operands]
    ndim = max(len(each) for each in shapes) + (name == "stack")
    axis = dim % ndim if ndim else 0

    def apply(_: Node, gradient: Tensor) -> Sequence[Any]:
        made: list[Any] = []
        start = 0
        for position, (shape, layout) in enumerate(zip(shapes, layouts, strict=True)):
            if name == "stack":
                made.append(None if layout is None else fitted(select(gradient, axis, position), layout))
            elif shape == (0,) and ndim > 1:
                made.append(None if layout is None else fitted(0, layout))
            else:
                length = shape[axis]
                made.append(None if layout is None else fitted(narrow(gradient, axis, start, length), layout))
                start += length
        return made

    return title_of(name), apply, [], 0


def _taken(axis: int, operands: Sequence[Tensor]) -> Recipe | None:
    source, *indices = operands
    layout = source._layout.plain
    kept = [Kept(each) for each in indices]

    def apply(node: Node, gradient: Tensor) -> Sequence[Any]:
        key = [None] * axis + [each.get(node) for each in kept]
        start = zeros(tuple(layout.shape), dtype=gradient.dtype, device=layout.place.device)
        return [fitted(index_put_(start, key, gradient, accumulate=True), layout), *[None] * len(indices)]

    return "IndexBackward", apply, kept, 0


# --- in place


def record_in_place(operation: Hashable, run: Callable[[], Any], operands: Sequence[Any]) -> Any:
    """Run an operation that writes to its first operand, and give that a new history."""
    out = operands[0]
    check_writable(out)
    if out._layout.dtype.kind != "f":
        return run()
    if operation == "put":
        return _put(run, operands)
    if isinstance(operation, tuple) and operation[0] != "random":
        return _scattered(operation[0], run, operands)
    if isinstance(operation, tuple) or operation in _FILLS:
        result = run()
        rewrite(out, Node("FillBackward", (), lambda _, __: ()))
        return result
    elementwise = COPY if operation == "copy" else operation.operation  # type: ignore[attr-defined]
    return _rewritten(_formulas_of(elementwise, operands[1:]), elementwise, run, out, operands[1:])


def _rewritten(
    by: _ByFormulas | None, elementwise: Elementwise, run: Callable[[], Any], out: Tensor, operands: Sequence[Any]
) -> Any:
    given = list(operands)
    edges = _edges(given)
    if by is None:
        result = run()
        node = Node(title_of(elementwise.name), (), lambda _, __: ())
    else:
        for position, (letter, each) in enumerate(zip(_OPERANDS, given)):  # noqa: B905 - there are three letters
            # What is written over is needed as it was.
            if letter in by.needs and isinstance(each, Tensor) and each._storage is out._storage:
                given[position] = clone(each)
        result = run()
        kept, apply = by.keep(given, (out,))
        title = by.title
        if elementwise is COPY:
            title = _written_title(out, operands[0])
        node = Node(title, edges, apply, kept, stream_at(out._layout))
    rewrite(out, node)
    return result


def _written_title(out: Tensor, source: Any) -> str:
    if not isinstance(source, Tensor):
        return "FillBackward"
    converted = out._layout.dtype is not source._layout.dtype and not out._layout.tracked
    return "ToCopyBackward" if converted else "CopyBackward"


def _recorded_in_place(operation: Elementwise, run: Plan, operands: Sequence[Any]) -> Plan:
    """The plan of an operation that writes to the first of operands of these layouts: as ``_recorded_elementwise``."""
    by = _formulas_of(operation, operands[1:])
    tracked = [
        (position, each._layout.plain)
        for position, each in enumerate(operands)
        if isinstance(each, Tensor) and each._layout.tracked
    ]
    differentiable = operands[0]._layout.dtype.kind == "f"

    def plan(*given: Any) -> Any:
        def written() -> Any:
            bare = list(given)
            for position, layout in tracked:
                each = given[position]
                bare[position] = make_tensor(each._storage, each._offset, layout, each._array)
            return run(*bare)

        if not recording.enabled:
            return written()
        check_writable(given[0])
        return _rewritten(by, operation, written, given[0], given[1:]) if differentiable else written()

    return plan


def _scattered(name: str, run: Callable[[], Any], operands: Sequence[Tensor]) -> Any:
    out, index, source = operands
    column = ROWS[name].gradient or ()
    names = ("g", "a", "b", "c", "y")
    edges = _edges(operands)
    by = _ByFormulas(name, operands, column, names)
    before = clone(out) if "a" in by.needs else out
    result = run()
    kept, apply = by.keep([before, index, source], (plain(out),))
    rewrite(out, Node(by.title, edges, apply, kept, stream_at(out._layout)))
    return result


def _put(run: Callable[[], Any], operands: Sequence[Any]) -> Any:
    out, source, *indices = operands
    edges = _edges((out, source))
    kept = [Kept(each) for each in indices]
    layout = source._layout.plain if isinstance(source, Tensor) else None
    result = run()

    def apply(node: Node, gradient: Tensor) -> Sequence[Any]:
        key = tuple(each.get(node) for each in kept)
        made: list[Any] = [None, None]
        if edges[0] is not None:
            made[0] = clone(gradient)
            set_item(made[0], key, 0)
        if edges[1] is not None and layout is not None:
            made[1] = fitted(get_item(gradient, key), layout)
        return made

    rewrite(out, Node("IndexPutBackward", edges, apply, kept, stream_at(out._layout)))
    return result


def record_move(out: Tensor, source: Tensor) -> None:
    """The elements of ``source`` were copied to ``out`` at another place."""
    if not recording.enabled:
        return
    check_writable(out)
    layout = source._layout.plain
    if out._layout.dtype.kind != "f":
        return
    edges = _edges((source,))
    rewrite(out, Node("ToCopyBackward", edges, lambda _, g: (fitted(g, layout),), (), stream_at(out._layout)))


def record_view(source: Tensor, made: Tensor, title: str = "ViewBackward") -> Tensor:
    """``made``, a plain view of ``source``, which is tracked: as a view that is recorded."""
    if not recording.enabled or made._layout.dtype is not source._layout.dtype:
        return made
    geometry = geometry_of(source, made)
    attach(made, geometry.node(source, title))
    base = state_of(source).base
    if base is None:
        base = source
    else:
        geometry = geometry_of(base, made)
    state = state_of(made)
    state.base, state.geometry, state.seen = base, geometry, state_of(base).written
    return made


def record_pieces(source: Tensor, made: Sequence[Tensor], title: str) -> Sequence[Tensor]:
    """``record_view`` of all pieces of ``source``. Their gradients become the source's at once, by joining them."""
    several = recording.enabled and len(made) > 1
    join = joined_by(source._layout.plain, [each._layout.plain for each in made]) if several else None
    if join is None:
        return [record_view(source, each, title) for each in made]
    node = Node(title, (edge_of(source),), lambda _, *gradients: (join(gradients),))
    node.layouts = [each._layout.plain for each in made]
    base = state_of(source).base
    base = source if base is None else base
    seen = state_of(base).written
    for number, each in enumerate(made):
        attach(each, node, number)
        state = state_of(each)
        state.base, state.geometry, state.seen = base, geometry_of(base, each), seen
    return made


def begin_history(base: Tensor) -> None:
    """Let a plain tensor be part of the graph, made of nothing: its views can then be written to."""
    if recording.enabled and not base._layout.tracked and base._layout.dtype.kind == "f":
        attach(base, Node("ConstantBackward", (), lambda _, __: ()))


def check_writable(out: Tensor) -> None:
    """Look at what is to be written to in place.

    Raises:
        CuplugError: it is a leaf that requires gradients, or a view of one.
    """
    if not out._layout.tracked:
        return
    state = state_of(out)
    of_leaf = state.base is not None and state_of(state.base).node is None
    if of_leaf or state.node is None:
        raise CuplugError(
            f"{'a view of ' if of_leaf else ''}a leaf Variable that requires grad is being used in an in-place "
            "operation while gradients are recorded; do it within no_grad()"
        )


def rewrite(out: Tensor, node: Node) -> None:
    """Give ``out``, which was written to in place, the history that ``node`` makes: through its base, if it is a view.

    Raises:
        CuplugError: it is a view of a tensor that requires no gradients and does not know of its views.
    """
    if not out._layout.tracked:
        if out._layout.nbytes != out._storage.length:
            raise CuplugError(
                "what requires gradients was written to a view of a tensor that requires none, which cannot know of "
                "it: write to the tensor itself, as in tensor[...] = value"
            )
        attach(out, node)
        state_of(out).written += 1
        return
    state = state_of(out)
    if state.base is None:
        attach(out, node)
        state.written += 1
        return
    base, geometry = state.base, state.geometry
    edges = [edge_of(base), *node.edges]
    kept = node.kept or ()

    def apply(own: Node, gradient: Tensor) -> Sequence[Any]:
        part = show(gradient, geometry)
        return [_without(gradient, geometry), *node._apply(own, part)]  # type: ignore[misc]

    base_state = state_of(base)
    whole = Node("CopySlices", edges, apply, kept, stream_at(out._layout))
    whole.metadata = {**(whole.metadata or {}), "inner": node.title}
    attach(base, whole)
    base_state.written += 1
    edge_of(out)  # makes the view's history anew


def _without(gradient: Tensor, geometry: Geometry) -> Tensor:
    """A gradient with 0 where a view of this geometry covers it."""
    view = geometry.view
    covered = unshow(ones(tuple(view.shape), dtype=view.dtype, device=view.place.device), geometry)
    return where(covered == 0, gradient, 0)  # type: ignore[no-any-return]
