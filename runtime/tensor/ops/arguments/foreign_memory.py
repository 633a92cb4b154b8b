"""Memory of other libraries as tensors, which keep its owner."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...core.storage import ArrayStorage, Storage
from ...core.tensor import Tensor, make_tensor
from ...places.place import Place


def device_memory(place: Place, address: int, kind: dtype, shape: Shape, strides: Shape | None, owner: Any) -> Tensor:
    """A tensor in a device's memory that ``owner`` keeps. The address is that of element [0, ..., 0]; strides count
    elements, and None means contiguous.
    """
    layout = Layout.of(place, kind, shape, strides)
    low, high = layout.span()
    storage = Storage(place, (high - low) * kind.itemsize, owner, address + low * kind.itemsize)
    return make_tensor(storage, -low, layout)


def host_memory(address: int, kind: dtype, shape: Shape, strides: Shape | None, owner: Any) -> Tensor:
    """A tensor in host memory that ``owner`` keeps. The arguments are those of ``device_memory``."""
    layout = Layout.of(HOST, kind, shape, strides)
    low, high = layout.span()
    nbytes = (high - low) * kind.itemsize
    memory = np.asarray(_HostMemory(address + low * kind.itemsize, nbytes, owner)) if nbytes else np.empty(0, np.uint8)
    return make_tensor(ArrayStorage(HOST, nbytes, memory), -low, layout)


class _HostMemory:
    """Presents host memory to NumPy by the array interface."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}
