"""How the rate of learning changes from step to step: ``cuplug.optim.lr_scheduler``."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..tensor.core.tensor_errors import ArgumentError
from .optimizer import Optimizer
from .rate_cycles import (
    ChainedScheduler,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    MultiplicativeLR,
    PolynomialLR,
)
from .rates import LRScheduler, by_group, copied, set_momentum, set_rate
from .rates import LRScheduler as _LRScheduler  # noqa: F401 - the name that older programs import

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class LambdaLR(LRScheduler):
    """A group's rate is its first one times ``lr_lambda(step)``: one function for all groups, or a list with one for
    each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = by_group(optimizer, "lr_lambda", lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        return [base * each(self.last_epoch) for base, each in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The rate is multiplied by ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        if not self.last_epoch or self.last_epoch % self.step_size:
            return self._current()
        return [each * self.gamma for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate is multiplied by ``gamma`` at each of the steps ``milestones``; twice at one that is named twice."""

    def __init__(
        self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        return [each * self.gamma ** self.milestones[self.last_epoch] for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = sum(count for step, count in self.milestones.items() if step <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate is multiplied by ``gamma`` at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        return [each if self._is_initial else each * self.gamma for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate is ``factor`` times the first one until step ``total_iters``, and then the first one."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        if self.last_epoch == 0:
            return [each * self.factor for each in self._current()]
        if self.last_epoch != self.total_iters:
            return self._current()
        return [each / self.factor for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * (1 if self.last_epoch >= self.total_iters else self.factor) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` times the first rate, in ``total_iters`` equal steps.

    Raises:
        ValueError: a factor is above 1 or below 0, or ``start_factor`` is 0.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ArgumentError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, "
                f"not {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ArgumentError(f"Ending multiplicative factor expected to be between 0 and 1, not {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        if self.last_epoch == 0:
            return [each * self.start_factor for each in self._current()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        whole = self.end_factor - self.start_factor
        change = 1 + whole / (self.total_iters * self.start_factor + (self.last_epoch - 1) * whole)
        return [each * change for each in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """The rate goes down half a cosine from the first one to ``eta_min`` at step ``T_max``, and then up again. Each
    step changes the rate that is there, so that another scheduler may change it, too."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group."""
        step, low, angle = self.last_epoch, self.eta_min, math.pi / self.T_max
        if self._is_initial:
            return self._current()
        if (step - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate is the lowest, and nothing can be multiplied
            up = (1 - math.cos(angle)) / 2
            return [rate + (base - low) * up for base, rate in zip(self.base_lrs, self._current(), strict=True)]
        change = (1 + math.cos(step * angle)) / (1 + math.cos((step - 1) * angle))
        return [change * (rate - low) + low for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up to ``max_lr`` and down again along half cosines or lines, and momentum the other way.

    Raises:
        ValueError: neither ``total_steps`` nor epochs and their steps are given, or there are too many steps;
            ``pct_start`` is not within 0 and 1; or there is no such ``anneal_strategy``: ``cos`` or ``linear``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if not 0 <= pct_start <= 1:
            raise ArgumentError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self._anneal_func_type, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        top = pct_start * total_steps - 1
        if three_phase:
            self.phases = [
                (top, "low", "top", "most", "least"),
                (2 * top, "top", "low", "least", "most"),
                (total_steps - 1.0, "low", "end", "most", "most"),
            ]
        else:
            self.phases = [(top, "low", "top", "most", "least"), (total_steps - 1.0, "top", "end", "least", "most")]
        highest, least, most = (
            by_group(optimizer, name, value)
            for name, value in (
                ("max_lr", max_lr),
                ("base_momentum", base_momentum),
                ("max_momentum", max_momentum),
            )
        )
        self.limits = []
        for group, top_rate, one, other in zip(optimizer.param_groups, highest, least, most, strict=True):
            low = top_rate / div_factor
            end = low / final_div_factor
            self.limits.append({"low": low, "top": top_rate, "end": end, "least": one, "most": other})
            group["initial_lr"], group["max_lr"], group["min_lr"] = copied(low), copied(top_rate), copied(end)
            if cycle_momentum:
                group["base_momentum"], group["max_momentum"] = copied(one), copied(other)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
        return start + (end - start) * share

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group; momentum is set, too.

        Raises:
            ValueError: there are too many steps.
        """
        if self.last_epoch > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {self.last_epoch} of {self.total_steps}")
        begin = 0.0
        for number, phase in enumerate(self.phases):
            if self.last_epoch <= phase[0] or number == len(self.phases) - 1:
                break
            begin = phase[0]
        share = (self.last_epoch - begin) / (phase[0] - begin)
        rates = []
        for group, limits in zip(self.optimizer.param_groups, self.limits, strict=True):
            rates.append(self._between(limits[phase[1]], limits[phase[2]], share))
            if self.cycle_momentum:
                set_momentum(group, self._between(limits[phase[3]], limits[phase[4]], share))
        return rates


class SequentialLR(LRScheduler):
    """Schedulers that take turns: at each of the steps ``milestones`` the next one begins, from its step 0.

    Raises:
        ValueError: there are not as many schedulers as milestones and one more, they are of another optimiser, or one
            of them is a ``ReduceLROnPlateau``, whose steps take a measure.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Any], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        if len(self._milestones) != len(self._schedulers) - 1:
            raise ArgumentError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(self._schedulers)} and the number of milestones "
                f"to be equal to {len(self._milestones)}"
            )
        for each in self._schedulers:
            if each.optimizer is not optimizer:
                raise ArgumentError("SequentialLR: the schedulers are of another optimiser")
            if isinstance(each, ReduceLROnPlateau):
                raise ArgumentError("SequentialLR does not support `ReduceLROnPlateau`, whose steps take a measure")
        self.optimizer, self.last_epoch = optimizer, last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        for each in self._schedulers:
            _take_back(each)
        self._schedulers[0]._initial_step()
        self._last_lr = self._schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Set the rate of the next step by the scheduler whose turn it is."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        if number and self._milestones[number - 1] == self.last_epoch:
            _begin(self._schedulers[number])
        else:
            self._schedulers[number].step()
        self._last_lr = self._schedulers[number].get_last_lr()


def _begin(scheduler: Any) -> None:
    """Set the rates of a scheduler's step 0. One that is made of others begins as where it comes first, from the first
    rates: PyTorch has no way to begin it later."""
    if not hasattr(scheduler, "_schedulers"):
        scheduler.step(0)
        return
    for group in scheduler.optimizer.param_groups:
        set_rate(group, group["initial_lr"])
    scheduler._initial_step()


def _take_back(scheduler: Any) -> None:
    """Forget the first step of a scheduler, or of those that it is made of."""
    for each in getattr(scheduler, "_schedulers", ()):
        _take_back(each)
    if not hasattr(scheduler, "_schedulers"):
        scheduler.last_epoch -= 1
        scheduler._step_count = 0


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` when a measure has not become better for ``patience`` steps.

    Raises:
        ValueError: ``factor`` is 1 or more, there is no such mode, or ``min_lr`` has not a number for each group.
        RuntimeError: in ``step``: groups were added later, and ``min_lr`` is a list that has no number for them.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1 or mode not in ("min", "max"):
            raise ArgumentError(f"ReduceLROnPlateau: factor {factor} must be below 1, and mode {mode!r} 'min' or 'max'")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lrs, self.eps, self.last_epoch = by_group(optimizer, "min_lr", min_lr), eps, 0
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = self._current()

    def _better(self, measure: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        margin = self.threshold * (abs(self.best) if self.threshold_mode == "rel" else 1)
        return sign * measure < sign * self.best - (margin if math.isfinite(self.best) else 0)

    def _lowest(self) -> list[Any]:
        groups = len(self.optimizer.param_groups)
        if groups != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ArgumentError(
                    f"The number of param groups in the `optimizer` ({groups}) differs from when `ReduceLROnPlateau` "
                    f"was initialized ({len(self.min_lrs)}), usually due to a new param group being added to the "
                    "optimizer. Please modify the `min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * groups
        return self.min_lrs

    def step(self, metrics: Any = None, epoch: int | None = None) -> None:  # type: ignore[override]
        """Tell the scheduler ``metrics``, a number or a tensor of one element; a tensor on a device is waited for."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        measure = float(metrics)
        if self._better(measure):
            self.best, self.num_bad_epochs = measure, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, lowest in zip(self.optimizer.param_groups, self._lowest(), strict=True):
                rate = max(float(group["lr"]) * self.factor, lowest)
                if float(group["lr"]) - rate > self.eps:
                    set_rate(group, rate)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()
