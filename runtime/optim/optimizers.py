"""The optimisers. All parameters of a group that are at the same step are changed by one update of a whole list."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.making.creation import full_like, zeros_like
from .optimizer import Optimizer, Row

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "RMSprop"]

State = dict[str, Any]
Settings = Mapping[str, Any]


def sign_of(group: Settings) -> float:
    """-1 where the group is to maximise, else 1."""
    return -1.0 if group.get("maximize") else 1.0


def decays(group: Settings, decoupled: bool = False) -> tuple[float, float, float]:
    """What is added to the gradient, its sign, and by what the parameter shrinks."""
    decay = float(group["weight_decay"])
    if decoupled or group.get("decoupled_weight_decay"):
        return 0.0, sign_of(group), 1 - float(group["lr"]) * decay
    return decay, sign_of(group), 1.0


def remembered(rows: Sequence[Row], *names: str) -> list[list[Tensor]]:
    """The rows of an update: each parameter, what is remembered of it under these names, made as zeros where it is not,
    and its gradient."""
    made = []
    for parameter, gradient, state in rows:
        for name in names:
            if name not in state:
                state[name] = zeros_like(parameter)
        made.append([parameter, *[state[name] for name in names], gradient])
    return made


def by_step(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows by the number of the step that each parameter now takes; they are counted."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        state = row[2]
        state["step"] = state.get("step", 0) + 1
        found.setdefault(int(state["step"]), []).append(row)
    return found


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum."""

    _execution_settings = ("foreach", "differentiable", "fused")

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
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: ``nesterov`` without momentum or with dampening, or a setting is negative.
        """
        if nesterov and (momentum <= 0 or dampening):
            raise ArgumentError("SGD: nesterov needs momentum, and no dampening")
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "nesterov": nesterov, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        rate, decay, momentum = float(group["lr"]), float(group["weight_decay"]), float(group["momentum"])
        if not momentum:
            self._update("sgd", [row[:2] for row in rows], rate, decay, sign_of(group))
            return
        ahead, behind = (1.0, momentum) if group["nesterov"] else (0.0, 1.0)
        first = [row for row in rows if row[2].get("momentum_buffer") is None]
        later = [row for row in rows if row[2].get("momentum_buffer") is not None]
        for found, keep, take in ((first, 0.0, 1.0), (later, momentum, 1.0 - group["dampening"])):
            if found:
                numbers = (rate, decay, sign_of(group), keep, take, ahead, behind)
                self._update("sgd_momentum", remembered(found, "momentum_buffer"), *numbers)


class Adam(Optimizer):
    """Steps by running means of gradients, divided by the roots of running means of their squares."""

    _execution_settings = ("foreach", "capturable", "differentiable", "fused")

    _decoupled = False

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
        decoupled_weight_decay: bool = False,
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        settings |= {"amsgrad": amsgrad, "maximize": maximize, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, settings, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        rate, eps, (first, second) = float(group["lr"]), group["eps"], group["betas"]
        apart = decays(group, self._decoupled)
        for step, found in by_step(rows).items():
            corrected = rate / (1 - first**step), 1 / math.sqrt(1 - second**step)
            line = "amsgrad" if group["amsgrad"] else "adam"
            self._update(line, remembered(found, *names), *corrected, eps, first, second, *apart)


class AdamW(Adam):
    """``Adam``, with the decay of weights apart from the gradients."""

    _decoupled = True

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
        **others: Any,
    ) -> None:
        """Take parameters and settings, as ``Adam``.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        settings = {"maximize": maximize, "decoupled_weight_decay": True}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **settings, **others)


class RMSprop(Optimizer):
    """Steps by gradients, divided by the roots of running means of their squares."""

    _execution_settings = ("capturable", "foreach", "differentiable")

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
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a setting is negative.
        """
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        by_step(rows)
        numbers = [float(group["lr"]), group["eps"], group["alpha"], group["weight_decay"], sign_of(group)]
        names = ["square_avg"]
        line = "rmsprop"
        if group["centered"]:
            line += "_centred"
            names.append("grad_avg")
        if group["momentum"]:
            line += "_momentum"
            names.append("momentum_buffer")
            numbers.append(group["momentum"])
        self._update(line, remembered(rows, *names), *numbers)


class Adagrad(Optimizer):
    """Steps by gradients, divided by the roots of the sums of their squares."""

    _execution_settings = ("foreach", "differentiable", "fused")

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
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ``fused``, ...) change nothing.

        Raises:
            ValueError: a setting is negative.
        """
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        settings["initial_accumulator_value"] = initial_accumulator_value
        super().__init__(params, {**settings, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        for parameter, _, state in rows:
            if "sum" not in state:
                state["sum"] = full_like(parameter, group["initial_accumulator_value"])
        for step, found in by_step(rows).items():
            rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
            self._update("adagrad", remembered(found, "sum"), rate, group["eps"], group["weight_decay"], sign_of(group))
