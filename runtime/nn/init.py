"""First values of parameters: ``cuplug.nn.init``. All write in place, without recording, and return the tensor."""

from __future__ import annotations

import math
from typing import Any

from ..autograd import no_grad
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.making.creation import eye

__all__ = [
    "calculate_gain",
    "constant_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]


@no_grad()
def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill with random numbers equally distributed from ``a`` up to but without ``b``. Returns the tensor.

    Raises:
        ValueError: ``b`` is less than ``a``, or a limit is not finite.
        TypeError: the elements are not floating-point.
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with random numbers of the normal distribution. Returns the tensor.

    Args:
        tensor: what is filled.
        mean: the distribution's mean.
        std: its standard deviation.
        generator: where random numbers come from; the device's default generator if None.

    Raises:
        ValueError: ``std`` is negative.
        TypeError: the elements are not floating-point.
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Any:
    """Fill with random numbers of the normal distribution between ``a`` and ``b``: what falls outside is drawn again
    until nothing does. Returns the tensor, and waits for the device.

    Raises:
        ValueError: ``std`` is negative.
        TypeError: the elements are not floating-point.
    """
    tensor.normal_(mean, std, generator=generator)
    outside = (tensor < a) | (tensor > b)
    while bool(outside.any()):
        tensor.copy_(tensor.detach().clone().normal_(mean, std, generator=generator).where(outside, tensor))
        outside = (tensor < a) | (tensor > b)
    return tensor


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill with the number ``val``. Returns the tensor."""
    return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with 1. Returns the tensor."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill with 0. Returns the tensor."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Any) -> Any:
    """Fill a matrix with 1 on its diagonal and 0 elsewhere. Returns the matrix.

    Raises:
        IndexError: the tensor has fewer than two dimensions.
    """
    return tensor.copy_(eye(tensor.shape[0], tensor.shape[1], dtype=tensor.dtype, device=tensor.device))


_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for first values that keeps variances through a function that follows, as torch recommends it.

    Args:
        nonlinearity: the function: ``linear``, ``conv1d``, ``conv2d``, ``sigmoid``, ``tanh``, ``selu``, ``relu`` or
            ``leaky_relu``.
        param: for ``leaky_relu`` its negative slope, 0.01 if None.

    Raises:
        ValueError: there is no such function.
    """
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: no function {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ArgumentError(f"a tensor of two dimensions or more is needed, and this one has {tensor.ndim}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers that keep variances, by Glorot and Bengio.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers that keep variances, by Glorot and Bengio.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Uniform numbers that keep variances through rectifiers, by He et al.

    Raises:
        ValueError: the tensor has fewer than two dimensions, or there is no such function.
    """
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Normal numbers that keep variances through rectifiers, by He et al.

    Raises:
        ValueError: the tensor has fewer than two dimensions, or there is no such function.
    """
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _fans(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)
