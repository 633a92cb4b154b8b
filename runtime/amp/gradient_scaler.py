"""``GradScaler``: losses made larger, so that gradients of a half type do not vanish; steps left out that overflow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...allocators.errors import CuplugError
from ..autograd import no_grad
from ..tensor.core.dtypes import float32
from ..tensor.core.tensor import Tensor
from ..tensor.ops.devices.optimizer_updates import update
from ..tensor.ops.making.creation import full, zeros
from .autocasting import without_cuda


class NothingToScaleError(CuplugError, AssertionError):
    """A step without gradients; an ``AssertionError`` too, which is what torch raises."""


class GradScaler:
    """Scales losses, and gradients back. The scale grows while steps go well, and falls after one that overflows.

    Whether one overflowed is found on the device, and waited for once in each ``step``. For ``cuda`` it warns and does
    nothing where there is no CUDA device.
    """

    def __init__(
        self,
        device: str | float = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not isinstance(device, str):  # GradScaler(init_scale) of cuda.amp, as in old programs
            init_scale, device = device, "cuda"
        self._enabled = enabled and not (device == "cuda" and without_cuda("GradScaler"))
        self._scale, self._growth, self._backoff = float(init_scale), growth_factor, backoff_factor
        self._interval, self._well = growth_interval, 0
        self._unscaled: dict[int, bool] = {}
        """By optimiser whose gradients were scaled back: whether all are finite."""
        self._stepped: set[int] = set()
        self._without: set[int] = set()
        """Optimisers none of whose parameters had a gradient when they were scaled back."""

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all; if not, every method passes on what it is given."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor by which losses are multiplied; 1 if scaling is off."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a loss or a list or tuple of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * full((), self._scale, dtype=outputs.dtype, device=outputs.device)
        return type(outputs)(self.scale(each) for each in outputs)

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimiser's parameters by the scale, once for each step.

        Raises:
            CuplugError: they were divided already, or the step is done.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled or id(optimizer) in self._stepped:
            raise CuplugError("unscale_ was called for this optimiser since the last update()")
        places: dict[Any, list[tuple[Tensor]]] = {}
        for group in optimizer.param_groups:
            for each in group["params"]:
                gradient = each.grad
                if gradient is not None:
                    places.setdefault(each.device, []).append((gradient.detach(),))
        flags = []
        for device, rows in places.items():
            flags.append(zeros((), dtype=float32, device=device))
            # At a scale of 0, to which it falls where every step overflows, this is infinite, as torch's.
            update("unscale", rows, 1.0 / self._scale if self._scale else math.inf, shared=flags[-1])
        self._unscaled[id(optimizer)] = not any(float(each) for each in flags)
        (self._without.discard if places else self._without.add)(id(optimizer))

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimiser's step, on gradients that were scaled back; nothing if one is infinite or NaN.

        Raises:
            CuplugError: it was called since the last ``update``.
            NothingToScaleError: no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if id(optimizer) in self._stepped:
            raise CuplugError("step was called for this optimiser since the last update()")
        if id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        if id(optimizer) in self._without:
            self._unscaled.pop(id(optimizer), None)
            raise NothingToScaleError(
                "No inf checks were recorded for this optimizer: none of its parameters has a gradient"
            )
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._unscaled[id(optimizer)] else None

    def update(self, new_scale: float | None = None) -> None:
        """Change the scale by how the steps since the last call went.

        Raises:
            CuplugError: there was none.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._unscaled:
            raise CuplugError("update: there was no step since the last one")
        elif all(self._unscaled.values()):
            self._well += 1
            if self._well == self._interval:
                self._scale, self._well = self._scale * self._growth, 0
        else:
            self._scale, self._well = self._scale * self._backoff, 0
        self._unscaled.clear()
        self._stepped.clear()
        self._without.clear()

    def state_dict(self) -> dict[str, Any]:
        """The scale and how it changes, for ``load_state_dict``; empty if scaling is off."""
        if not self._enabled:
            return {}
        settings = {"growth_factor": self._growth, "backoff_factor": self._backoff, "growth_interval": self._interval}
        return {"scale": self._scale, **settings, "_growth_tracker": self._well}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where the scaler stood whose ``state_dict`` this is."""
        if self._enabled:
            self._scale, self._well = state_dict["scale"], state_dict["_growth_tracker"]
            self._growth, self._backoff = state_dict["growth_factor"], state_dict["backoff_factor"]
            self._interval = state_dict["growth_interval"]
