"""``LRScheduler``: what all schedulers are, which set an optimiser's rates anew from step to step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .optimizer import Optimizer

__all__ = ["LRScheduler"]


class LRScheduler:
    """Sets ``lr`` of an optimiser's groups anew at each ``step``. Subclasses say what it is, in ``get_lr``."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", group["lr"])
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = [group["lr"] for group in optimizer.param_groups]
        self.step()

    def get_lr(self) -> list[float]:
        """The rates at step ``last_epoch``, for each group.

        Raises:
            NotImplementedError: a subclass has to say.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what the rates are")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def _current(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next step; or those of step ``epoch``, counted from 0, as if all before it had been
        taken."""
        if epoch is None:
            self.last_epoch += 1
            self._set(self.get_lr())
            return
        self._set(self.base_lrs)
        for self.last_epoch in range(epoch + 1):
            self._set(self.get_lr())

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, without the optimiser and functions, for ``load_state_dict``."""
        return {name: value for name, value in self.__dict__.items() if name not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the scheduler stood whose ``state_dict`` this is."""
        self.__dict__.update(state_dict)
