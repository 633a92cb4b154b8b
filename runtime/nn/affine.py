"""``linear``: what layers compute most. All that operands of given layouts settle is settled once, in a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from ..autograd.fused import record_fused
from ..autograd.grad_mode import recording
from ..autograd.graph import Kept, plain
from ..tensor.core.casting_seam import seam
from ..tensor.core.dtypes import float32
from ..tensor.core.needed_tensors import no_tensor
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arithmetic.arithmetic import add_
from ..tensor.ops.products.matmul import matmul, product_plan
from ..tensor.ops.reductions.reduction_call import reduction_plan
from .casting import cast_to_fast

__all__ = ["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``, along the last dimension.

    Raises:
        ValueError: the shapes do not fit.
    """
    if seam.on:
        input, weight, bias = cast_to_fast(input, weight, bias)
    try:
        plans = input._layout.plans
        key = "linear", weight._layout, None if bias is None else bias._layout
    except AttributeError:
        raise no_tensor(input, weight, bias) from None
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = _prepare(input, weight, bias)
    made: Tensor = plan(input, weight, bias)
    return made


def _prepare(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    place, kind = input._layout.place, input.dtype
    alike = all(each is None or (each.dtype is kind and each._layout.place is place) for each in (weight, bias))
    fits = bias is None or bias._layout.shape == (weight.shape[0],)  # another one broadcasts
    if weight.ndim != 2 or not alike or not fits or kind.kind != "f" or not input.ndim:
        return _by_operators
    return _Linear(input, weight, bias)


def _by_operators(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    made = matmul(input, weight.t())
    return made if bias is None else made + bias


class _Linear:
    """The plan for operands of one type at one place."""

    def __init__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self._wide = bias is not None and input.dtype.is_half and input.device.type == "cpu"
        """Whether halves are computed in float32, and product and bias rounded once, as PyTorch does on the CPU."""
        row = bias if self._wide or not input.dtype.is_half else None
        self._adds = row is not None
        """Whether the product's plan adds the bias, too."""
        first, second = self._as_computed(input), self._as_computed(weight)
        third = None if row is None else self._as_computed(row)
        self._product = product_plan(first, second, turned=(False, True), row=third)
        self._shape = tuple(input.shape)
        flat = len(self._shape) <= 2
        if bias is None:
            self._title = "MmBackward" if flat else "UnsafeViewBackward"
        else:
            self._title = "AddmmBackward" if flat else "ViewBackward"
        self._keeps_input, self._keeps_weight = weight._layout.tracked, input._layout.tracked
        self._tracked_bias = bias is not None and bias._layout.tracked
        self._tracked = self._keeps_input or self._keeps_weight or self._tracked_bias
        self._backwards: dict[Any, Any] = {}
        """By the layout of the gradient: how those of input, weight and bias are computed."""

    def __call__(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        made: Tensor
        if self._wide and bias is not None:
            made = self._product(*[self._as_computed(each) for each in (input, weight, bias)]).to(input.dtype)
        elif bias is None:
            made = self._product(input, weight)
        elif self._adds:
            made = self._product(input, weight, plain(bias))
        else:
            made = self._product(input, weight)
            add_(made, plain(bias))
        if not (self._tracked and recording.enabled):
            return made
        # What a gradient does not need is not kept, as in torch.
        kept = Kept(input) if self._keeps_input else None
        kept_weight = Kept(weight) if self._keeps_weight else None
        keeps = [each for each in (kept, kept_weight) if each is not None]
        apply = partial(self._gradients, kept, kept_weight)
        return record_fused(self._title, made, (input, weight, bias), keeps, apply)

    def _as_computed(self, operand: Tensor) -> Tensor:
        return plain(operand).to(float32) if self._wide else plain(operand)

    def _gradients(
        self, kept: Kept | None, kept_weight: Kept | None, node: Any, gradient: Tensor
    ) -> Sequence[Tensor | None]:
        x = None if kept is None else kept.get(node)
        weight = None if kept_weight is None else kept_weight.get(node)
        if recording.enabled:
            return self._differentiable(x, weight, gradient)
        gradient = plain(gradient)
        plans = self._backwards.get(gradient._layout)
        if plans is None:
            plans = self._backwards[gradient._layout] = self._prepare_backward(x, weight, gradient)
        to_input, to_weight, to_bias = plans
        return [
            None if to_input is None else to_input(gradient, weight),
            None if to_weight is None else to_weight(gradient, x),
            None if to_bias is None else to_bias(gradient),
        ]

    def _prepare_backward(self, x: Tensor | None, weight: Tensor | None, gradient: Tensor) -> Any:
        to_input = None if weight is None else product_plan(gradient, weight)
        to_bias: Any = None
        if self._tracked_bias:
            longer = tuple(range(len(self._shape) - 1))
            to_bias = reduction_plan("sum", gradient, longer) if longer else lambda gradient: gradient
        to_weight: Any = None
        if x is not None and len(self._shape) == 2:
            to_weight = product_plan(gradient, x, turned=(True, False))
        elif x is not None:
            to_weight = self._to_weight
        return to_input, to_weight, to_bias

    def _to_weight(self, gradient: Tensor, x: Tensor) -> Tensor:
        """One product of all rows, whatever dimensions they have."""
        count = prod(self._shape[:-1])  # where there are no elements, reshape could not tell it
        rows: Tensor = gradient.reshape(count, gradient.shape[-1])
        return matmul(rows.t(), x.reshape(count, self._shape[-1]))

    def _differentiable(self, x: Tensor | None, weight: Tensor | None, gradient: Tensor) -> Sequence[Tensor | None]:
        """The same by operations that are recorded themselves."""
        to_bias: Tensor | None = None
        if self._tracked_bias:
            longer = tuple(range(len(self._shape) - 1))
            to_bias = gradient.sum(longer, dtype=gradient.dtype) if longer else gradient
        return [
            None if weight is None else matmul(gradient, weight),
            None if x is None else self._to_weight(gradient, x),
            to_bias,
        ]
