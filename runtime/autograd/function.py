"""``autograd.Function``: an operation of the program's own, with a gradient of its own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

from ...allocators.errors import CuplugError
from ..tensor.core.layout import Layout
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arguments.facts import typename
from ..tensor.ops.making.creation import zeros
from .grad_mode import no_grad, recording
from .gradient_column import fitted
from .gradient_streams import stream_at
from .graph import Kept, Node, as_type, attach, edge_of, plain
from .recording import check_writable, rewrite


class FunctionCtx:
    """What ``forward`` leaves for ``backward``. Attributes of any name can be set."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        """For each argument whether a gradient is wanted."""
        self.to_save: tuple[Tensor | None, ...] = ()
        self._kept: list[Kept | None] = []
        self._node: Callable[[], Node | None] | None = None
        """Gives the node: the context does not keep it, which keeps the context."""
        self._plain: set[int] = set()
        self._dirty: list[Tensor] = []
        self._zeros = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``backward``; they must not be changed in place before."""
        self.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What was kept.

        Raises:
            CuplugError: it was let go, or changed in place.
        """
        node = None if self._node is None else self._node()
        if node is None or node.kept is None:
            raise CuplugError("what a Function kept was let go; say retain_graph=True in the first backward")
        return tuple(None if each is None else each.get(node) for each in self._kept)

    def forget(self) -> None:
        """Let go of what was kept."""
        self._kept = []

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results of ``forward`` have no gradient, such as indices."""
        self._plain = {id(each) for each in tensors}

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which arguments ``forward`` changed in place. It must return them; their old values count as used up."""
        self._dirty = list(tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros for results without a gradient, instead of None."""
        self._zeros = value


class Function:
    """An operation with static methods ``forward(ctx, ...)`` and ``backward(ctx, *gradients)``, called by ``apply``.

    ``forward`` may go without ``ctx`` where there is ``setup_context(ctx, inputs, output)``.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result.

        Raises:
            NotImplementedError: a subclass has to say how.
        """
        raise NotImplementedError("a Function needs a static method forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradient for each argument, None for those without.

        Raises:
            NotImplementedError: a subclass has to say how.
        """
        raise NotImplementedError("a Function needs a static method backward(ctx, *gradients) to be differentiated")

    setup_context: Callable[..., Any] | None = None
    _title: ClassVar[str | None] = None
    """What ``grad_fn`` prints of an operation of cuplug's own; of others it prints the class."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run the operation, and record it if an argument requires gradients.

        Raises:
            CuplugError: ``forward`` returns something that is no tensor where gradients are wanted.
        """
        ctx = FunctionCtx()
        tracked = tuple(isinstance(each, Tensor) and each._layout.tracked for each in args)
        wanted = recording.enabled and any(tracked)
        ctx.needs_input_grad = tracked
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        results = result if isinstance(result, tuple) else (result,)
        if not wanted:
            alone = Node(cls.__name__, (), lambda _: ())
            ctx._node = lambda: alone
            ctx._kept = [Kept(each) if isinstance(each, Tensor) else None for each in ctx.to_save]
            return result
        return _recorded(cls, ctx, args, results, isinstance(result, tuple))


def _recorded(cls: type[Function], ctx: FunctionCtx, args: Sequence[Any], results: Sequence[Any], several: bool) -> Any:
    edges = [edge_of(each) if isinstance(each, Tensor) and each._layout.tracked else None for each in args]
    tensors = [each for each in results if isinstance(each, Tensor)]
    if not tensors:
        raise CuplugError(f"{cls.__name__}.forward returns no tensor")

    layouts = [None if edge is None else each._layout.plain for each, edge in zip(args, edges, strict=True)]

    def apply(node: Node, *gradients: Any) -> Sequence[Any]:
        given = list(gradients)
        if ctx._zeros and node.layouts is not None:
            given = [
                zeros(tuple(layout.shape), dtype=layout.dtype, device=layout.place.device) if each is None else each
                for each, layout in zip(given, node.layouts, strict=True)
            ]
        made = cls.backward(ctx, *given)
        made = made if isinstance(made, (tuple, list)) else (made,)
        if len(made) < len(edges) or any(each is not None for each in made[len(edges) :]):
            raise CuplugError(f"{cls.__name__}.backward returns {len(made)} gradients for {len(edges)} arguments")
        return [_fitting(node, at, *each) for at, each in enumerate(zip(made, layouts))]  # noqa: B905 - beyond are Nones

    dirty = {id(each) for each in ctx._dirty}
    node = Node(cls._title or f"{cls.__name__}Backward", edges, apply, (), stream_at(tensors[0]._layout))
    node.layouts = [each._layout.plain for each in tensors]
    node.metadata = {**(node.metadata or {}), "context": ctx}
    made: list[Any] = []
    number = 0
    outputs: dict[int, int] = {}
    for each in results:
        if not isinstance(each, Tensor):
            made.append(each)
            continue
        if id(each) in ctx._plain or each._layout.dtype.kind != "f":
            made.append(plain(each))
        elif id(each) in dirty:
            if each._layout.tracked:
                check_writable(each)
                rewrite(each, node)
            else:
                attach(each, node, number)
            made.append(each)
        else:
            # An argument that comes back as it is, is a view of itself.
            fresh = plain(each).detach() if any(each is one for one in args) else each
            if fresh._layout.tracked:
                fresh = fresh.detach()
            made.append(attach(fresh, node, number))
        outputs[id(each)] = number
        number += 1
    for position, each in enumerate(ctx.to_save):
        if each is not None and not isinstance(each, Tensor):
            raise TypeError(
                f"save_for_backward can only save tensors, but argument {position} is of type {typename(each)}; "
                "keep it as an attribute of ctx"
            )
    arguments = {id(each) for each in args}
    ctx._kept = [
        None
        if each is None
        else Kept(each, own=id(each) in outputs and id(each) not in arguments, number=outputs.get(id(each), 0))
        for each in ctx.to_save
    ]
    node.kept = [each for each in ctx._kept if each is not None]
    ctx._node = weakref.ref(node)
    ctx.to_save = ()
    return tuple(made) if several else made[0]


def _fitting(node: Node, position: int, gradient: Any, layout: Layout | None) -> Any:
    """A gradient that ``backward`` gave, in the type of its argument, and summed where the argument was broadcast.

    Raises:
        CuplugError: it has another shape.
        TypeError: it is neither a tensor nor None.
    """
    if layout is None or gradient is None:
        return gradient
    if not isinstance(gradient, Tensor):
        raise TypeError(f"{node.name()}: expected Tensor or None at index {position}, got {typename(gradient)}")
    shape, own = tuple(layout.shape), tuple(gradient._layout.shape)
    if own == shape:
        return as_type(gradient, layout.dtype)
    if len(own) < len(shape) or any(n not in (1, m) for n, m in zip(shape[::-1], own[::-1], strict=False)):
        raise CuplugError(
            f"Function {node.name()} returned an invalid gradient at index {position} - got {list(own)} but expected "
            f"shape compatible with {list(shape)}"
        )
    return fitted(gradient, layout)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a ``backward`` whose results cannot be differentiated again."""

    @wraps(backward)
    def once(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            return backward(ctx, *gradients)

    return once
