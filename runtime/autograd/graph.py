"""The graph of what was recorded: nodes, the edges between them, what they keep, and what tensors know of them.

Invariants:

- A tensor's layout is tracked if and only if it requires gradients; its ``GradientState`` then says how it was made: by
  output ``number`` of ``node``, or, where there is no node, by the program: it is a leaf. Of a tensor that is a node's
  first output, and of which no more is known, there is the node instead, until somebody asks by ``state_of``.
- Edges lead from a node to what made its operands, never back; a leaf's node keeps the leaf, and the leaf only knows it
  weakly. So a graph is freed, with all that it keeps, when the last tensor at its end is.
- What is needed later is kept with the version of its memory; to find another version later is an error.
- What was kept is let go when its node has run, unless the graph is to be kept.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ...allocators.errors import CuplugError
from ...plugins.tracing.training_scope import scope
from ..kernels.launch.quick_calls import quick_maker
from ..machine.device import is_available
from ..tensor.core.layout import Layout
from ..tensor.core.tensor import Tensor, make_tensor
from ..tensor.places.tables_with_gradients.elementwise_table import COPY, TABLE
from ..tensor.places.tables_with_gradients.network_table import NETWORK_TABLE
from .grad_mode import recording
from .gradient_streams import stream_at

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Edge",
    "GradientState",
    "Kept",
    "Node",
    "RemovableHandle",
    "as_type",
    "attach",
    "bare_copy",
    "edge_of",
    "ends_of",
    "make_kept",
    "make_node",
    "numbering",
    "plain",
    "save_on_cpu",
    "saved_tensors_hooks",
    "state_of",
    "title_of",
]

Edge = "Node | tuple[Node, int]"
"""A node whose first output is meant, or a node and which of its others. No pair where none is needed: a network
records hundreds of edges in each step, and the interpreter's collector looks at every pair."""
Gradients = Sequence["Tensor | None"]


class _Numbering:
    """The numbers that nodes get in the order of their making."""

    def __init__(self) -> None:
        self.count = itertools.count()

    def position(self) -> int:
        """The number that comes next."""
        number = next(self.count)
        self.count = itertools.count(number)
        return number

    def go_to(self, number: int) -> None:
        """Let the next node get a number, also one that a node has: then backward the two are as if made at once."""
        self.count = itertools.count(number)

    make_node: Callable[..., Node]
    """``make_node``; where anomalies are looked for, its form in Python."""


numbering = _Numbering()


class Node:
    """An operation that was recorded: it makes gradients of its operands out of those of its results."""

    __slots__ = (
        "__weakref__",
        "_apply",
        "edges",
        "hooks",
        "keeping",
        "kept",
        "layouts",
        "metadata",
        "output_hooks",
        "prehooks",
        "sequence",
        "stream",
        "title",
        "variable",
        "where",
    )
    number: ClassVar[int] = 0
    """As that of a ``GradientState``, for which a node may stand; so is ``grad``."""
    grad: ClassVar[None] = None

    def __init__(
        self,
        title: str,
        edges: Sequence[Any],
        apply: Callable[..., Gradients],
        kept: Sequence[Kept] = (),
        stream: Any = None,
        sequence: int | None = None,
    ) -> None:
        self.title = title
        """The operation's name."""
        self.edges = edges
        """For each operand what made it, or None if it needs no gradient."""
        self._apply: Callable[..., Gradients] | None = apply
        self.kept: Sequence[Kept] | None = kept
        """What it needs to compute; None once it was let go."""
        self.sequence = next(numbering.count) if sequence is None else sequence
        """Nodes run in the reverse order of their making."""
        self.stream = stream
        """The stream on which the operation was queued; its gradient is, too. None on the CPU."""
        self.output_hooks: dict[int, dict[int, Callable[[Tensor], Tensor | None]]] | None = None
        self.hooks: dict[int, Callable[..., Any]] | None = None
        self.prehooks: dict[int, Callable[..., Any]] | None = None
        self.keeping: dict[int, weakref.ref[Tensor]] | None = None
        """By output: the tensor that keeps its gradient."""
        self.layouts: list[Layout] | None = None
        """Of all outputs, where zeros have to stand for what has no gradient."""
        self.metadata: dict[Any, Any] | None = None
        self.variable: Tensor | None = None
        """Of the node of a leaf: the leaf."""
        self.where = scope.path() if scope.watched else None
        """The path of the module that computed, where somebody records that."""

    def __call__(self, *gradients: Any) -> Any:
        """The gradients of the operands.

        Raises:
            CuplugError: what this needs was let go.
        """
        if self._apply is None or self.kept is None:
            raise CuplugError(
                "Trying to backward through the graph a second time: what "
                f"{self.name()} needs was let go after the first. Specify retain_graph=True there"
            )
        return self._apply(self, *gradients)

    def let_go(self) -> None:
        """Free what is kept; nodes that keep nothing can run again."""
        if self.kept:
            self.kept = None
            self._apply = None
            if self.metadata is not None and "context" in self.metadata:
                self.metadata["context"].forget()  # a Function's, which the graph keeps as long as its result

    def name(self) -> str:
        """The name of the operation, as a tensor prints it: as in torch, with a 0 where it is no ``Function``."""
        shown = _PRINTED.get(self.title, self.title)
        own = self.metadata is not None and "context" in self.metadata
        return shown if own or not shown.endswith("Backward") else f"{shown}0"

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """What made the operands: pairs of a node and the number of its output."""
        return tuple((edge, 0) if type(edge) is not tuple else edge for edge in self.edges)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(gradients of operands, gradients of results)`` when this has run; it may return others for the
        operands."""
        self.hooks = {} if self.hooks is None else self.hooks
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(gradients of results)`` before this runs; it may return others."""
        self.prehooks = {} if self.prehooks is None else self.prehooks
        return RemovableHandle(self.prehooks, hook)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def title_of(name: str) -> str:
    """The title of nodes of an operation that the tables call ``name``."""
    return "".join(part.capitalize() for part in name.split("_")) + "Backward"


