"""The backward pass: nodes run in the reverse order of their making, each when its results' gradients are there."""

from __future__ import annotations

import heapq
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ...allocators.errors import CuplugError, DeviceMismatchError
from ...plugins.tracing.training_scope import BACKWARD, in_phase, scope
from ..tensor.core.casting_seam import casting_as
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arithmetic.arithmetic import add
from ..tensor.ops.copying.copying import clone
from ..tensor.ops.making.creation import ones_like, zeros
from ..tensor.ops.shapes.reshape import contiguous
from .anomaly import check_gradients, warn_of
from .anomaly import mode as anomaly
from .grad_mode import recording
from .gradient_streams import hand_over, is_current, on_stream, stream_at
from .graph import Node, as_type, edge_of, ends_of, plain, state_of

_TURN = 4
"""Of two devices, each has its turn for 2**4 numbers of nodes, so that one is seldom made current for the other."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Compute the gradients of tensors with respect to all leaves, and add them to their ``grad``.

    Args:
        tensors: a tensor, or several.
        grad_tensors: for each the gradient of what is minimised; None for tensors of one element.
        retain_graph: whether the graph stays for another time; by default as ``create_graph``.
        create_graph: whether gradients can be differentiated themselves.
        grad_variables: the old name of ``grad_tensors``.
        inputs: compute the gradients of these tensors only.

    Raises:
        CuplugError: a tensor requires no gradient, a gradient does not fit or is needed, the graph was used and let go
            before, or a tensor that is needed was written to in place since.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    grad_tensors = grad_variables if grad_tensors is None else grad_tensors
    gradients = [grad_tensors] if isinstance(grad_tensors, Tensor) or grad_tensors is None else list(grad_tensors)
    if grad_tensors is None:
        gradients = [None] * len(given)
    wanted = None if inputs is None else [inputs] if isinstance(inputs, Tensor) else list(inputs)
    run(given, gradients, create_graph if retain_graph is None else retain_graph, create_graph, wanted, add_up=True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,  # noqa: ARG001 - torch's, always true
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, which are returned and not added to ``grad``.

    Other arguments and errors are those of ``backward``.

    Args:
        outputs: a tensor, or several.
        inputs: a tensor, or several: leaves or not.
        grad_outputs: for each output the gradient of what is minimised; None for tensors of one element.
        only_inputs: as torch's, always true.
        allow_unused: whether the result for an input that the outputs do not depend on is None, and no error.
        is_grads_batched: not here.
        materialize_grads: whether it is zeros instead.

    Raises:
        CuplugError: also if an input requires no gradients, or the outputs do not depend on it.
    """
    if is_grads_batched:
        raise CuplugError("grad: batched gradients are not part of cuplug; call grad once for each")
    given = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    gradients = (
        [None] * len(given)
        if grad_outputs is None
        else ([grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs))
    )
    found = run(given, gradients, create_graph if retain_graph is None else retain_graph, create_graph, wanted)
    assert found is not None
    if materialize_grads:
        made = (zeros(tuple(one.shape), dtype=one.dtype, device=one.device) for one in wanted)
        return tuple(nothing if each is None else each for each, nothing in zip(found, made, strict=True))
    if not allow_unused and any(each is None for each in found):
        position = next(number for number, each in enumerate(found) if each is None)
        raise CuplugError(
            f"grad: the outputs do not depend on input {position}; say allow_unused=True to get None for it"
        )
    return tuple(found)


def run(
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor] | None,
    *,
    add_up: bool = False,
) -> list[Tensor | None] | None:
    """One pass: adds to ``grad`` of all leaves, or of ``inputs``; or returns the gradients of ``inputs``.

    Raises:
        CuplugError: gradients and tensors differ in number, or an input requires no gradients.
    """
    if len(gradients) != len(tensors):
        raise CuplugError(f"backward: {len(gradients)} gradients for {len(tensors)} tensors")
    roots = [
        (ends_of(edge_of(each)), _first(each, one))
        for each, one in zip(tensors, gradients, strict=True)
        if _ready(each)
    ]
    wanted: dict[tuple[int, int], list[int]] | None = None
    if inputs is not None:
        if not inputs:
            raise CuplugError("backward: inputs names no tensors")
        wanted = {}
        for position, each in enumerate(inputs):
            if not each._layout.tracked:
                raise CuplugError(f"backward: input {position} requires no gradients")
            node, number = ends_of(edge_of(each))
            wanted.setdefault((id(node), number), []).append(position)
    enabled = recording.enabled
    try:
        recording.enabled = create_graph
        return _Pass(roots, keep_graph, wanted, inputs, add_up).result()
    finally:  # by a store alone: a signal at the beginning of a context's ``__exit__`` would leave it as it is
        recording.enabled = enabled


