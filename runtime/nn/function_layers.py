"""Functions as modules: activations and losses, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.core.tensor import Tensor
from ..tensor.ops.making.creation import full
from . import activations, losses, margin_losses, rare_activations
from .module import Module
from .parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "Mish",
    "MultiMarginLoss",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "PoissonNLLLoss",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TripletMarginLoss",
]


class _Function(Module):
    """A function of one tensor, with settings in the order of ``settings``."""

    function: Callable[..., Any]
    settings: tuple[tuple[str, Any], ...] = ()

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, settings: Any = None, **others: Any) -> None:
        super().__init_subclass__(**others)
        if function is not None:
            cls.function, cls.settings = staticmethod(function), settings or ()

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
        """The settings; ``inplace`` if it is so."""
        told = {name: getattr(self, name) for name, _ in self.settings if name != "weight"}
        return ", ".join(f"{name}={value!r}" for name, value in told.items() if name != "inplace" or value)


_INPLACE = ("inplace", False)


class ReLU(_Function, function=activations.relu, settings=(_INPLACE,)):
    """``functional.relu``."""


class Hardtanh(_Function, function=activations.hardtanh, settings=(("min_val", -1.0), ("max_val", 1.0), _INPLACE)):
    """``functional.hardtanh``."""


class ReLU6(Hardtanh, function=activations.relu6, settings=(_INPLACE,)):
    """``functional.relu6``."""

    min_val, max_val = 0.0, 6.0


class LeakyReLU(_Function, function=activations.leaky_relu, settings=(("negative_slope", 0.01), _INPLACE)):
    """``functional.leaky_relu``."""


class ELU(_Function, function=activations.elu, settings=(("alpha", 1.0), _INPLACE)):
    """``functional.elu``."""


class GELU(_Function, function=activations.gelu, settings=(("approximate", "none"),)):
    """``functional.gelu``."""


class SiLU(_Function, function=activations.silu, settings=(_INPLACE,)):
    """``functional.silu``."""


class Mish(_Function, function=activations.mish, settings=(_INPLACE,)):
    """``functional.mish``."""


class Sigmoid(_Function, function=activations.sigmoid):
    """``functional.sigmoid``."""


class LogSigmoid(_Function, function=activations.logsigmoid):
    """``functional.logsigmoid``."""


class Tanh(_Function, function=activations.tanh):
    """``functional.tanh``."""


class Softplus(_Function, function=activations.softplus, settings=(("beta", 1.0), ("threshold", 20.0))):
    """``functional.softplus``."""


class Softmax(_Function, function=activations.softmax, settings=(("dim", None),)):
    """``functional.softmax``."""


class LogSoftmax(_Function, function=activations.log_softmax, settings=(("dim", None),)):
    """``functional.log_softmax``."""


class CELU(_Function, function=rare_activations.celu, settings=(("alpha", 1.0), _INPLACE)):
    """``functional.celu``."""


class GLU(_Function, function=rare_activations.glu, settings=(("dim", -1),)):
    """``functional.glu``."""


class Hardshrink(_Function, function=rare_activations.hardshrink, settings=(("lambd", 0.5),)):
    """``functional.hardshrink``."""

    def extra_repr(self) -> str:
        """The limit."""
        return str(self.lambd)


class Hardsigmoid(_Function, function=rare_activations.hardsigmoid, settings=(_INPLACE,)):
    """``functional.hardsigmoid``."""


class Hardswish(_Function, function=rare_activations.hardswish, settings=(_INPLACE,)):
    """``functional.hardswish``."""


class SELU(_Function, function=rare_activations.selu, settings=(_INPLACE,)):
    """``functional.selu``."""


class Softmin(_Function, function=activations.softmin, settings=(("dim", None),)):
    """``functional.softmin``."""


class Softshrink(_Function, function=rare_activations.softshrink, settings=(("lambd", 0.5),)):
    """``functional.softshrink``."""

    def extra_repr(self) -> str:
        """The limit."""
        return str(self.lambd)


class Softsign(_Function, function=rare_activations.softsign):
    """``functional.softsign``."""


class Tanhshrink(_Function, function=rare_activations.tanhshrink):
    """``functional.tanhshrink``."""


class Threshold(_Function):
    """``functional.threshold``; both numbers are to be given."""

    function, settings = staticmethod(rare_activations.threshold), (("threshold", 0.0), ("value", 0.0), _INPLACE)


class Softmax2d(_Function, function=activations.softmax):
    """``functional.softmax`` over the channels of images (n, channels, height, width), or of one without n."""

    def forward(self, input: Tensor) -> Any:
        """The images with the channels' shares."""
        return activations.softmax(input, -3)


class PReLU(Module):
    """``functional.prelu`` with slopes that are trained: one, or one for each channel.

    Args:
        num_parameters: how many slopes there are.
        init: with which they begin.
        device: where they are.
        dtype: their element type.
    """

    _told = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        """``input`` with negative elements times their channel's slope.

        Raises:
            ValueError: there is neither one slope nor one for each channel.
        """
        return rare_activations.prelu(input, self.weight)


