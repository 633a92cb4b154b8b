"""The optimisers. Each parameter is changed by operations of its own; there are no fused kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops import elementwise_functions as each
from ..tensor.ops.creation import full_like, zeros_like
from .optimizer import Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "RMSprop"]

State = dict[str, Any]
Settings = Mapping[str, Any]


def _prepared(parameter: Tensor, gradient: Tensor, group: Settings) -> Tensor:
    """The gradient of what is minimised, with the decay of weights as a part of it."""
    if group.get("maximize"):
        gradient = -gradient
    decay = group["weight_decay"]
    return gradient.add(parameter, alpha=decay) if decay else gradient


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **_: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: ``nesterov`` without momentum or with dampening, or a setting is negative.
        """
        if nesterov and (momentum <= 0 or dampening):
            raise ArgumentError("SGD: nesterov needs momentum, and no dampening")
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "nesterov": nesterov, "maximize": maximize})

    def _change(self, parameter: Tensor, gradient: Tensor, state: State, group: Settings) -> None:
        gradient = _prepared(parameter, gradient, group)
        momentum = group["momentum"]
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = gradient.clone()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1.0 - group["dampening"])
            gradient = gradient.add(buffer, alpha=float(momentum)) if group["nesterov"] else buffer
        parameter.add_(gradient, alpha=-float(group["lr"]))


class Adam(Optimizer):
    """Steps by running means of gradients, divided by the roots of running means of their squares."""

    decoupled = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **_: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        if not all(0 <= beta < 1 for beta in betas):
            raise ArgumentError(f"{type(self).__name__}: betas are within [0, 1), not {betas}")
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "amsgrad": amsgrad, "maximize": maximize})

    def _change(self, parameter: Tensor, gradient: Tensor, state: State, group: Settings) -> None:
        if not state:
            state["step"] = 0
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(parameter)
        state["step"] += 1
        step, rate, (first, second) = int(state["step"]), float(group["lr"]), group["betas"]
        if self.decoupled:
            gradient = -gradient if group["maximize"] else gradient
            parameter.mul_(1 - rate * group["weight_decay"])
        else:
            gradient = _prepared(parameter, gradient, group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(first).add_(gradient, alpha=1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(each.maximum(state["max_exp_avg_sq"], square))
        divisor = (each.sqrt(square) / math.sqrt(1 - second**step)).add_(group["eps"])
        parameter.addcdiv_(mean, divisor, value=-rate / (1 - first**step))


class AdamW(Adam):
    """``Adam``, with the decay of weights apart from the gradients."""

    decoupled = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **_: Any,
    ) -> None:
        """Take parameters and settings, as ``Adam``.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """Steps by gradients, divided by the roots of running means of their squares."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **_: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a setting is negative.
        """
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered, "maximize": maximize})

    def _change(self, parameter: Tensor, gradient: Tensor, state: State, group: Settings) -> None:
        gradient = _prepared(parameter, gradient, group)
        if not state:
            state["step"] = 0
            state["square_avg"] = zeros_like(parameter)
            if group["momentum"]:
                state["momentum_buffer"] = zeros_like(parameter)
            if group["centered"]:
                state["grad_avg"] = zeros_like(parameter)
        state["step"] += 1
        part = 1 - group["alpha"]
        square = state["square_avg"].mul_(group["alpha"]).addcmul_(gradient, gradient, value=part)
        if group["centered"]:
            mean = state["grad_avg"].mul_(group["alpha"]).add_(gradient, alpha=part)
            square = square - mean * mean
        divisor = each.sqrt(square).add_(group["eps"])
        if group["momentum"]:
            buffer = state["momentum_buffer"].mul_(group["momentum"]).add_(gradient / divisor)
            parameter.add_(buffer, alpha=-float(group["lr"]))
        else:
            parameter.addcdiv_(gradient, divisor, value=-float(group["lr"]))


class Adagrad(Optimizer):
    """Steps by gradients, divided by the roots of the sums of their squares."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **_: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a setting is negative.
        """
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        super().__init__(
            params, {**settings, "initial_accumulator_value": initial_accumulator_value, "maximize": maximize}
        )

    def _change(self, parameter: Tensor, gradient: Tensor, state: State, group: Settings) -> None:
        if not state:
            state["step"] = 0
            state["sum"] = full_like(parameter, group["initial_accumulator_value"])
        gradient = _prepared(parameter, gradient, group)
        state["step"] += 1
        rate = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        total = state["sum"].addcmul_(gradient, gradient, value=1)
        parameter.addcdiv_(gradient, each.sqrt(total).add_(group["eps"]), value=-rate)