def _ready(tensor: Tensor) -> bool:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"backward: gradients are those of tensors, not of {type(tensor).__name__}")
    if not tensor._layout.tracked:
        raise CuplugError(
            "element 0 of tensors does not require grad and does not have a grad_fn: nothing it was made of does, or "
            "it was made within no_grad()"
        )
    return True


def _first(tensor: Tensor, gradient: Tensor | None) -> Tensor:
    if gradient is None:
        if tensor.numel() != 1:
            raise CuplugError(
                f"grad can be implicitly created only for scalar outputs: this tensor has shape "
                f"{list(tensor.shape)}, and needs a gradient of that shape"
            )
        return ones_like(plain(tensor))
    if gradient.shape != tensor.shape:
        raise CuplugError(
            f"Mismatch in shape: grad_output[0] has a shape of {list(gradient.shape)} and output[0] has a shape of "
            f"{list(tensor.shape)}"
        )
    if gradient.device != tensor.device:
        raise DeviceMismatchError(
            f"invalid gradient at index 0 - expected device {tensor.device} but got {gradient.device}"
        )
    converted: Tensor = as_type(gradient, tensor.dtype)
    return converted


class _Pass:
    """One backward pass."""

    def __init__(
        self, roots: Sequence[Any], keep: bool, wanted: Any, inputs: Sequence[Tensor] | None, add_up: bool
    ) -> None:
        self._keep = keep
        self._wanted = wanted
        self._inputs = inputs
        self._add_up = add_up
        self._found: list[Tensor | None] = [None] * len(inputs or ())
        self._waiting: dict[int, int] = {}
        """By node: how many gradients of its results are still to come."""
        self._buffers: dict[int, dict[int, Tensor]] = {}
        self._queue: list[tuple[int, int, int, int, int, Node]] = []
        self._only: Node | None = None
        """What would be the only one in the queue: of most networks each node is, and needs no place in an order."""
        self._turns = itertools.count()
        """Settles which of two nodes with one sequence number comes first."""
        self._streams: list[Any] = []
        self._last: Any = None
        """That of the last node, which is most often that of the next one."""
        self._block: Any = None
        """What made the stream of the node that runs the current one; None where it is the caller's."""
        self._needed: set[int] | None = None
        self._roots = roots
        nodes = self._count([edge[0] for edge, _ in roots])
        if wanted is not None:
            self._needed = self._leading(nodes)

    def result(self) -> list[Tensor | None] | None:
        """Run the pass."""
        callers: dict[int, Any] = {}
        started = set()
        for (node, number), gradient in self._roots:
            stream = stream_at(gradient._layout)
            if stream is not None:
                callers[stream.device_index] = stream
            self._give(node, number, gradient, stream)
            started.add(id(node))
        for (node, _), _gradient in self._roots:
            if id(node) in started and not self._waiting.get(id(node)):
                started.discard(id(node))
                self._enqueue(node)
        self._roots = ()
        outer = scope.known_path
        try:
            with in_phase(BACKWARD), casting_as({}, None):
                while (node := self._take()) is not None:
                    scope.known_path = node.where
                    self._run(node)
                    del node  # what it keeps must not live until the next one is done
        finally:
            scope.known_path = outer
            self._leave_block()
        for stream in self._streams:
            caller = callers.get(stream.device_index)
            if caller is None:
                caller = stream_at_device(stream)
            if caller != stream:
                caller.wait_stream(stream)
        return self._found if self._inputs is not None and not self._add_up else None

    def _count(self, starts: Sequence[Node]) -> list[Node]:
        """Count for each node how many gradients come to it; all nodes, in any order."""
        waiting = self._waiting
        started = {id(node): node for node in starts}
        found: list[Node] = []
        stack = list(started.values())
        while stack:
            node = stack.pop()
            found.append(node)
            for edge in node.edges:
                if edge is not None:
                    target = edge[0] if type(edge) is tuple else edge
                    key = id(target)
                    if key in waiting:
                        waiting[key] += 1
                    else:
                        waiting[key] = 1
                        if key not in started:
                            stack.append(target)
        return found

    def _leading(self, nodes: Sequence[Node]) -> set[int]:
        """The nodes that lead to a wanted tensor."""
        targets = {node for node, _ in self._wanted}
        leads = set(targets)
        changed = True
        order = sorted(nodes, key=lambda node: node.sequence)
        while changed:  # once, but where a node was made after one that leads to it
            changed = False
            for node in order:
                if id(node) not in leads and any(
                    edge is not None and id(ends_of(edge)[0]) in leads for edge in node.edges
                ):
                    leads.add(id(node))
                    changed = True
        return leads

    def _enqueue(self, node: Node) -> None:
        """Let a node run, to which all gradients came."""
        if self._only is None and not self._queue:
            self._only = node
            return
        if self._only is not None:
            self._push(self._only)
            self._only = None
        self._push(node)

    def _take(self) -> Node | None:
        """The node that runs next, if there is one."""
        node = self._only
        if node is not None:
            self._only = None
            return node
        return heapq.heappop(self._queue)[-1] if self._queue else None

    def _push(self, node: Node) -> None:
        # Leaves first: their gradients are then no one else's.
        order = sys.maxsize if node.title == "AccumulateGrad" else node.sequence
        device = -1 if node.stream is None else node.stream.device_index
        heapq.heappush(self._queue, (-(order >> _TURN), device, -order, -node.sequence, next(self._turns), node))

    def _give(self, node: Node, number: int, gradient: Tensor, source: Any) -> None:
        """Hand a gradient of a node's result over to it."""
        if source is not node.stream:
            hand_over(gradient, source, node.stream)
        buffer = self._buffers.setdefault(id(node), {})
        before = buffer.get(number)
        if before is None:
            buffer[number] = gradient
        elif node.stream is None or is_current(node.stream):
            buffer[number] = add(before, gradient)
        else:
            with on_stream(node.stream):
                buffer[number] = add(before, gradient)

    def _run(self, node: Node) -> None:
        buffer = self._buffers.pop(id(node), None)
        if self._needed is not None and id(node) not in self._needed:
            self._pass_on(node, [None] * len(node.edges))
            return
        stream = node.stream
        if stream is None:
            self._leave_block()
        else:
            if stream is not self._last:
                self._last = stream
                if stream not in self._streams:
                    self._streams.append(stream)
            if not is_current(stream):
                self._leave_block()
                if not is_current(stream):
                    block = on_stream(stream)
                    block.__enter__()
                    self._block = block  # until the turn of another one
        if node.title != "AccumulateGrad":
            self._compute(node, buffer or {})
        elif buffer and 0 in buffer:
            self._leaf(node, buffer)

    def _leave_block(self) -> None:
        # Without an ExitStack: where a signal interrupts one, its frame and the exception keep each other, and so the
        # context, which would otherwise be dropped and bring back what was current.
        if self._block is not None:
            block, self._block = self._block, None
            block.__exit__(None, None, None)

    def _compute(self, node: Node, buffer: dict[int, Tensor]) -> None:
        if node.output_hooks is not None:
            for number, hooks in node.output_hooks.items():
                if number in buffer:
                    buffer[number] = _hooked(hooks, buffer[number])
        if node.keeping is not None and self._add_up:
            for number, reference in node.keeping.items():
                tensor = reference()
                if tensor is not None and number in buffer:
                    _add_to(tensor, buffer[number], shared=True)
        if self._wanted is not None:
            for number, gradient in buffer.items():
                self._capture(node, number, gradient)
        if not buffer:
            self._pass_on(node, [None] * len(node.edges))
            return
        count = 1 if node.layouts is None else len(node.layouts)
        results: list[Any] = [buffer.pop(0, None)] if count == 1 else [buffer.pop(each, None) for each in range(count)]
        if node.prehooks:
            for hook in list(node.prehooks.values()):
                made = hook(tuple(results))
                if made is not None:
                    results = [made] if isinstance(made, Tensor) else list(made)
        made = list(node(*results)) if not anomaly.enabled else self._examined(node, results)
        if node.hooks:
            for hook in list(node.hooks.values()):
                changed = hook(tuple(made), tuple(results))
                if changed is not None:
                    made = [changed] if isinstance(changed, Tensor) else list(changed)
        del results
        if node.kept and not self._keep:
            node.let_go()
        self._pass_on(node, made)

    def _examined(self, node: Node, results: list[Any]) -> list[Any]:
        """The gradients of the operands, looked at: see ``detect_anomaly``."""
        try:
            made = list(node(*results))
        except Exception:
            warn_of(node.name(), node.metadata)
            raise
        if anomaly.check_nan:
            check_gradients(node.name(), node.metadata, made)
        return made

    def _pass_on(self, node: Node, made: list[Any]) -> None:
        edges, stream, waiting, buffers = node.edges, node.stream, self._waiting, self._buffers
        if len(made) < len(edges):
            made.extend([None] * (len(edges) - len(made)))
        for position, edge in enumerate(edges):
            if edge is None:
                continue
            if type(edge) is tuple:
                target, number = edge
            else:
                target, number = edge, 0
            key = id(target)
            gradient = made[position]
            if gradient is not None:
                made[position] = None  # only the target's buffer has it now
                buffer = buffers.get(key)
                if (buffer is not None and number in buffer) or (
                    target.stream is not None and target.stream is not stream
                ):
                    self._give(target, number, gradient, stream)
                elif buffer is None:  # the most usual cases, in fewer steps
                    buffers[key] = {number: gradient}
                else:
                    buffer[number] = gradient
                del gradient
            left = waiting[key] = waiting[key] - 1
            if not left:
                self._enqueue(target)

    def _leaf(self, node: Node, buffer: dict[int, Tensor]) -> None:
        leaf = node.variable
        assert leaf is not None
        gradient = buffer.pop(0)
        state = state_of(leaf)
        if state.hooks:
            gradient = _hooked(state.hooks, gradient)
        if self._wanted is not None:
            self._capture(node, 0, gradient)
            if not (self._add_up and (id(node), 0) in self._wanted):
                return
        shared = sys.getrefcount(gradient) > _ALONE
        _add_to(leaf, gradient, shared=shared)
        if state.after:
            for hook in list(state.after.values()):
                hook(leaf)

    def _capture(self, node: Node, number: int, gradient: Tensor) -> None:
        for position in self._wanted.get((id(node), number), ()):
            if self._add_up:
                assert self._inputs is not None
                if node.title != "AccumulateGrad":
                    _add_to(self._inputs[position], gradient, shared=True)
            else:
                self._found[position] = gradient