_PRINTED = {title_of(line.name): line.title for line in (*TABLE, *NETWORK_TABLE, COPY) if line.title}
"""What nodes of an operation print where that is not their title."""

_GIVEN = "title", "edges", "_apply", "kept", "stream", "sequence", "where"
_NOTHING = "output_hooks", "hooks", "prehooks", "keeping", "layouts", "metadata", "variable"


@quick_maker(Node, (*_GIVEN, *_NOTHING), len(_GIVEN), *[None] * len(_NOTHING))
def make_node(
    title: str,
    edges: Sequence[Any],
    apply: Callable[..., Gradients],
    kept: Sequence[Kept],
    stream: Any,
    sequence: int,
    where: Any,
) -> Node:
    """A node as ``Node`` makes it, of ``next(numbering.count)`` and the path that it finds."""
    made = Node(title, edges, apply, kept, stream, sequence)
    made.where = where
    return made


numbering.make_node = make_node


class GradientState:
    """What automatic differentiation knows of a tensor."""

    __slots__ = ("accumulator", "after", "base", "geometry", "grad", "hooks", "node", "number", "seen", "written")

    def __init__(self, node: Node | None = None, number: int = 0) -> None:
        self.node = node
        """What made the tensor; None of a leaf."""
        self.number = number
        self.grad: Tensor | None = None
        self.accumulator: weakref.ref[Node] | None = None
        """Of a leaf: the node that adds to ``grad``."""
        self.hooks: dict[int, Callable[[Tensor], Tensor | None]] | None = None
        self.after: dict[int, Callable[[Tensor], Any]] | None = None
        self.base: Tensor | None = None
        """Of a view: the tensor that it is a view of, which is none itself."""
        self.geometry: Any = None
        """Of a view: how it lies in its base."""
        self.seen = 0
        """Of a view: ``written`` of its base when ``node`` was made."""
        self.written = 0
        """How often the tensor, or a view of it, was given another history."""


class Kept:
    """A tensor that a gradient needs, as it was: an operand, or a result of the node itself."""

    __slots__ = ("_again", "_own", "_tensor", "_version", "number")

    def __init__(self, tensor: Tensor, *, own: bool = False, number: int = 0) -> None:
        self._tensor: Tensor | None = bare_copy(tensor) if own else tensor
        self._own = own
        self._version = tensor._storage.version
        self.number = number
        self._again: Callable[[], Tensor] | None = None
        """What gives the tensor again, where it is not kept as it is: see ``saved_tensors_hooks``."""
        if recording.keeper is not None:
            self._again = recording.keeper(self._tensor)
            self._tensor = None

    def get(self, node: Node) -> Tensor:
        """The tensor; as part of the graph, if gradients are recorded.

        Raises:
            CuplugError: it was written to in place since.
        """
        tensor = self._tensor
        if tensor is None:
            assert self._again is not None
            made = self._again()
            return attach(bare_copy(made), node, self.number) if self._own and recording.enabled else made
        if tensor._storage.version != self._version:
            raise CuplugError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                f"tensor of shape {list(tensor.shape)}, needed by {node.name()}, was changed in place: it is at "
                f"version {tensor._storage.version}, and {self._version} was needed; "
                ".clone() it before the change; one through .data counts, too, which PyTorch overlooks"
            )
        if not recording.enabled:
            return plain(tensor)
        return attach(plain(tensor), node, self.number) if self._own else tensor


@quick_maker(Kept, ("_tensor", "_own", "_version", "number", "_again"), 3, 0, None)
def make_kept(tensor: Tensor, own: bool, version: int) -> Kept:
    """As ``Kept`` makes it where nobody else keeps tensors: ``bare_copy(tensor)`` of a node's own, and its version."""
    made = Kept(tensor, own=own)
    made._tensor, made._version = tensor, version
    return made


