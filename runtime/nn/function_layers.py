"""Functions as modules: activations and losses, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.core.tensor import Tensor
from . import activations, losses
from .module import Module

__all__ = [
    "ELU",
    "GELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Hardtanh",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "Mish",
    "NLLLoss",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
]


class _Function(Module):
    """A function of one tensor, with settings in the order of ``settings``."""

    function: Callable[..., Any]
    settings: tuple[tuple[str, Any], ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = [name for name, _ in self.settings]
        if len(args) > len(names) or not set(kwargs) <= set(names):
            raise TypeError(f"{type(self).__name__} takes {', '.join(names) or 'no settings'}")
        given = dict(zip(names, args))  # noqa: B905 - the rest is by name or as it is
        for name, value in (dict(self.settings) | given | kwargs).items():
            setattr(self, name, value)

    def forward(self, input: Tensor) -> Any:
        """What the function makes of the tensor."""
        return type(self).function(input, **{name: getattr(self, name) for name, _ in self.settings})

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={getattr(self, name)}" for name, _ in self.settings if name != "weight")


_INPLACE = ("inplace", False)


class ReLU(_Function):
    """``functional.relu``."""

    function, settings = staticmethod(activations.relu), (_INPLACE,)


class ReLU6(_Function):
    """``functional.relu6``."""

    function, settings = staticmethod(activations.relu6), (_INPLACE,)


class Hardtanh(_Function):
    """``functional.hardtanh``."""

    function = staticmethod(activations.hardtanh)
    settings = (("min_val", -1.0), ("max_val", 1.0), _INPLACE)


class LeakyReLU(_Function):
    """``functional.leaky_relu``."""

    function, settings = staticmethod(activations.leaky_relu), (("negative_slope", 0.01), _INPLACE)


class ELU(_Function):
    """``functional.elu``."""

    function, settings = staticmethod(activations.elu), (("alpha", 1.0), _INPLACE)


class GELU(_Function):
    """``functional.gelu``."""

    function, settings = staticmethod(activations.gelu), (("approximate", "none"),)


class SiLU(_Function):
    """``functional.silu``."""

    function, settings = staticmethod(activations.silu), (_INPLACE,)


class Mish(_Function):
    """``functional.mish``."""

    function, settings = staticmethod(activations.mish), (_INPLACE,)


class Sigmoid(_Function):
    """``functional.sigmoid``."""

    function = staticmethod(activations.sigmoid)


class LogSigmoid(_Function):
    """``functional.logsigmoid``."""

    function = staticmethod(activations.logsigmoid)


class Tanh(_Function):
    """``functional.tanh``."""

    function = staticmethod(activations.tanh)


class Softplus(_Function):
    """``functional.softplus``."""

    function, settings = staticmethod(activations.softplus), (("beta", 1.0), ("threshold", 20.0))


class Softmax(_Function):
    """``functional.softmax``."""

    function, settings = staticmethod(activations.softmax), (("dim", None),)


class LogSoftmax(_Function):
    """``functional.log_softmax``."""

    function, settings = staticmethod(activations.log_softmax), (("dim", None),)


class _Loss(_Function):
    """A function of two tensors. Tensors among the settings are buffers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, _ in self.settings:
            if isinstance(self.__dict__.get(name), Tensor):
                self.register_buffer(name, self.__dict__.pop(name), persistent=True)

    def forward(self, input: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return type(self).function(input, target, **{name: getattr(self, name) for name, _ in self.settings})


_MEAN = ("reduction", "mean")


class MSELoss(_Loss):
    """``functional.mse_loss``."""

    function, settings = staticmethod(losses.mse_loss), (_MEAN,)


class L1Loss(_Loss):
    """``functional.l1_loss``."""

    function, settings = staticmethod(losses.l1_loss), (_MEAN,)


class SmoothL1Loss(_Loss):
    """``functional.smooth_l1_loss``."""

    function, settings = staticmethod(losses.smooth_l1_loss), (_MEAN, ("beta", 1.0))


class HuberLoss(_Loss):
    """``functional.huber_loss``."""

    function, settings = staticmethod(losses.huber_loss), (_MEAN, ("delta", 1.0))


class KLDivLoss(_Loss):
    """``functional.kl_div``."""

    function, settings = staticmethod(losses.kl_div), (_MEAN, ("log_target", False))


class BCELoss(_Loss):
    """``functional.binary_cross_entropy``."""

    function, settings = staticmethod(losses.binary_cross_entropy), (("weight", None), _MEAN)


class BCEWithLogitsLoss(_Loss):
    """``functional.binary_cross_entropy_with_logits``."""

    function = staticmethod(losses.binary_cross_entropy_with_logits)
    settings = (("weight", None), _MEAN, ("pos_weight", None))


class NLLLoss(_Loss):
    """``functional.nll_loss``."""

    function, settings = staticmethod(losses.nll_loss), (("weight", None), ("ignore_index", -100), _MEAN)


class CrossEntropyLoss(_Loss):
    """``functional.cross_entropy``."""

    function = staticmethod(losses.cross_entropy)
    settings = (("weight", None), ("ignore_index", -100), _MEAN, ("label_smoothing", 0.0))
