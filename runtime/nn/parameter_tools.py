"""``cuplug.nn.utils``: gradients kept within limits, weights kept to a norm, and parameters as one vector.

Programs also import from here what torch has in ``torch.nn.modules.utils``: a module of that name below ``nn.modules``,
which is ``nn``, would take the place of this one there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from ..autograd import no_grad
from ..tensor.core.dtypes import float32, promote_types
from ..tensor.core.needed_tensors import layout_of, needed
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import NoElementsError
from ..tensor.ops.arithmetic.arithmetic import clamp
from ..tensor.ops.devices.optimizer_updates import sum_of_squares, update
from ..tensor.ops.elementwise.elementwise_functions import sqrt
from ..tensor.ops.joining.joining import cat, stack
from ..tensor.ops.making.from_values import tensor
from ..tensor.ops.reductions.reductions import sum as sum_of
from . import sequences as rnn
from .repeated_sizes import (  # noqa: F401 - torch.nn.modules.utils, which is this module, too
    _list_with_default,
    _ntuple,
    _pair,
    _quadruple,
    _reverse_repeat_tuple,
    _single,
    _triple,
    consume_prefix_in_state_dict_if_present,
)
from .weight_norms import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
]


def _several(parameters: Any) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else [needed(each) for each in parameters]


@no_grad()
def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """Scale all gradients so that the norm of all together is ``max_norm`` at most. It does not wait for a device.

    Args:
        parameters: a tensor, or several.
        max_norm: the limit.
        norm_type: which norm.
        error_if_nonfinite: whether a norm that is no number raises; that waits.
        foreach: as torch's; makes no difference.

    Returns:
        The norm before.

    Raises:
        ValueError: the norm is no number, and that is to raise.
    """
    del foreach
    gradients = [each.grad for each in _several(parameters) if each.grad is not None]
    gradients = [each for each in gradients if each.numel()]
    if not gradients:
        return tensor(0.0)
    first = gradients[0].device
    if float(norm_type) == 2.0:
        found = sum_of_squares([(each.detach(),) for each in gradients])
        total = sqrt(found[0].to(first) if len(found) == 1 else sum_of(stack([each.to(first) for each in found])))
        total = total.to(reduce(promote_types, {each.dtype for each in gradients}))
    else:
        total = stack([each.norm(norm_type).to(first) for each in gradients]).norm(norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise NoElementsError(f"clip_grad_norm_: the norm of the gradients is {float(total)}")
    factor = clamp(max_norm / (total + 1e-6), max=1.0)
    places: dict[Any, list[Any]] = {}
    for each in gradients:
        places.setdefault(each.device, []).append((each.detach(),))
    for device, rows in places.items():
        update("multiply", rows, shared=factor.to(device, float32))
    return total


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: Any = None) -> None:
    """Keep each element of all gradients within ``-clip_value`` and ``clip_value``."""
    del foreach
    for each in _several(parameters):
        if each.grad is not None:
            each.grad.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of all parameters, one parameter after the other, as a new tensor of one dimension.

    Raises:
        ShapeError: there are no parameters.
        DeviceMismatchError: they are on different devices.
    """
    return cat([needed(each).reshape(-1) for each in parameters])


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of ``vec``, as ``parameters_to_vector`` makes it, back to the parameters.

    Raises:
        ValueError: the vector is too short.
    """
    start = 0
    for each in parameters:
        count = layout_of(each).numel
        each.copy_(needed(vec)[start : start + count].view(each.shape))
        start += count