def _references_to_a_local() -> int:
    """How many references the interpreter counts where a local variable has the only one."""
    held = {0: Node("", (), lambda: ())}
    each = held.pop(0)
    return sys.getrefcount(each)


_ALONE = _references_to_a_local()
"""References to a gradient that nobody else has, where ``_leaf`` asks."""


def _hooked(hooks: dict[int, Callable[[Tensor], Tensor | None]], gradient: Tensor) -> Tensor:
    for hook in list(hooks.values()):
        changed = hook(gradient)
        if changed is not None:
            gradient = as_type(changed, gradient.dtype)
    return gradient


def _add_to(tensor: Tensor, gradient: Tensor, *, shared: bool) -> None:
    """Add to ``grad`` of a tensor. A gradient whose memory nobody else has is taken as it is."""
    state = state_of(tensor)
    if state.grad is not None:
        if recording.enabled:
            state.grad = add(state.grad, gradient)
        else:
            state.grad.add_(gradient)
        return
    if recording.enabled:
        state.grad = clone(gradient)
    elif shared or sys.getrefcount(gradient._storage) > 2 or not gradient._layout.contiguous:
        made = contiguous(gradient)
        state.grad = clone(made) if made is gradient else made
    else:
        state.grad = gradient


def stream_at_device(stream: Any) -> Any:
    """The current stream of the device of another one."""
    from ..streams.stream import current_stream

    return current_stream(stream.device_index, runtime=stream._runtime)