class saved_tensors_hooks:  # noqa: N801 - torch's name
    """Within ``with``, gradients keep ``pack_hook(tensor)`` in place of each tensor that they need, and ask
    ``unpack_hook`` of that for the tensor when they are computed.

    Raises:
        CuplugError: where a tensor is kept: ``pack_hook`` changed it in place.
        TypeError: in ``backward``: ``unpack_hook`` gave no tensor.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        self._before.append(recording.keeper)
        recording.keeper = self._keep

    def __exit__(self, *_: object) -> None:
        recording.keeper = self._before.pop()

    def _keep(self, tensor: Tensor) -> Callable[[], Tensor]:
        edge = edge_of(tensor) if tensor._layout.tracked else None
        version = tensor._storage.version
        enabled, recording.enabled = recording.enabled, False
        try:
            packed = self.pack_hook(tensor)
        finally:
            recording.enabled = enabled
        if tensor._storage.version != version:
            raise CuplugError(
                "A saved tensor pack hook is modifying its input in place, which would change what is computed: "
                ".clone() it in the hook"
            )

        def again() -> Tensor:
            made = self.unpack_hook(packed)
            if not isinstance(made, Tensor):
                raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor, not {type(made)}")
            return attach(bare_copy(made), *ends_of(edge)) if edge is not None and recording.enabled else made

        return again


class save_on_cpu(saved_tensors_hooks):  # noqa: N801 - torch's name
    """Within ``with``, the tensors that gradients need are kept in host memory, and copied back when they are computed.

    Args:
        pin_memory: whether the host memory is page-locked, where there is a CUDA device: then the copies back do not
            wait.
        device_type: as torch's; it makes no difference.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        del device_type

        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            made = plain(tensor).cpu()
            return tensor.device, made.pin_memory() if pin_memory and is_available() else made

        super().__init__(pack, lambda packed: packed[1].to(packed[0], non_blocking=pin_memory))


class RemovableHandle:
    """Takes a hook away again."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any, marks: Iterable[dict[int, bool]] = ()) -> None:
        """Put ``hook`` into ``hooks`` by a number of its own, and note the number in each of ``marks``."""
        self._hooks, self._marks = hooks, tuple(marks)
        self.id = next(self._numbers)
        hooks[self.id] = hook
        for each in self._marks:
            each[self.id] = True

    def hooks_dict_ref(self) -> dict[int, Any]:
        """The table that the hook stands in."""
        return self._hooks

    def remove(self) -> None:
        """Take the hook away. A second time it does nothing."""
        for each in (self._hooks, *self._marks):
            each.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def bare_copy(tensor: Tensor) -> Tensor:
    """The same elements as another tensor, of which nothing leads to a node. A node that kept the tensor which it made
    would keep itself: a circle, freed only when the interpreter's collector looks for such."""
    return make_tensor(tensor._storage, tensor._offset, tensor._layout.plain, tensor._array)


def plain(tensor: Tensor) -> Tensor:
    """The same elements as a tensor that requires no gradients."""
    layout = tensor._layout
    if not layout.tracked:
        return tensor
    return make_tensor(tensor._storage, tensor._offset, layout.plain, tensor._array)


def as_type(gradient: Any, dtype: Any) -> Any:
    """A gradient in the element type of what it is the gradient of, as torch makes it: callers, hooks and functions of
    the program's own may give it in another one. Anything else stays as it is."""
    if not isinstance(gradient, Tensor) or dtype is None or gradient.dtype is dtype or dtype.kind != "f":
        return gradient
    return gradient.to(dtype)


def attach(tensor: Tensor, node: Node, number: int = 0) -> Tensor:
    """Make a new tensor, or one whose history ends here, output ``number`` of a node."""
    tensor._layout = tensor._layout.twin
    state: GradientState | Node | None = tensor._gradient
    if type(state) is GradientState:
        state.node, state.number = node, number
    else:
        tensor._gradient = GradientState(node, number) if number else node
    return tensor


def state_of(tensor: Tensor) -> GradientState:
    """The state of a tensor, made where there is none."""
    state: GradientState | Node | None = tensor._gradient
    if type(state) is GradientState:
        return state
    made = tensor._gradient = GradientState(state)  # type: ignore[arg-type]
    return made


def edge_of(tensor: Tensor) -> Any:
    """What made a tracked tensor, as an edge: a node of an operation, or the one that adds to a leaf's ``grad``."""
    found: GradientState | Node | None = tensor._gradient
    if type(found) is Node:
        return found
    state = found if type(found) is GradientState else state_of(tensor)
    if state.base is not None:
        _renew(state)
    if state.node is not None:
        return (state.node, state.number) if state.number else state.node
    node = None if state.accumulator is None else state.accumulator()
    if node is None:
        # Its gradients are added up, and hooks called, on the stream of its first use, as in torch.
        node = Node("AccumulateGrad", (), _accumulate, (), stream_at(tensor._layout))
        node.variable = tensor
        state.accumulator = weakref.ref(node)
    return node


def ends_of(edge: Any) -> tuple[Node, int]:
    """The node of an edge, and which of its outputs is meant."""
    return edge if type(edge) is tuple else (edge, 0)


def _accumulate(*_: Any) -> Gradients:
    raise AssertionError("the engine adds to leaves itself")


def _renew(state: GradientState) -> None:
    """A view whose base was written to gets its history anew."""
    base = state.base
    assert base is not None
    now = state_of(base).written
    if state.seen != now:
        state.node, state.number, state.seen = state.geometry.node(base, "AsStridedBackward"), 0, now
