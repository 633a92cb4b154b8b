"""Rates that go in cycles, along polynomials, or by several schedulers at once: ``cuplug.optim.lr_scheduler`` has
them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..tensor.core.tensor_errors import ArgumentError
from .optimizer import Optimizer
from .rates import LRScheduler, by_group, copied, held_by, set_momentum, set_rate


class PolynomialLR(LRScheduler):
    """From the first rate to 0 at step ``total_iters``, as the power ``power`` of what is left of the way."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left = self.total_iters - self.last_epoch
        return [each * (left / (left + 1)) ** self.power for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class MultiplicativeLR(LRScheduler):
    """The rate is multiplied at each step by ``lr_lambda(step)``: one function for all groups, or a list."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = by_group(optimizer, "lr_lambda", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        if self._is_initial:
            return self._current()
        return [rate * each(self.last_epoch) for rate, each in zip(self._current(), self.lr_lambdas, strict=True)]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate goes down half a cosine from the first one to ``eta_min``, and begins again: after ``T_0`` steps, and
    then each time after ``T_mult`` times as many (Loshchilov and Hutter, 2017).

    Raises:
        ValueError: ``T_0`` is not positive, or ``T_mult`` is below 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - torch's name
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or T_mult < 1:
            raise ArgumentError(
                f"CosineAnnealingWarmRestarts: T_0 = {T_0} is to be positive, T_mult = {T_mult} 1 or more"
            )
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates ``T_cur`` steps after the last restart, for each group."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (each - self.eta_min) * share for each in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next step; or those of ``epoch``, counted from 0, which may be a fraction.

        Raises:
            ValueError: ``epoch`` is negative.
        """
        self._count()
        if epoch is None and self.last_epoch < 0:  # the first step, which a ``SequentialLR`` has it take anew
            epoch = 0
        if epoch is None:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ArgumentError(f"CosineAnnealingWarmRestarts: epoch is {epoch}, and must not be negative")
            self.last_epoch, self.T_cur, self.T_i = math.floor(epoch), epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        self._set(self.get_lr())


class CyclicLR(LRScheduler):
    """Up from ``base_lr`` to ``max_lr`` and down again, and momentum the other way (Smith, 2017).

    Raises:
        ValueError: there is no such mode: ``triangular``, ``triangular2`` (half as high each time) or ``exp_range``
            (times ``gamma`` each step); or momentum is to go in cycles and the optimiser has none.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None and mode not in _SCALES:
            raise ArgumentError(f"CyclicLR: mode is one of {', '.join(_SCALES)}, not {mode!r}")
        groups = optimizer.param_groups
        if cycle_momentum and not all("momentum" in group or "betas" in group for group in groups):
            raise ArgumentError("CyclicLR: the optimiser has no momentum; pass cycle_momentum=False")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = _SCALES[mode][1] if scale_fn is None else scale_mode
        self.max_lrs, low = by_group(optimizer, "max_lr", max_lr), by_group(optimizer, "base_lr", base_lr)
        self.step_size_up = float(step_size_up)
        self.step_size_down = self.step_size_up if step_size_down is None else float(step_size_down)
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(groups, low, strict=True):
                set_rate(group, copied(rate))
        if cycle_momentum:
            least = by_group(optimizer, "base_momentum", base_momentum)
            most = by_group(optimizer, "max_momentum", max_momentum)
            for group, one, other in zip(groups, least, most, strict=True):
                group["base_momentum"], group["max_momentum"] = one, other
        super().__init__(optimizer, last_epoch)
        self.base_lrs = low

    def scale_fn(self, x: float) -> float:
        """How high cycle or step ``x`` goes, as part of the way from the lowest to the highest rate."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x, self.gamma)

    @property
    def _scale_fn_ref(self) -> Callable[[float, float], float]:
        """What the mode means, by the name that PyTorch has for it."""
        return _SCALES[self.mode][0]

    def get_lr(self) -> list[Any]:
        """The rates at step ``last_epoch``, for each group; momentum is set, too."""
        whole = self.step_size_up + self.step_size_down
        cycle = math.floor(1 + self.last_epoch / whole)
        place = 1 + self.last_epoch / whole - cycle
        ratio = self.step_size_up / whole
        height = place / ratio if place <= ratio else (place - 1) / (ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                momentum = group["max_momentum"] - (group["max_momentum"] - group["base_momentum"]) * height
                set_momentum(group, momentum)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, without the optimiser and a function of the program's."""
        return {**super().state_dict(), "_scale_fn_custom": held_by(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the scheduler stood whose ``state_dict`` this is."""
        function, held = self._scale_fn_custom, state_dict.get("_scale_fn_custom")
        super().load_state_dict(state_dict)
        self._scale_fn_custom = function
        if held is not None:
            function.__dict__.update(held)


_SCALES: dict[str, tuple[Callable[[float, float], float], str]] = {
    "triangular": (lambda _, __: 1.0, "cycle"),
    "triangular2": (lambda cycle, _: 0.5 ** (cycle - 1), "cycle"),
    "exp_range": (lambda count, gamma: gamma**count, "iterations"),
}
"""By mode how high a cycle goes, and whether that depends on the cycle's number or on the step's."""


class ChainedScheduler(LRScheduler):
    """Schedulers of one optimiser that all step, one after the other.

    Raises:
        ValueError: there are none, or they are of different optimisers.
    """

    def __init__(self, schedulers: Sequence[Any], optimizer: Optimizer | None = None) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ArgumentError("ChainedScheduler: there are no schedulers")
        self.optimizer = optimizer or self._schedulers[0].optimizer
        if any(each.optimizer is not self.optimizer for each in self._schedulers):
            raise ArgumentError("ChainedScheduler: the schedulers are of different optimisers")
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Let all schedulers step."""
        for each in self._schedulers:
            each.step()
        self._last_lr = self._current()
