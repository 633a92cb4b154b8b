"""``LRScheduler``: what all schedulers are, which set an optimiser's rates anew from step to step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from ..machine.callers import warn_program
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from .optimizer import Optimizer


def copied(value: Any) -> Any:
    """A rate or momentum that nobody else changes: where it is a tensor, another one of that value."""
    return value.clone() if isinstance(value, Tensor) else value


def set_rate(group: dict[str, Any], rate: Any) -> None:
    """Set a group's rate; where it is a tensor, in place."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def set_momentum(group: dict[str, Any], momentum: float) -> None:
    """Set a group's momentum, which is the first of its betas if it has some."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def by_group(optimizer: Optimizer, name: str, value: Any) -> list[Any]:
    """One value for each group: those of a list, or the same for all.

    Raises:
        ValueError: a list has another number of values.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ArgumentError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {count}."
        )
    return [copied(each) for each in value]


class LRScheduler:
    """Sets ``lr`` of an optimiser's groups anew at each ``step``. Subclasses say what it is, in ``get_lr``.

    Raises:
        TypeError: ``optimizer`` is none.
        KeyError: ``last_epoch`` says that the training goes on, and the groups do not say where it began.
    """

    _step_count = 0
    _is_initial = False
    """Whether this is the step that a scheduler takes when it is made: a training that goes on has its rates then."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    f"last_epoch >= 0; load the optimiser's state first"
                )
        optimizer._step_when_scheduled = vars(optimizer).get("step")
        self.base_lrs: list[Any] = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: Any = last_epoch
        self._last_lr: list[Any] = self._current()
        self._step_count = 0
        self._initial_step()

    def get_lr(self) -> list[Any]:
        """The rates at step ``last_epoch``, for each group.

        Raises:
            NotImplementedError: a subclass has to say.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what the rates are")

    def _initial_step(self) -> None:
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_last_lr(self) -> list[Any]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def _current(self) -> list[Any]:
        return [copied(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next step; or those of step ``epoch``, counted from 0, which may be a fraction: by
        ``_get_closed_form_lr``, where the scheduler has that, else by ``get_lr``."""
        self._count()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = self.get_lr if epoch is None else getattr(self, "_get_closed_form_lr", self.get_lr)
        self._set(rates())

    def _count(self) -> None:
        """Count a step, and warn where the first one after the beginning comes before the optimiser's own: the first
        rate would never be used. Of an optimiser with a ``step`` of its own that is not known, which is warned of where
        it was given that later."""
        optimizer = self.optimizer
        if self._step_count == 1 and vars(optimizer).get("step") is not optimizer._step_when_scheduled:
            warn_program(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                "Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
            )
        step = type(optimizer).step
        known = getattr(step, "__wrapped__", step) is Optimizer.step and "step" not in vars(optimizer)
        if self._step_count == 1 and known and not optimizer._has_stepped:
            warn_program(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the learning "
                "rate schedule is skipped; call them in the opposite order. See more details at "
                "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",
            )
        self._step_count += 1

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self._current()

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, without the optimiser, for ``load_state_dict``. Of ``lr_lambdas`` it has
        what objects among them hold, and None for functions; of schedulers that this one is made of, their states."""
        made = {name: value for name, value in self.__dict__.items() if name not in ("optimizer", *_APART)}
        for name, state_of in _APART.items():
            if name in self.__dict__:
                made[name] = [state_of(each) for each in self.__dict__[name]]
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the scheduler stood whose ``state_dict`` this is."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name not in _APART})
        for each, held in zip(self.__dict__.get("lr_lambdas", ()), state_dict.get("lr_lambdas", ()), strict=False):
            if held is not None:
                each.__dict__.update(held)
        for each, state in zip(self.__dict__.get("_schedulers", ()), state_dict.get("_schedulers", ()), strict=False):
            each.load_state_dict(state)


def held_by(function: Any) -> dict[str, Any] | None:
    """What an object that is called holds; None of a function, which is not part of a state."""
    if function is None or isinstance(function, FunctionType) or not hasattr(function, "__dict__"):
        return None
    return dict(vars(function))


_APART: dict[str, Callable[[Any], Any]] = {
    "lr_lambdas": held_by,
    "_schedulers": lambda scheduler: scheduler.state_dict(),
}
"""Attributes that are lists, by what a state has of each of their elements."""
