"""What tensors ask of automatic differentiation, gathered: registers itself at the seam, as places do."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..machine.callers import warn_program
from ..tensor.core.gradient_seam import serve_gradients
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, ElementTypeError
from .backward_pass import run
from .graph import RemovableHandle, edge_of, ends_of, state_of
from .recording import begin_history, record_move, record_pieces, record_view, recorded


class _Engine:
    """Automatic differentiation, as the seam wants it: ``tensor/core/gradient_seam.py`` says what each method does."""

    recorded = staticmethod(recorded)
    view = staticmethod(record_view)
    pieces = staticmethod(record_pieces)
    moved = staticmethod(record_move)
    begin = staticmethod(begin_history)

    def become(self, tensor: Tensor, view: Tensor) -> None:
        if state_of(tensor).node is None:
            raise CuplugError("a leaf that requires gradients cannot be made a view of itself; use the view")
        own, new = state_of(tensor), state_of(view)
        if own.base is None:
            new.base = new.geometry = None
        tensor._gradient = new

    def require(self, tensor: Tensor, wanted: bool) -> None:
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
        state = state_of(tensor)
        if state.grad is None and state.node is not None and not self.keeps(tensor):
            warn_program(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed: backward does not fill "
                "it; call .retain_grad() before, or ask the leaf",
            )
        return state.grad

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
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
        state = state_of(tensor)
        if state.node is not None:
            edge_of(tensor)  # a view whose base was written to gets another one
        return state.node

    def keeps(self, tensor: Tensor) -> bool:
        state = state_of(tensor)
        keeping = None if state.node is None else state.node.keeping
        return keeping is not None and state.number in keeping

    def keep(self, tensor: Tensor) -> None:
        node, number = self._history(tensor)
        if node.title == "AccumulateGrad":
            return
        node.keeping = {} if node.keeping is None else node.keeping
        node.keeping[number] = weakref.ref(tensor)

    def forget(self, tensor: Tensor) -> None:
        state = state_of(tensor)
        if state.base is not None:
            raise CuplugError("a view cannot be detached in place: its base would still know of it; use .detach()")
        state.node, state.number = None, 0
        tensor._layout = tensor._layout.plain

    def hook(self, tensor: Tensor, function: Callable[..., Any], *, after: bool) -> RemovableHandle:
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
        run(tensors, gradients, keep_graph, create_graph, inputs, add_up=True)

    def _history(self, tensor: Tensor) -> Any:
        if not tensor._layout.tracked:
            raise CuplugError("a tensor that requires no gradients has none to keep or to hook")
        return ends_of(edge_of(tensor))


serve_gradients(_Engine())
