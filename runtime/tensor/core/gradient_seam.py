"""The seam to automatic differentiation, which stands above all operations and registers itself here.

A tensor is *tracked* when it requires gradients. That is a property of its layout: a tracked tensor has the twin of its
plain layout (``Layout.twin``). So an operation of plain tensors finds its plan as if there were no gradients, at no
cost, and one with a tracked operand misses, or finds a plan that came from ``recorded``. Kernels and the plans of plain
tensors never see a tracked layout.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from .tensor_errors import ArgumentError

Tensor = Any
"""A tensor: this stands below the class."""
Made = TypeVar("Made")


class GradientEngine(Protocol):
    """What tensors and their operations ask of automatic differentiation."""

    def recorded(self, operation: Hashable, prepare: Callable[..., Any], operands: Sequence[Any]) -> Callable[..., Any]:
        """The plan of an operation that has a tracked operand. It also remembers how its gradient is computed."""

    def view(self, source: Tensor, made: Tensor, title: str = "ViewBackward") -> Tensor:
        """``made``, a plain view of ``source``, which is tracked: as what it is a view of, made by what ``grad_fn``
        prints as ``title``."""

    def pieces(self, source: Tensor, made: Sequence[Tensor], title: str) -> Sequence[Tensor]:
        """Plain views of parts of one dimension of ``source``, one after the other, which together are all of it; or of
        its single indices: as ``view`` makes them."""

    def moved(self, out: Tensor, source: Tensor) -> None:
        """The elements of ``source`` were copied to ``out``, at another place; one of them is tracked."""

    def begin(self, base: Tensor) -> None:
        """Let ``base``, if it is plain, be tracked: what is tracked will be written to a view of it."""

    def become(self, tensor: Tensor, view: Tensor) -> None:
        """``tensor``, tracked, takes the place of ``view``, a view of it.

        Raises:
            CuplugError: the tensor is a leaf that requires gradients.
        """

    def require(self, tensor: Tensor, wanted: bool) -> None:
        """Let a tensor require gradients from now on, or no longer.

        Raises:
            ElementTypeError: the elements are no floating-point numbers.
            ArgumentError: an operation made the tensor.
        """

    def gradient(self, tensor: Tensor) -> Tensor | None:
        """What was accumulated for a tensor."""

    def set_gradient(self, tensor: Tensor, gradient: Tensor | None) -> None:
        """Put a tensor in the place of what was accumulated.

        Raises:
            TypeError: it is neither a tensor nor None.
            ArgumentError: it is of another shape, element type or device.
        """

    def function(self, tensor: Tensor) -> Any:
        """The node of the graph that made a tensor; None of a leaf."""

    def keeps(self, tensor: Tensor) -> bool:
        """Whether a tensor that is no leaf keeps its gradient."""

    def keep(self, tensor: Tensor) -> None:
        """Let a tensor that is no leaf keep its gradient."""

    def forget(self, tensor: Tensor) -> None:
        """Take a tensor out of the graph, in place.

        Raises:
            CuplugError: the tensor is a view.
        """

    def hook(self, tensor: Tensor, function: Callable[[Tensor], Tensor | None], *, after: bool) -> Any:
        """Call a function with a tensor's gradient; or, ``after`` it was accumulated, with the tensor.

        Raises:
            CuplugError: ``after``, and the tensor is no leaf.
        """

    def backward(
        self,
        tensors: Sequence[Tensor],
        gradients: Sequence[Tensor | None],
        keep_graph: bool,
        create_graph: bool,
        inputs: Sequence[Tensor] | None,
    ) -> None:
        """Compute the gradients of all leaves, or of ``inputs``, and add them to ``grad``."""


_served: list[GradientEngine] = []
_sources: list[Callable[[], object]] = []


def serve_gradients(given: GradientEngine) -> None:
    """Let ``given`` do the automatic differentiation."""
    _served[:] = [given]


def serve_when_asked(load: Callable[[], object]) -> None:
    """Let ``load`` import what does the automatic differentiation once it is needed: most programs never do."""
    _sources[:] = [load]


def engine() -> GradientEngine:
    """What does the automatic differentiation.

    Raises:
        ValueError: nothing does: ``cuplug.autograd`` was not imported.
    """
    if not _served and _sources:
        _sources[0]()
    if not _served:
        raise ArgumentError("gradients are computed by cuplug.autograd, which is not imported: import cuplug first")
    return _served[0]


def begin_history(base: Tensor, value: Any) -> None:
    """Let ``base`` be part of the graph if ``value``, which is about to be written to a view of it, is tracked."""
    layout = getattr(value, "_layout", None)
    if layout is not None and layout.tracked:
        engine().begin(base)


def required(made: Made, wanted: bool) -> Made:
    """A new tensor, which requires gradients if that is wanted."""
    if wanted:
        engine().require(made, True)
    return made
