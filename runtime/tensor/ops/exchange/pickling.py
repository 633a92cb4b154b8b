"""Copies by the modules ``copy`` and ``pickle``, which keep strides, and memory that tensors share, shared."""

from __future__ import annotations

import copyreg
from copy import deepcopy
from typing import Any

import numpy.typing as npt

from ...core.dtypes import dtype, uint8
from ...core.layout import Layout
from ...core.shapes import Shape
from ...core.storage import ArrayStorage, Storage
from ...core.tensor import Tensor, make_tensor
from ...places.place import place_at
from ...places.registry import place_of
from ..arguments.numpy_arrays import adopt_array
from ..copying.copying import clone, copied_to


def shallow_copy(input: Tensor) -> Tensor:
    """A tensor in the same memory: what ``copy.copy`` makes."""
    return make_tensor(input._storage, input._offset, input._layout.plain).requires_grad_(input.requires_grad)


def deep_copy(input: Tensor, memo: dict[int, Any]) -> Tensor:
    """A tensor in a copy of the whole storage: what ``copy.deepcopy`` makes. Tensors that share one share the copy.
    Its gradient is copied, too."""
    copied = memo.get(id(input._storage))
    if copied is None:
        copied = memo[id(input._storage)] = clone(_as_bytes(input._storage))._storage
    made = make_tensor(copied, input._offset, input._layout)
    gradient = input.grad if input.is_leaf else None
    if gradient is not None:
        made.grad = deepcopy(gradient, memo)
    return made


def reduce_tensor(input: Tensor, _: Any) -> tuple[Any, ...]:
    """What ``pickle`` keeps of a tensor: its storage, where it lies there, and its layout."""
    layout = input._layout
    return _tensor, (input._storage, input._offset, layout.dtype, tuple(layout.shape), tuple(layout.strides))


def _tensor(storage: Storage, offset: int, kind: dtype, shape: Shape, strides: Shape) -> Tensor:
    return make_tensor(storage, offset, Layout.of(storage.place, kind, shape, strides))


def _storage(device: str, contents: npt.NDArray[Any]) -> Storage:
    return copied_to(adopt_array(contents), place_of(device))._storage


def _reduce_storage(storage: Storage) -> tuple[Any, ...]:
    contents = _as_bytes(storage)
    return _storage, (str(storage.place.device), place_at(contents._layout).read(contents))


def _as_bytes(storage: Storage) -> Tensor:
    return make_tensor(storage, 0, Layout.of(storage.place, uint8, (storage.length,)))


copyreg.pickle(Storage, _reduce_storage)
copyreg.pickle(ArrayStorage, _reduce_storage)
