"""The gradient of ``addmm``, recorded as one node, whose products and sum are planned once for operands of one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.products.matmul import matmul, product_plan
from ..tensor.ops.reductions.reduction_call import reduction_plan
from ..tensor.ops.reductions.reductions import sum as sum_of
from ..tensor.ops.shapes.views import transpose
from .grad_mode import recording
from .gradient_streams import stream_at
from .graph import Kept, Node, attach, edge_of, plain


class SumOfProduct:
    """The plan of ``left @ right + row``, one of which at least is tracked, of operands of these layouts."""

    def __init__(self, run: Callable[..., Tensor], left: Tensor, right: Tensor, row: Tensor) -> None:
        self._run = run
        self._left, self._right, self._row = (each._layout.tracked for each in (left, right, row))
        self._plans: dict[Any, Any] = {}
        """By the layout of the gradient: how those of the operands are computed."""

    def __call__(self, left: Tensor, right: Tensor, row: Tensor) -> Tensor:
        made = self._run(plain(left), plain(right), plain(row))
        if not recording.enabled:
            return made
        # A product's gradients need the other factor each.
        kept_left = Kept(left) if self._right else None
        kept_right = Kept(right) if self._left else None
        edges = [
            edge_of(left) if self._left else None,
            edge_of(right) if self._right else None,
            edge_of(row) if self._row else None,
        ]
        kept = [each for each in (kept_left, kept_right) if each is not None]
        apply = partial(self._gradients, kept_left, kept_right)
        return attach(made, Node("AddmmBackward", edges, apply, kept, stream_at(made._layout)))

    def _gradients(
        self, kept_left: Kept | None, kept_right: Kept | None, node: Node, gradient: Tensor
    ) -> Sequence[Tensor | None]:
        left = None if kept_left is None else kept_left.get(node)
        right = None if kept_right is None else kept_right.get(node)
        if recording.enabled:
            return [
                None if right is None else matmul(gradient, transpose(right, 0, 1)),
                None if left is None else matmul(transpose(left, 0, 1), gradient),
                sum_of(gradient, 0, dtype=gradient.dtype) if self._row else None,
            ]
        gradient = plain(gradient)
        plans = self._plans.get(gradient._layout)
        if plans is None:
            plans = self._plans[gradient._layout] = (
                None if right is None else product_plan(gradient, right, turned=(False, True)),
                None if left is None else product_plan(left, gradient, turned=(True, False)),
                reduction_plan("sum", gradient, (0,)) if self._row else None,
            )
        to_left, to_right, to_row = plans
        return [
            None if to_left is None else to_left(gradient, right),
            None if to_right is None else to_right(left, gradient),
            None if to_row is None else to_row(gradient),
        ]
