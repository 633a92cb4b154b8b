"""Recurrent layers by cuDNN: all steps of all layers in one call, and their gradients in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import enable_grad
from ..autograd.backward_pass import grad
from ..autograd.fused import wants_history
from ..autograd.gradient_streams import stream_at
from ..autograd.graph import Kept, Node, attach, edge_of, plain
from ..tensor import cudnn_switches
from ..tensor.core.tensor import Tensor
from ..tensor.ops.elementwise.elementwise import common_place
from ..tensor.ops.making.creation import zeros_like
from ..tensor.ops.networks.library_calls import in_one_piece
from ..tensor.places.place import place_at
from ..tensor.places.tables_with_gradients.library_table import RecurrentKernel, Recurring
from .casting import cast_to_fast

Computed = tuple[Tensor, tuple[Tensor, ...]]
"""What the last layer gives at all steps, and the states after the last one."""


def fused_recurrent(
    work: Callable[[], Recurring],
    data: Tensor,
    sizes: Sequence[int],
    before: Sequence[Tensor],
    weights: Sequence[Tensor],
    compute: Callable[..., Computed],
) -> Computed | None:
    """Recurrent layers by cuDNN, see ``RecurrentKernel``; or None, where it does not do this.

    Args:
        work: says which layers.
        data: the rows of all steps.
        sizes: how many rows each step has.
        before: the states before the first step.
        weights: of all layers and directions.
        compute: the same by single operations, of data, states and weights: for gradients of gradients.

    Raises:
        DeviceMismatchError: the operands are on different devices.
    """
    if data._layout.place.device.type != "cuda" or not cudnn_switches.enabled or not data.numel() or not all(sizes):
        return None
    operands = cast_to_fast(data, *before, *weights)
    kind = operands[0].dtype
    if any(each.dtype is not kind for each in operands):
        return None
    kernel = place_at(data._layout).recurrent(work(), kind)
    if kernel is None:
        return None
    common_place("recurrent layers", operands)
    call = _Call(kernel, sizes, len(before), compute)
    wanted = wants_history(*operands)
    made, after, reserve = call.forward(operands, keep=wanted)
    if wanted:
        call.record(operands, [made, *after], reserve)
    return made, tuple(after)


class _Call:
    """One use of the library, and what its gradients need."""

    def __init__(
        self, kernel: RecurrentKernel, sizes: Sequence[int], states: int, compute: Callable[..., Computed]
    ) -> None:
        self._kernel, self._sizes, self._compute = kernel, sizes, compute
        self._states = slice(1, 1 + states)
        self._weights = slice(1 + states, None)
        self._spent = False
        """Whether what the library kept was used: it was written to then."""

    def forward(self, operands: Sequence[Tensor], *, keep: bool) -> tuple[Tensor, list[Tensor], Tensor | None]:
        data, before, weights = self._taken(operands)
        return self._kernel.forward(self._sizes, data, before, weights, keep=keep)

    def _taken(self, operands: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        bare = [plain(each) for each in operands]
        return in_one_piece(bare[0]), [in_one_piece(each) for each in bare[self._states]], bare[self._weights]

    def record(self, operands: Sequence[Tensor], results: Sequence[Tensor], reserve: Tensor | None) -> None:
        """Make results the outputs of a node."""
        assert reserve is not None
        edges = [edge_of(each) if each._layout.tracked else None for each in operands]
        kept = [Kept(each) for each in operands]
        made, room = Kept(results[0], own=True), Kept(reserve)

        def apply(node: Any, *given: Tensor | None) -> Sequence[Any]:
            sources = [each.get(node) for each in kept]
            if wants_history(*given, *sources):
                return self._by_parts(sources, given)
            return self._gradients(node, sources, made, room, given)

        node = Node("CudnnRnnBackward", edges, apply, [*kept, made, room], stream_at(results[0]._layout))
        node.layouts = [each._layout.plain for each in results]
        for number, each in enumerate(results):
            attach(each, node, number)

    def _gradients(
        self, node: Any, sources: Sequence[Tensor], made: Kept, room: Kept, given: Sequence[Tensor | None]
    ) -> list[Tensor | None]:
        own, kind = made.get(node), sources[0].dtype
        ready = [None if each is None else in_one_piece(each.to(kind)) for each in given]
        if ready[0] is None:
            ready[0] = zeros_like(own)
        reserve = None if self._spent else room.get(node)
        if reserve is None:  # gradients of the same results were computed before: what cuDNN kept is gone
            _, _, reserve = self.forward(sources, keep=True)
            assert reserve is not None
        self._spent = True
        to_weights = any(each is not None for each in node.edges[self._weights])
        found = self._kernel.backward(
            self._sizes, self._taken(sources), in_one_piece(own), ready, reserve, to_weights=to_weights
        )
        nothing: list[Tensor | None] = [None] * len(sources[self._weights])
        grown = [found[0], *found[1], *(found[2] or nothing)]
        return [None if edge is None else each for edge, each in zip(node.edges, grown, strict=True)]

    def _by_parts(self, sources: Sequence[Tensor], given: Sequence[Tensor | None]) -> list[Tensor | None]:
        wanted = [each for each in sources if each._layout.tracked]
        with enable_grad():
            made, after = self._compute(sources[0], sources[self._states], sources[self._weights])
            pairs = [(each, one) for each, one in zip((made, *after), given, strict=True) if one is not None]
            outputs, gradients = zip(*pairs, strict=True)
            found = iter(grad(outputs, wanted, gradients, create_graph=True, allow_unused=True))
        return [next(found) if each._layout.tracked else None for each in sources]
