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


class CELU(_Function):
    """``functional.celu``."""

    function, settings = staticmethod(rare_activations.celu), (("alpha", 1.0), _INPLACE)


class GLU(_Function):
    """``functional.glu``."""

    function, settings = staticmethod(rare_activations.glu), (("dim", -1),)


class Hardshrink(_Function):
    """``functional.hardshrink``."""

    function, settings = staticmethod(rare_activations.hardshrink), (("lambd", 0.5),)

    def extra_repr(self) -> str:
        """The limit."""
        return str(self.lambd)


class Hardsigmoid(_Function):
    """``functional.hardsigmoid``."""

    function, settings = staticmethod(rare_activations.hardsigmoid), (_INPLACE,)


class Hardswish(_Function):
    """``functional.hardswish``."""

    function, settings = staticmethod(rare_activations.hardswish), (_INPLACE,)


class SELU(_Function):
    """``functional.selu``."""

    function, settings = staticmethod(rare_activations.selu), (_INPLACE,)


class Softmin(_Function):
    """``functional.softmin``."""

    function, settings = staticmethod(activations.softmin), (("dim", None),)


class Softshrink(_Function):
    """``functional.softshrink``."""

    function, settings = staticmethod(rare_activations.softshrink), (("lambd", 0.5),)

    def extra_repr(self) -> str:
        """The limit."""
        return str(self.lambd)


class Softsign(_Function):
    """``functional.softsign``."""

    function = staticmethod(rare_activations.softsign)


class Tanhshrink(_Function):
    """``functional.tanhshrink``."""

    function = staticmethod(rare_activations.tanhshrink)


class Threshold(_Function):
    """``functional.threshold``; both numbers are to be given."""

    function, settings = staticmethod(rare_activations.threshold), (("threshold", 0.0), ("value", 0.0), _INPLACE)


class Softmax2d(_Function):
    """``functional.softmax`` over the channels of images (n, channels, height, width), or of one without n."""

    function = staticmethod(activations.softmax)

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
        self.num_parameters = num_parameters
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


class MarginRankingLoss(_Loss):
    """``functional.margin_ranking_loss``."""

    function, settings = staticmethod(margin_losses.margin_ranking_loss), (("margin", 0.0), _MEAN)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return margin_losses.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """``functional.hinge_embedding_loss``."""

    function, settings = staticmethod(margin_losses.hinge_embedding_loss), (("margin", 1.0), _MEAN)


class CosineEmbeddingLoss(_Loss):
    """``functional.cosine_embedding_loss``."""

    function, settings = staticmethod(margin_losses.cosine_embedding_loss), (("margin", 0.0), _MEAN)

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:  # type: ignore[override]
        """The loss."""
        return margin_losses.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss):
    """``functional.soft_margin_loss``."""

    function, settings = staticmethod(margin_losses.soft_margin_loss), (_MEAN,)


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


class CosineSimilarity(_Loss):
    """``functional.cosine_similarity``."""

    function, settings = staticmethod(losses.cosine_similarity), (("dim", 1), ("eps", 1e-8))


class PairwiseDistance(_Loss):
    """``functional.pairwise_distance``."""

    function = staticmethod(margin_losses.pairwise_distance)
    settings = (("p", 2.0), ("eps", 1e-6), ("keepdim", False))
