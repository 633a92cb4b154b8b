"""What tensors ask of automatic differentiation, gathered: registers itself at the seam, as places do."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..tensor.core.gradient_seam import serve_gradients
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError
from ..tensor.places.dispatch import Plan
from .backward_pass import run
from .graph import RemovableHandle, edge_of, ends_of, state_of
from .recording import begin_history, record_move, record_pieces, record_view, recorded

__all__ = ["Engine"]


class Engine:
    """Automatic differentiation, as the seam wants it: see ``tensor/core/gradient_seam.py``."""

    def recorded(self, operation: Hashable, prepare: Callable[..., Any], operands: Sequence[Any]) -> Plan:
        """The plan of an operation that has a tracked operand. It also remembers how its gradient is computed."""
        return recorded(operation, prepare, operands)

    def view(self, source: Tensor, made: Tensor, title: str = "ViewBackward") -> Tensor:
        """``made``, a plain view of ``source``, which is tracked: as what it is a view of, made by what ``grad_fn``
        prints as ``title``."""
        return record_view(source, made, title)

    def pieces(self, source: Tensor, made: Sequence[Tensor], title: str) -> Sequence[Tensor]:
        """Plain views of parts of one dimension of ``source``, one after the other, which together are all of it; or of
        its single indices: as ``view`` makes them."""
        return record_pieces(source, made, title)

    def moved(self, out: Tensor, source: Tensor) -> None:
        """The elements of ``source`` were copied to ``out``, at another place; one of them is tracked."""
        record_move(out, source)

    def begin(self, base: Tensor) -> None:
        """Let ``base``, if it is plain, be tracked: what is tracked will be written to a view of it."""
        begin_history(base)

    def become(self, tensor: Tensor, view: Tensor) -> None:
        """``tensor``, tracked, takes the place of ``view``, a view of it.

        Raises:
            CuplugError: the tensor is a leaf that requires gradients.
        """
        if state_of(tensor).node is None:
            raise CuplugError("a leaf that requires gradients cannot be made a view of itself; use the view")
        own, new = state_of(tensor), state_of(view)
        if own.base is None:
            new.base = new.geometry = None
        tensor._gradient = new

    def require(self, tensor: Tensor, wanted: bool) -> None:
        """Let a tensor require gradients from now on, or no longer.

        Raises:
            ElementTypeError: the elements are no floating-point numbers.
            ArgumentError: an operation made the tensor.
        """
        layout = tensor._layout
        if bool(wanted) == layout.tracked:
            return
        if not wanted:
            if state_of(tensor).node is not None:
                raise ArgumentError(
                    "requires_grad is only changed for leaves; use .detach() for a tensor without gradients"
                )
            tensor._layout = layout.plain
            return
        if layout.dtype.kind != "f":
            raise ElementTypeError(
                "Only Tensors of floating point and complex dtype can require gradients, and this one is of "
                f"{layout.dtype!r}"
            )
        tensor._layout = layout.twin

    def gradient(self, tensor: Tensor) -> Tensor | None:
        """What was accumulated for a tensor."""
        return state_of(tensor).grad

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """Put a tensor in the place of what was accumulated.

        Raises:
            TypeError: it is neither a tensor nor None.
            ArgumentError: it is of another shape, element type or device.
        """
        if gradient is not None:
            if not isinstance(gradient, Tensor):
                raise TypeError(f"grad is a tensor or None, not {type(gradient).__name__}")
            own, other = tensor._layout, gradient._layout
            if own.shape != other.shape or own.dtype is not other.dtype or own.place is not other.place:
                raise ArgumentError(
                    f"grad of a tensor of {own.dtype!r}, shape {list(own.shape)}, on {own.place.device} cannot be one "
                    f"of {other.dtype!r}, shape {list(other.shape)}, on {other.place.device}"
                )
        state_of(tensor).grad = gradient

    def function(self, tensor: Tensor) -> Any:
        """The node of the graph that made a tensor; None of a leaf."""
        state = state_of(tensor)
        if state.node is not None:
            edge_of(tensor)  # a view whose base was written to gets another one
        return state.node

    def keeps(self, tensor: Tensor) -> bool:
        """Whether a tensor that is no leaf keeps its gradient."""
        state = state_of(tensor)
        keeping = None if state.node is None else state.node.keeping
        return keeping is not None and state.number in keeping

    def keep(self, tensor: Tensor) -> None:
        """Let a tensor that is no leaf keep its gradient."""
        node, number = self._history(tensor)
        if node.title == "AccumulateGrad":
            return
        node.keeping = {} if node.keeping is None else node.keeping
        node.keeping[number] = weakref.ref(tensor)

    def forget(self, tensor: Tensor) -> None:
        """Take a tensor out of the graph, in place.

        Raises:
            CuplugError: the tensor is a view.
        """
        state = state_of(tensor)
        if state.base is not None:
            raise CuplugError("a view cannot be detached in place: its base would still know of it; use .detach()")
        state.node, state.number = None, 0
        tensor._layout = tensor._layout.plain

    def hook(self, tensor: Tensor, function: Callable[..., Any], *, after: bool) -> RemovableHandle:
        """Call a function with a tensor's gradient; or, ``after`` it was accumulated, with the tensor.

        Raises:
            CuplugError: ``after``, and the tensor is no leaf.
        """
        node, number = self._history(tensor)
        state = state_of(tensor)
        if after:
            if state.node is not None:
                raise CuplugError("gradients are accumulated in leaves only, and this tensor was made by an operation")
            state.after = {} if state.after is None else state.after
            return RemovableHandle(state.after, function)
        if state.node is None:
            state.hooks = {} if state.hooks is None else state.hooks
            return RemovableHandle(state.hooks, function)
        node.output_hooks = {} if node.output_hooks is None else node.output_hooks
        return RemovableHandle(node.output_hooks.setdefault(number, {}), function)

    def backward(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        keep_graph: bool,
        create_graph: bool,
        inputs: Sequence[Tensor] | None,
    ) -> None:
        """Compute the gradients of all leaves, or of ``inputs``, and add them to ``grad``."""
        run(tensors, gradients, keep_graph, create_graph, inputs, add_up=True)

    def _history(self, tensor: Tensor) -> Any:
        if not tensor._layout.tracked:
            raise CuplugError("a tensor that requires no gradients has none to keep or to hook")
        return ends_of(edge_of(tensor))


serve_gradients(Engine())
