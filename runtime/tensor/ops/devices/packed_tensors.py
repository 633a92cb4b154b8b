"""Tensors one behind the other in one piece of memory, so that they go to another device by one copy."""

from __future__ import annotations

from collections.abc import Sequence

from ....memory.copies import copy_pieces
from ...backends.device_place import DevicePlace
from ...core.dtypes import dtype, float32, float64
from ...core.layout import Layout
from ...core.storage import Storage
from ...core.tensor import Tensor, make_tensor
from ...places.optimizer_table import UPDATES
from ...places.place import place_at
from ..copying.copying import copy_, detach
from ..shapes.reshape import contiguous
from .optimizer_updates import update

_ALIGNMENT = 512
"""Bytes between which tensors begin: what allocators give, too."""
_WORDS = {8: float64, 4: float32}
"""As which types integers of these sizes are copied: there are kernels for these."""


class PackedOrder:
    """Where tensors of given layouts, which leave no gaps, lie in one piece of memory."""

    __slots__ = ("_given", "_words", "layouts", "nbytes", "offsets")

    def __init__(self, layouts: Sequence[Layout]) -> None:
        self.layouts = layouts
        self.offsets: list[int] = []
        """In bytes, of each tensor's first."""
        self._given: list[Layout | None] = [None] * len(layouts)
        """Of each tensor the layout from which it was last filled word by word."""
        self._words: list[Layout | None] | None = None
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

    def fill(self, memory: Storage, sources: Sequence[Tensor]) -> None:
        """Copy tensors of these types and shapes, on the memory's device, to where they lie in it: see ``copy_all``."""
        rows: dict[dtype, list[tuple[Tensor, Tensor]]] = {}
        given, vectors = self._given, self._words
        if vectors is None:
            vectors = self._words = [_words(each) for each in self.layouts]
        for position, source in enumerate(sources):
            words, layout = vectors[position], source._layout
            if layout is not given[position]:
                own = self.layouts[position]
                if words is None or layout.strides != own.strides or layout.dtype is not own.dtype:
                    start = memory.address + self.offsets[position]
                    target = make_tensor(Storage(memory.place, own.nbytes, memory.owner, start), 0, own)
                    copy_all([target], [source])
                    continue
                given[position] = layout
            if words is not None and words.numel:
                kind = words.dtype
                target = make_tensor(memory, self.offsets[position] // kind.itemsize, words)
                rows.setdefault(kind, []).append((target, make_tensor(source._storage, source._offset, words)))
        for kind, found in rows.items():
            place_at(found[0][0]._layout).update(UPDATES["copy"], kind, found, (), None)


def copy_all(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy tensors to others of the same types and shapes on the same device, in as few launches as there can be.
    Gradients are not recorded."""
    rows = []
    for target, source in zip(targets, sources, strict=True):
        to, given = target._layout, source._layout
        words = _words(to)
        if words is None:
            copy_(detach(target), detach(source))
            continue
        if given.strides != to.strides or given.dtype is not to.dtype:
            if not to.contiguous or given.dtype is not to.dtype:
                copy_(detach(target), detach(source))
                continue
            source = contiguous(detach(source))
        rows.append(tuple(make_tensor(each._storage, each._offset, words) for each in (target, source)))
    if rows:
        update("copy", rows)


def _words(layout: Layout) -> Layout | None:
    """The memory of a tensor without gaps as a vector of elements of one size; None where no kernel copies it so."""
    kind = layout.dtype if layout.dtype.kind == "f" else _WORDS.get(layout.dtype.itemsize)
    if kind is None or layout.dense_order() is None:
        return None
    return Layout.of(layout.place, kind, (layout.numel,))


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
    packed.fill(memory, tensors)
    there = PackedOrder([Layout.of(place, each.dtype, each.shape) for each in packed.layouts])
    arrived = place.allocate(there.nbytes)
    if packed.nbytes:
        copy_pieces(place.runtime, place.ordinal, here.ordinal, [(arrived.address, memory.address, packed.nbytes)])
    return there.shown_in(arrived)
