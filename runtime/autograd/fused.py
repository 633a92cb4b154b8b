"""Operations of networks that one kernel computes: how they come into the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.core.tensor import Tensor
from .backward_pass import grad
from .grad_mode import recording
from .gradient_streams import stream_at
from .graph import Kept, Node, attach, edge_of


def wants_history(*operands: Tensor | None) -> bool:
    """Whether what is computed of these operands is to be recorded."""
    if recording.enabled:
        for each in operands:
            if each is not None and each._layout.tracked:
                return True
    return False


def record_fused(
    title: str,
    made: Tensor,
    operands: Sequence[Tensor | None],
    kept: Sequence[Kept],
    apply: Callable[..., Sequence[Any]],
) -> Tensor:
    """``made``, new and plain, as the result of a recorded operation.

    Args:
        title: what ``grad_fn`` prints.
        made: the result.
        operands: what it was made of.
        kept: what ``apply`` needs; one at least, so that it is let go after its use.
        apply: ``apply(node, gradient)`` gives the gradient of each operand, or None.
    """
    edges = [edge_of(each) if each is not None and each._layout.tracked else None for each in operands]
    return attach(made, Node(title, edges, apply, kept, stream_at(made._layout)))


def by_parts(compute: Callable[..., Tensor], operands: Sequence[Tensor | None], gradient: Tensor) -> list[Any]:
    """The gradients of ``compute(*operands)`` as functions that can be differentiated: by its single operations."""
    wanted = [each for each in operands if each is not None and each._layout.tracked]
    found = iter(grad(compute(*operands), wanted, gradient, create_graph=True, allow_unused=True))
    return [next(found) if each is not None and each._layout.tracked else None for each in operands]
