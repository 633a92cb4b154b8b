"""Averages of a network's weights over a training (Izmailov et al., 2018; Polyak and Juditsky, 1992), with torch's
names: ``cuplug.optim.swa_utils``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from ..autograd.grad_mode import no_grad
from ..nn.module import Module
from ..nn.normalisation_layers import _BatchNorm, _InstanceNorm
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError, AssertedError
from ..tensor.ops.making.from_values import tensor
from .optimizer import Optimizer
from .rates import LRScheduler, by_group

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
"""Of an average, a new value, and how many were averaged before: the new average."""

Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]
"""The same of several tensors, in the averages themselves."""


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """What moves an average towards a new value by ``1 - decay`` of the way.

    Raises:
        ValueError: ``decay`` is not from 0 to 1.
    """
    if not 0 <= decay <= 1:
        raise ArgumentError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(averaged: Tensor, current: Tensor, count: Any) -> Tensor:
        del count
        with no_grad():
            return decay * averaged + (1 - decay) * current

    return average


def get_swa_avg_fn() -> Average:
    """What makes an average in which all values count alike."""
    return _mean


def _mean(averaged: Tensor, current: Tensor, count: Any) -> Tensor:
    with no_grad():
        return averaged + (current - averaged) / (count + 1)  # type: ignore[no-any-return]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """``get_ema_avg_fn`` of several tensors.

    Raises:
        ValueError: ``decay`` is not from 0 to 1.
    """
    return _of_several(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """``get_swa_avg_fn`` of several tensors."""
    return _of_several(get_swa_avg_fn())


def _of_several(average: Average) -> Averages:
    def averages(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Any) -> None:
        with no_grad():
            for one, other in zip(averaged, current, strict=True):
                one.copy_(average(one, other, count))

    return averages


class AveragedModel(Module):
    """A copy of a network, ``module``, whose parameters are averages of the network's: see ``update_parameters``.

    Args:
        model: the network.
        device: where the copy is; where the network is, if None.
        avg_fn: makes a parameter's average of its average, the new value and how many were averaged; the mean of all
            if None.
        multi_avg_fn: the same of lists of tensors, in place.
        use_buffers: whether buffers are averaged, too; otherwise they are the network's at the last update.

    Raises:
        AssertionError: both functions are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertedError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What ``module`` makes of the arguments."""
        return self.module(*args, **kwargs)

    def _averaged_of(self, model: Module) -> list[Tensor]:
        buffers = model.buffers() if self.use_buffers else ()
        return [each.detach() for each in chain(model.parameters(), buffers)]

    def update_parameters(self, model: Module) -> None:
        """Take the network's parameters into the averages. The first are the averages themselves."""
        averaged = self._averaged_of(self.module)
        current = [new.to(own.device) for own, new in zip(averaged, self._averaged_of(model), strict=True)]
        if not self.n_averaged:
            for one, other in zip(averaged, current, strict=True):
                one.copy_(other)
        elif self.multi_avg_fn is not None:
            for device in dict.fromkeys(each.device for each in averaged):
                alike = [k for k, each in enumerate(averaged) if each.device == device]
                self.multi_avg_fn([averaged[k] for k in alike], [current[k] for k in alike], self.n_averaged.to(device))
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for one, other in zip(averaged, current, strict=True):
                one.copy_(average(one, other, self.n_averaged.to(one.device)))
        if not self.use_buffers:
            for one, other in zip(self.module.buffers(), model.buffers(), strict=True):
                one.detach().copy_(other.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Let a network's batch norms take means and variances anew, of all batches of a loader alike.

    Args:
        loader: gives batches; of one that is a list or tuple the first element is the network's input.
        model: the network. It is in training meanwhile.
        device: where batches are moved to first; None leaves them.
    """
    layers = [each for each in model.modules() if isinstance(each, _BatchNorm) and not isinstance(each, _InstanceNorm)]
    if not layers:
        return
    momenta, training = [each.momentum for each in layers], model.training
    for each in layers:
        each.reset_running_stats()
        each.momentum = None  # the mean of all
    model.train()
    with no_grad():
        for batch in loader:
            given = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(given if device is None else given.to(device))
    for each, momentum in zip(layers, momenta, strict=True):
        each.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """To ``swa_lr`` within ``anneal_epochs`` steps, where the rate then stays.

    Raises:
        ValueError: there is no such strategy, ``cos`` or ``linear``, or ``anneal_epochs`` is negative.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(by_group(optimizer, "swa_lr", swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs, self._strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """How much of the way is gone at a step."""
        way = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * way)) / 2 if self._strategy == "cos" else way

    def get_lr(self) -> list[Any]:
        """The rates at step ``last_epoch``, for each group. Where the rate came from is what the last part of the way
        leaves of it: another scheduler may have set it meanwhile."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        made = []
        for group in self.optimizer.param_groups:
            if before == 1:
                made.append(group["swa_lr"])
                continue
            start = (group["lr"] - before * group["swa_lr"]) / (1 - before)
            made.append(group["swa_lr"] * now + start * (1 - now))
        return made
