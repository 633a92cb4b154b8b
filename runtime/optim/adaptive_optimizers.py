"""Optimisers that few programs call: ``Adadelta``, ``Adamax``, ``NAdam`` and ``RAdam``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..tensor.core.tensor_errors import ArgumentError
from .optimizer import Optimizer, Row
from .optimizers import Settings, by_step, decays, remembered, sign_of

__all__ = ["Adadelta", "Adamax", "NAdam", "RAdam"]


class Adadelta(Optimizer):
    """Steps as long as the last ones, by running means of squares (Zeiler, 2012)."""

    _execution_settings = ("capturable", "foreach", "differentiable")

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ...) change nothing.

        Raises:
            ValueError: ``rho`` is not within [0, 1], or a setting is negative.
        """
        if not 0 <= rho <= 1:
            raise ArgumentError(f"Adadelta: rho is within [0, 1], not {rho}")
        settings = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        by_step(rows)
        numbers = (float(group["lr"]), group["eps"], group["rho"], group["weight_decay"], sign_of(group))
        self._update("adadelta", remembered(rows, "square_avg", "acc_delta"), *numbers)


class Adamax(Optimizer):
    """``Adam`` by the largest gradients instead of the means of squares (Kingma and Ba, 2015)."""

    _execution_settings = ("foreach", "differentiable", "capturable")

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ...) change nothing.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        first, second = group["betas"]
        for step, found in by_step(rows).items():
            rate = float(group["lr"]) / (1 - first**step)
            numbers = (rate, group["eps"], first, second, group["weight_decay"], sign_of(group))
            self._update("adamax", remembered(found, "exp_avg", "exp_inf"), *numbers)


class NAdam(Optimizer):
    """``Adam`` with Nesterov's momentum (Dozat, 2016)."""

    _execution_settings = ("foreach", "capturable", "differentiable")

    def __init__(
        self,
        params: Any,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ...) change nothing.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        settings |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**settings, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        rate, (first, second), slowing = float(group["lr"]), group["betas"], group["momentum_decay"]
        for step, found in by_step(rows).items():
            now, then = (first * (1 - 0.5 * 0.96 ** (number * slowing)) for number in (step, step + 1))
            for product, same in _by_product(found, now).items():
                shares = rate * (1 - now) / (1 - product), rate * then / (1 - product * then)
                root = 1 / math.sqrt(1 - second**step)
                numbers = (*shares, root, group["eps"], first, second, *decays(group))
                self._update("nadam", remembered(same, "exp_avg", "exp_avg_sq"), *numbers)


def _by_product(rows: Sequence[Row], factor: float) -> dict[float, list[Row]]:
    """The rows by the product of all momenta so far, ``factor`` among them; it is remembered of each."""
    found: dict[float, list[Row]] = {}
    for row in rows:
        state = row[2]
        state["mu_product"] = float(state.get("mu_product", 1.0)) * factor
        found.setdefault(state["mu_product"], []).append(row)
    return found


class RAdam(Optimizer):
    """``Adam`` that waits until the variance of its steps is known (Liu et al., 2020)."""

    _execution_settings = ("foreach", "capturable", "differentiable")

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **others: Any,
    ) -> None:
        """Take parameters and settings; others of torch's (``foreach``, ...) change nothing.

        Raises:
            ValueError: a beta is not within [0, 1), or a setting is negative.
        """
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        settings["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, {**settings, "maximize": maximize}, others)

    def _change(self, rows: Sequence[Row], group: Settings) -> None:
        rate, (first, second) = float(group["lr"]), group["betas"]
        longest = 2 / (1 - second) - 1
        for step, found in by_step(rows).items():
            lists = remembered(found, "exp_avg", "exp_avg_sq")
            corrected, left = rate / (1 - first**step), 1 - second**step
            length = longest - 2 * step * second**step / left
            if length > 5:  # as torch; the paper has 4
                square = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
                numbers = (corrected * math.sqrt(square * left), group["eps"], first, second, *decays(group))
                self._update("radam", lists, *numbers)
            else:
                self._update("radam_warming", lists, corrected, first, second, *decays(group))