class _Loss(_Function):
    """A function of two tensors. Tensors among the settings are buffers.

    ``size_average`` and ``reduce``, older names of ``reduction``, are taken by name.
    """

    def __init__(self, *args: Any, size_average: bool | None = None, reduce: bool | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if size_average is not None or reduce is not None:
            self.reduction = losses.older_reduction(size_average, reduce)
        for name, _ in self.settings:
            if isinstance(self.__dict__.get(name), Tensor):
                self.register_buffer(name, self.__dict__.pop(name), persistent=True)

    def forward(self, input: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return type(self).function(input, target, **{name: getattr(self, name) for name, _ in self.settings})

    def extra_repr(self) -> str:
        """Nothing: torch prints no settings of losses."""
        return ""


_MEAN = ("reduction", "mean")


class MSELoss(_Loss, function=losses.mse_loss, settings=(_MEAN,)):
    """``functional.mse_loss``."""


class L1Loss(_Loss, function=losses.l1_loss, settings=(_MEAN,)):
    """``functional.l1_loss``."""


class SmoothL1Loss(_Loss, function=losses.smooth_l1_loss, settings=(_MEAN, ("beta", 1.0))):
    """``functional.smooth_l1_loss``."""


class HuberLoss(_Loss, function=losses.huber_loss, settings=(_MEAN, ("delta", 1.0))):
    """``functional.huber_loss``."""


class KLDivLoss(_Loss, function=losses.kl_div, settings=(_MEAN, ("log_target", False))):
    """``functional.kl_div``."""


class BCELoss(_Loss, function=losses.binary_cross_entropy, settings=(("weight", None), _MEAN)):
    """``functional.binary_cross_entropy``."""


class BCEWithLogitsLoss(_Loss):
    """``functional.binary_cross_entropy_with_logits``."""

    function = staticmethod(losses.binary_cross_entropy_with_logits)
    settings = (("weight", None), _MEAN, ("pos_weight", None))


class NLLLoss(_Loss, function=losses.nll_loss, settings=(("weight", None), ("ignore_index", -100), _MEAN)):
    """``functional.nll_loss``."""


class CrossEntropyLoss(_Loss):
    """``functional.cross_entropy``."""

    function = staticmethod(losses.cross_entropy)
    settings = (("weight", None), ("ignore_index", -100), _MEAN, ("label_smoothing", 0.0))


class MarginRankingLoss(_Loss, function=margin_losses.margin_ranking_loss, settings=(("margin", 0.0), _MEAN)):
    """``functional.margin_ranking_loss``."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return margin_losses.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss, function=margin_losses.hinge_embedding_loss, settings=(("margin", 1.0), _MEAN)):
    """``functional.hinge_embedding_loss``."""


class CosineEmbeddingLoss(_Loss, function=margin_losses.cosine_embedding_loss, settings=(("margin", 0.0), _MEAN)):
    """``functional.cosine_embedding_loss``."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return margin_losses.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss, function=margin_losses.soft_margin_loss, settings=(_MEAN,)):
    """``functional.soft_margin_loss``."""


class MultiMarginLoss(_Loss):
    """``functional.multi_margin_loss``."""

    function = staticmethod(margin_losses.multi_margin_loss)
    settings = (("p", 1), ("margin", 1.0), ("weight", None), _MEAN)


class PoissonNLLLoss(_Loss):
    """``functional.poisson_nll_loss``."""

    function = staticmethod(margin_losses.poisson_nll_loss)
    settings = (("log_input", True), ("full", False), ("eps", 1e-8), _MEAN)


class GaussianNLLLoss(_Loss):
    """``functional.gaussian_nll_loss``."""

    function = staticmethod(margin_losses.gaussian_nll_loss)
    settings = (("full", False), ("eps", 1e-6), _MEAN)

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Any:  # type: ignore[override]
        """The loss."""
        return margin_losses.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class TripletMarginLoss(_Loss):
    """``functional.triplet_margin_loss``."""

    function = staticmethod(margin_losses.triplet_margin_loss)
    settings = (("margin", 1.0), ("p", 2.0), ("eps", 1e-6), ("swap", False), _MEAN)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        settings = {name: getattr(self, name) for name, _ in self.settings}
        return margin_losses.triplet_margin_loss(anchor, positive, negative, **settings)


class CosineSimilarity(_Loss, function=losses.cosine_similarity, settings=(("dim", 1), ("eps", 1e-8))):
    """``functional.cosine_similarity``."""


class PairwiseDistance(_Loss):
    """``functional.pairwise_distance``."""

    function = staticmethod(margin_losses.pairwise_distance)
    settings = (("p", 2.0), ("eps", 1e-6), ("keepdim", False))
