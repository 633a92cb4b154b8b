"""Samples put together to batches, and batches taken to pinned memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from ...tensor.backends.on_host.cpu_place import HOST
from ...tensor.core.tensor import Tensor
from ...tensor.core.tensor_errors import ShapeError
from ...tensor.ops.arguments.numpy_arrays import adopt_array
from ...tensor.ops.joining.joining import stack
from ...tensor.ops.making.from_values import as_tensor, tensor
from .datasets import Subset, TensorDataset, samples_of


def batch_of(dataset: Any, indices: Sequence[Any], collate: Callable[[Any], Any]) -> Any:
    """A batch of samples of a data set; those of tensors on the CPU by one copy of each tensor's rows."""
    made = _rows(dataset, indices) if collate is default_collate else None
    return collate(samples_of(dataset, indices)) if made is None else made


def _rows(dataset: Any, indices: Sequence[Any]) -> list[Tensor] | None:
    while type(dataset) is Subset:
        dataset, indices = dataset.dataset, [dataset.indices[each] for each in indices]
    if type(dataset) is not TensorDataset or any(type(each) is not int for each in indices):
        return None
    if any(each._layout.place is not HOST or each._layout.tracked for each in dataset.tensors):
        return None
    chosen = np.array(indices, np.intp)
    return [adopt_array(each._host.take(chosen, 0)) for each in dataset.tensors]


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as one: tensors, arrays and numbers become tensors with a dimension more; containers keep their form.

    Raises:
        TypeError: samples are of another type.
        RuntimeError: sequences differ in length.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(first, batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (np.ndarray, np.generic)):
        kind = first.dtype
        if kind.kind in "SUO":
            raise TypeError(f"{_ALLOWED}; found {kind}")
        return stack([as_tensor(np.asarray(each)) for each in batch])
    if isinstance(first, bool):
        return tensor(list(batch))
    if isinstance(first, float):
        return adopt_array(np.array(batch, np.float64))
    if isinstance(first, int):
        numbers = np.array(batch)
        return adopt_array(numbers) if numbers.dtype == np.int64 else tensor(list(batch))
    if isinstance(first, Mapping):
        return _of_its_kind(first, {key: default_collate([each[key] for each in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(each) for each in zip(*batch, strict=True)))
    if isinstance(first, Sequence):
        if any(len(each) != len(first) for each in batch):
            raise ShapeError("each element in list of batch should be of equal size")
        made = [default_collate(each) for each in zip(*batch, strict=True)]
        return made if isinstance(first, tuple) else _of_its_kind(first, made)
    raise TypeError(f"{_ALLOWED}; found {type(first)}")


_ALLOWED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists"


def _stacked(first: Tensor, batch: Sequence[Tensor]) -> Tensor:
    """``stack`` of samples: of those on the CPU by NumPy, which needs no plan for so many operands."""
    layout = first._layout
    if layout.place is not HOST or layout.tracked or any(each._layout is not layout for each in batch):
        return stack(list(batch))
    return adopt_array(np.stack([each._host for each in batch]))


def default_convert(data: Any) -> Any:
    """A sample whose arrays are tensors."""
    return mapped(data, lambda each: as_tensor(each) if isinstance(each, (np.ndarray, np.generic)) else each)


def mapped(data: Any, change: Callable[[Any], Any], whole: Callable[[Any], bool] | None = None) -> Any:
    """Containers of the types that they have, with what is in them changed.

    Args:
        data: what may be a container.
        change: gives another for what is none.
        whole: says of a container that it is to be changed as one, not by what is in it.
    """
    if whole is not None and whole(data):
        return change(data)
    if isinstance(data, Mapping):
        return _of_its_kind(data, {key: mapped(each, change, whole) for key, each in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(mapped(each, change, whole) for each in data))
    if isinstance(data, tuple):
        return tuple(mapped(each, change, whole) for each in data)
    if isinstance(data, list):
        return _of_its_kind(data, [mapped(each, change, whole) for each in data])
    return change(data)


def _of_its_kind(data: Any, made: Any) -> Any:
    """A mapping or list with the contents of ``made`` and the type of ``data``: as torch, a shallow copy that is filled
    anew, so that what else the container has stays; or ``made`` itself, where the type cannot be filled."""
    if type(data) in (dict, list):
        return made
    try:
        if isinstance(data, (MutableMapping, list)):
            filled = copy(data)
            for key, value in made.items() if isinstance(data, Mapping) else enumerate(made):
                filled[key] = value
            return filled
        return type(data)(made)
    except TypeError:
        return made
