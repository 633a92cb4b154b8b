"""Batches divided among devices, and results brought together. Both are recorded: gradients go the other way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...machine.callers import warn_program
from ...tensor.core.tensor import Tensor
from ...tensor.core.tensor_errors import ArgumentError
from ...tensor.ops.devices import communication
from ...tensor.ops.shapes.views import unsqueeze


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Divide the tensors within tuples, lists and dictionaries; what is no tensor goes to each device as it is.

    Args:
        inputs: a tensor, or what contains tensors.
        target_gpus: the devices.
        dim: along which dimension tensors are divided.

    Returns:
        For each device its part. There are fewer where a tensor is too short.
    """
    if isinstance(inputs, Tensor):
        return communication.scatter(inputs, target_gpus, dim=dim)
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return [type(inputs)(*each) for each in zip(*(scatter(one, target_gpus, dim) for one in inputs), strict=False)]
    if isinstance(inputs, (tuple, list)) and inputs:
        kind = type(inputs)
        return [kind(each) for each in zip(*(scatter(one, target_gpus, dim) for one in inputs), strict=False)]
    if isinstance(inputs, dict) and inputs:
        parts = [scatter(each, target_gpus, dim) for each in inputs.values()]
        return [type(inputs)(zip(inputs, each, strict=True)) for each in zip(*parts, strict=False)]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Divide positional and keyword arguments: see ``scatter``. Both results have one entry for each device in use."""
    positional = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{}] * (count - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """Bring the results of several devices together, within tuples, lists and dictionaries too.

    Args:
        outputs: for each device its result.
        target_device: where to; -1 for the CPU.
        dim: along which dimension.

    Raises:
        ValueError: dictionaries differ in their keys.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        if all(each.ndim == 0 for each in outputs) and dim == 0:
            warn_program(
                "gather along dimension 0: all tensors are of no dimension; the result is a vector of them",
            )
            outputs = [unsqueeze(each, 0) for each in outputs]
        return communication.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(each.keys() != first.keys() for each in outputs):
            raise ArgumentError("gather: the devices' dictionaries have different keys")
        return type(first)((key, gather([each[key] for each in outputs], target_device, dim)) for key in first)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(gather(each, target_device, dim) for each in zip(*outputs, strict=True)))
    return type(first)(gather(each, target_device, dim) for each in zip(*outputs, strict=True))
