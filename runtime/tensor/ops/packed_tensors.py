"""Tensors one behind the other in one piece of memory, so that they go to another device by one copy."""

from __future__ import annotations

from collections.abc import Sequence

from ...copies import copy_pieces
from ..backends.device_place import DevicePlace
from ..core.dtypes import dtype, float32, float64
from ..core.layout import Layout
from ..core.storage import Storage
from ..core.tensor import Tensor, make_tensor
from ..places.place import place_at
from .copying import copy_, detach
from .reshape import contiguous
from .updating import update

__all__ = ["PackedOrder", "copy_all", "sent_together"]

_ALIGNMENT = 512
"""Bytes between which tensors begin: what allocators give, too."""
_WORDS = {8: float64, 4: float32}
"""As which types integers of these sizes are copied: there are kernels for these."""


class PackedOrder:
    """Where tensors of given layouts, which leave no gaps, lie in one piece of memory."""

    __slots__ = ("layouts", "nbytes", "offsets")

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = layouts
        self.offsets: list[int] = []
        """In bytes, of each tensor's first."""
        end = 0
        for each in layouts:
            self.offsets.append(end)
            end += -(-each.nbytes // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = end
        """Of all, with what lies between them."""

    def shown_in(self, memory: Storage) -> list[Tensor]:
        """The tensors in a piece of memory. Each has a count of versions of its own; all keep the piece."""
        place, start, owner = memory.place, memory.address, memory.owner
        return [
            make_tensor(Storage(place, layout.nbytes, owner, start + offset), 0, layout)
            for layout, offset in zip(self.layouts, self.offsets, strict=True)
        ]


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to others of the same types and shapes on the same device, in as few launches as there can be.
    Gradients are not recorded."""
    rows = []
    for target, source in zip(targets, sources, strict=True):
        to = target._layout
        kind = to.dtype if to.dtype.kind == "f" else _WORDS.get(to.dtype.itemsize)
        if kind is None or to.dense_order() is None:
            copy_(detach(target), detach(source))
            continue
        given = source._layout
        if given.strides != to.strides or given.dtype is not to.dtype:
            if not to.contiguous or given.dtype is not to.dtype:
                copy_(detach(target), detach(source))
                continue
            source = contiguous(detach(source))
        rows.append((_as_words(target, kind), _as_words(source, kind)))
    if rows:
        update("copy", rows)


def _as_words(tensor: Tensor, kind: dtype) -> Tensor:
    """The memory of a tensor without gaps as a vector of elements of the same size."""
    layout = tensor._layout
    return make_tensor(tensor._storage, tensor._offset, Layout.of(layout.place, kind, (layout.numel,)))


def sent_together(tensors: Sequence[Tensor], place: DevicePlace, buffer_size: int) -> list[Tensor]:
    """Copies of tensors of one device on another, which do not wait.

    Args:
        tensors: what is sent.
        place: where to.
        buffer_size: about how many bytes are sent by one copy, with the memory of which the results share.
    """
    made: list[Tensor] = []
    part: list[Tensor] = []
    size = 0
    for each in tensors:
        if part and size + each._layout.nbytes > buffer_size:
            made += _sent(part, place)
            part, size = [], 0
        part.append(each)
        size += each._layout.nbytes
    return made + _sent(part, place) if part else made


def _sent(tensors: Sequence[Tensor], place: DevicePlace) -> list[Tensor]:
    here = place_at(tensors[0]._layout)
    assert isinstance(here, DevicePlace)
    packed = PackedOrder([each._layout.plain.like() for each in tensors])
    memory = here.allocate(packed.nbytes)
    copy_all(packed.shown_in(memory), tensors)
    there = PackedOrder([Layout.of(place, each.dtype, each.shape) for each in packed.layouts])
    arrived = place.allocate(there.nbytes)
    if packed.nbytes:
        copy_pieces(place.runtime, place.ordinal, here.ordinal, [(arrived.address, memory.address, packed.nbytes)])
    return there.shown_in(arrived)
