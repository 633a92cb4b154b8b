"""First values of parameters: ``cuplug.nn.init``. All write in place, without recording, and return the tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..autograd import no_grad
from ..machine.callers import warn_program
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.arguments.numpy_arrays import from_numpy
from ..tensor.ops.making.creation import empty
from ..tensor.ops.making.patterns import eye
from ..tensor.ops.random.random_numbers import randperm

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
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
    return needed(tensor).uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with random numbers of the normal distribution. Returns the tensor.

    Raises:
        ValueError: ``std`` is negative.
        TypeError: the elements are not floating-point.
    """
    return needed(tensor).normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Any:
    """Fill with random numbers of the normal distribution between ``a`` and ``b``: what falls outside is drawn again
    until nothing does. Returns the tensor, and waits for the device. Raises as ``normal_``."""
    needed(tensor).normal_(mean, std, generator=generator)
    outside = (tensor < a) | (tensor > b)
    while bool(outside.any()):
        tensor.copy_(tensor.detach().clone().normal_(mean, std, generator=generator).where(outside, tensor))
        outside = (tensor < a) | (tensor > b)
    return tensor


@no_grad()
def constant_(tensor: Any, val: float) -> Any:
    """Fill with the number ``val``. Returns the tensor."""
    return needed(tensor).fill_(val)


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
        ValueError: the tensor has not two dimensions.
    """
    if needed(tensor).ndim != 2:
        raise ArgumentError(f"eye_: a tensor has two dimensions, and this one {tensor.ndim}")
    return tensor.copy_(eye(tensor.shape[0], tensor.shape[1], dtype=tensor.dtype, device=tensor.device))


_LINEAR = "linear", *(f"{kind}{each}d" for kind in ("conv", "conv_transpose") for each in (1, 2, 3))
_GAINS = {**dict.fromkeys((*_LINEAR, "sigmoid"), 1.0), "tanh": 5 / 3, "selu": 3 / 4}


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Fill with a matrix whose rows, or columns where there are fewer, are at right angles and ``gain`` long (Saxe et
    al., 2013). Dimensions after the first count as one. Decomposed on the CPU.

    Raises:
        ValueError: there are fewer than two dimensions.
    """
    if needed(tensor).ndim < 2:
        raise ArgumentError(f"orthogonal_: a tensor has two dimensions at least, and this one {tensor.ndim}")
    if not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    kind = tensor.dtype if tensor.dtype.computed is tensor.dtype else None
    drawn: Any = empty(rows, columns, dtype=kind, device="cpu")
    values = drawn.normal_(0, 1, generator=generator).numpy()
    factor, triangle = np.linalg.qr(values.T if rows < columns else values)
    factor = factor * np.where(np.diag(triangle) < 0, -1, 1).astype(values.dtype)  # which makes it unique
    with no_grad():
        made = from_numpy(np.ascontiguousarray(factor.T if rows < columns else factor))
        return tensor.copy_(made.view(tensor.shape)).mul_(gain)


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill the filters of a convolution so that it hands on as many channels as it can, in each group.

    Raises:
        ValueError: it has not 3, 4 or 5 dimensions, or the filters cannot be divided into groups.
    """
    if needed(tensor).ndim not in (3, 4, 5):
        raise ArgumentError(f"dirac_: filters have 3, 4 or 5 dimensions, and these {tensor.ndim}")
    if tensor.shape[0] % groups:
        raise ArgumentError(f"dirac_: {tensor.shape[0]} filters cannot be divided into {groups} groups")
    each = tensor.shape[0] // groups
    middle = tuple(length // 2 for length in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(each, tensor.shape[1])):
                place = (group * each + channel, channel, *middle)
                tensor[place] = 1
    return tensor


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill a matrix with normal numbers, of which a part of each column is 0 (Martens, 2010).

    Raises:
        ValueError: it has not two dimensions.
    """
    if needed(tensor).ndim != 2:
        raise ArgumentError(f"sparse_: a tensor has two dimensions, and this one {tensor.ndim}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, device="cpu")[:zeros].to(tensor.device), column] = 0
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for first values that keeps variances through a function that follows, as torch recommends it.

    Args:
        nonlinearity: the function: ``linear``, ``conv1d`` and its kin, ``sigmoid``, ``tanh``, ``selu``, ``relu`` or
            ``leaky_relu``.
        param: for ``leaky_relu`` its negative slope, 0.01 if None.

    Raises:
        ValueError: there is no such function, or the slope is no number.
    """
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ArgumentError(f"calculate_gain: a negative slope is a number, not {param!r}")
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ArgumentError(f"calculate_gain: no function {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many numbers a result is made of, and goes into. Layers of programs call it by this name, which is torch's.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    if needed(tensor).ndim < 2:
        raise ArgumentError(f"a tensor of two dimensions or more is needed, and this one has {tensor.ndim}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers that keep variances, by Glorot and Bengio.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers that keep variances, by Glorot and Bengio.

    Raises:
        ValueError: the tensor has fewer than two dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Uniform numbers that keep variances through rectifiers, by He et al.

    Raises:
        ValueError: the tensor has fewer than two dimensions, or there is no such function.
    """
    if 0 in layout_of(tensor).shape:
        return _left_empty(tensor)
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Any:
    """Normal numbers that keep variances through rectifiers, by He et al.

    Raises:
        ValueError: the tensor has fewer than two dimensions, or there is no such function.
    """
    if 0 in layout_of(tensor).shape:
        return _left_empty(tensor)
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


def _left_empty(tensor: Tensor) -> Tensor:
    warn_program("Initializing zero-element tensors is a no-op")
    return tensor


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_fan_in_and_fan_out(tensor)[0 if mode == "fan_in" else 1]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _older(name: str) -> Callable[..., Any]:
    """The function under its name of before PyTorch 0.4, which warns."""
    meant = globals()[f"{name}_"]

    @wraps(meant)
    def older(*args: Any, **kwargs: Any) -> Any:
        text = f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
        warn_program(text, FutureWarning)
        return meant(*args, **kwargs)

    return older


kaiming_normal, kaiming_uniform = _older("kaiming_normal"), _older("kaiming_uniform")
xavier_normal, xavier_uniform = _older("xavier_normal"), _older("xavier_uniform")
constant, normal, orthogonal, uniform = (_older(name) for name in ("constant", "normal", "orthogonal", "uniform"))
