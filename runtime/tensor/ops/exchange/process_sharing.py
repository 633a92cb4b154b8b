"""Tensors of the CPU in memory that several processes see: an anonymous file, mapped by each."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable

import numpy as np

from ...core.storage import ArrayStorage
from ...core.tensor import Tensor
from ...places.registry import place_of


class _SharedMap(mmap.mmap):
    """Shared memory, which knows its file."""

    descriptor: int

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at the end the module's names are gone
        close(self.descriptor)


class SharedStorage(ArrayStorage):
    """Memory of the CPU that other processes see."""

    __slots__ = ("mapped",)

    mapped: _SharedMap


def map_shared(descriptor: int, nbytes: int) -> SharedStorage:
    """The memory of such a file, whose descriptor is closed with it.

    Args:
        descriptor: of the file.
        nbytes: its size in bytes.
    """
    mapped = _SharedMap(descriptor, max(nbytes, 1))
    mapped.descriptor = descriptor
    array = np.frombuffer(mapped, np.uint8, nbytes)
    made = SharedStorage(place_of("cpu"), nbytes, array)
    made.mapped = mapped
    return made


def is_shared(input: Tensor) -> bool:
    """Whether a tensor lies in memory that other processes can see; of a device's always."""
    return isinstance(input._storage, SharedStorage) or input.device.type != "cpu"


def share_memory_(input: Tensor) -> Tensor:
    """Move a tensor of the CPU to memory that other processes can see. Returns the tensor. Views of it that were made
    before stay where they are; tensors of devices are left alone.

    Raises:
        OSError: there is no memory.
    """
    if is_shared(input):
        return input
    source = input._storage
    descriptor = os.memfd_create("cuplug")
    os.ftruncate(descriptor, max(source.length, 1))
    made = map_shared(descriptor, source.length)
    made.bytes[:] = source.bytes
    input._storage, input._array = made, None
    return input
