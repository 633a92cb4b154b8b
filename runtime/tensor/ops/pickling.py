"""Copies by the modules ``copy`` and ``pickle``, which keep strides, and memory that tensors share, shared."""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..core.dtypes import dtype, uint8
from ..core.layout import Layout, Shape
from ..core.storage import Storage
from ..core.tensor import TensorCore, make

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["PickleMethods"]


class PickleMethods(TensorCore):
    """What ``copy.copy``, ``copy.deepcopy`` and ``pickle`` call."""

    __slots__ = ()

    def __copy__(self) -> Tensor:
        return make(self._storage, self._offset, self._layout)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copied = memo.get(id(self._storage))
        if copied is None:
            copied = memo[id(self._storage)] = _bytes(self._storage).clone()._storage
        return make(copied, self._offset, self._layout)

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        layout = self._layout
        return _tensor, (self._storage, self._offset, layout.dtype, tuple(layout.shape), tuple(layout.strides))


def _tensor(storage: Storage, offset: int, kind: dtype, shape: Shape, strides: Shape) -> Tensor:
    return make(storage, offset, Layout.of(storage.place, kind, shape, strides))


def _storage(device: str, contents: npt.NDArray[Any]) -> Storage:
    from ..places.registry import place_of
    from .copying import copied_to
    from .creation import wrap

    return copied_to(wrap(contents), place_of(device))._storage


def _reduced(storage: Storage) -> tuple[Any, ...]:
    return _storage, (str(storage.place.device), storage.place.read(_bytes(storage)))


def _bytes(storage: Storage) -> Tensor:
    return make(storage, 0, Layout.of(storage.place, uint8, (storage.nbytes,)))


copyreg.pickle(Storage, _reduced)
