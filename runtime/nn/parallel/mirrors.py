"""A network's tensors on the other devices: their memory stays, and what was written to is sent again, all at once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ...autograd.gradient_streams import stream_at
from ...copies import copy_pieces
from ...tensor.backends.device_place import DevicePlace
from ...tensor.core.layout import Layout
from ...tensor.core.storage import Storage
from ...tensor.core.tensor import Tensor
from ...tensor.ops.packed_tensors import PackedOrder, copy_all

__all__ = ["Mirrors"]


class Mirrors:
    """Copies of one network's tensors on other devices, brought up to date where they are asked for."""

    def __init__(self) -> None:
        self._mirrors: dict[DevicePlace, _Mirror] = {}

    def of(self, sources: Sequence[Tensor], places: Sequence[DevicePlace]) -> dict[DevicePlace, list[Tensor]]:
        """For each place the copies of tensors that are on one other device, as plain tensors."""
        packed: dict[tuple[int, ...], Storage] = {}
        """What was put together to be sent, by the positions of the tensors: the same for most places."""
        found = {}
        for place in places:
            mirror = self._mirrors.get(place)
            if mirror is None or not mirror.fits(sources):
                self._mirrors.pop(place, None)  # its memory goes before there is another one
                del mirror
                mirror = self._mirrors[place] = _Mirror(sources, place)
            mirror.bring_up_to_date(sources, packed)
            found[place] = mirror.tensors
        return found


class _Mirror:
    """Copies on one device, and of which states of the tensors they are some."""

    def __init__(self, sources: Sequence[Tensor], place: DevicePlace) -> None:
        self._place = place
        self._layouts = [each._layout.plain for each in sources]
        strides = [each.kept_strides() for each in self._layouts]
        self._order = PackedOrder(
            [Layout.of(place, each.dtype, each.shape, kept) for each, kept in zip(self._layouts, strides, strict=True)]
        )
        self._memory = place.allocate(self._order.nbytes)
        self.tensors = self._order.shown_in(self._memory)
        self._states: list[Any] = [None] * len(self.tensors)
        self._stream = stream_at(self._order.layouts[0]) if self.tensors else None

    def fits(self, sources: Sequence[Tensor]) -> bool:
        """Whether tensors have the shapes and types of those that this was made for."""
        return len(sources) == len(self._layouts) and all(
            each._layout.plain is known for each, known in zip(sources, self._layouts, strict=True)
        )

    def bring_up_to_date(self, sources: Sequence[Tensor], packed: dict[tuple[int, ...], Storage]) -> None:
        """Send what was written to since, here or there."""
        if self._stream is None:
            return
        now = stream_at(self._order.layouts[0])
        if now is not None and now != self._stream:
            now.wait_stream(self._stream)  # what was queued there may still read the copies
            self._memory.owner.record_stream(now)
            self._stream = now
        changed = tuple(
            position
            for position, (source, known) in enumerate(zip(sources, self._states, strict=True))
            if known is None
            or known[0]() is not source._storage
            or known[1:] != (source._offset, source._storage.version, self.tensors[position]._storage.version)
        )
        if not changed:
            return
        here = sources[0]._layout.place
        assert isinstance(here, DevicePlace)
        order = PackedOrder([Layout.of(here, *_form(self._order.layouts[each])) for each in changed])
        memory = packed.get(changed)
        if memory is None:
            memory = packed[changed] = here.allocate(order.nbytes)
            copy_all(order.shown_in(memory), [sources[each] for each in changed])
        pieces = [
            (self._memory.address + to, memory.address + start, nbytes)
            for to, start, nbytes in _runs(changed, self._order, order)
        ]
        copy_pieces(here.runtime, self._place.ordinal, here.ordinal, pieces)
        for position in changed:
            source, storage = sources[position], self.tensors[position]._storage
            storage.version += 1
            known = weakref.ref(source._storage), source._offset, source._storage.version, storage.version
            self._states[position] = known


def _form(layout: Layout) -> tuple[Any, ...]:
    return layout.dtype, layout.shape, layout.strides


def _runs(changed: Sequence[int], mirror: PackedOrder, packed: PackedOrder) -> Iterator[tuple[int, int, int]]:
    """The fewest copies: tensors that are neighbours in the mirror are so in what is sent, too. Of each the offset
    there, the offset in what is sent, and the bytes."""
    first = 0
    for last, position in enumerate(changed):
        if last + 1 == len(changed) or changed[last + 1] != position + 1:
            start = packed.offsets[first]
            nbytes = packed.offsets[last] + packed.layouts[last].nbytes - start
            if nbytes:
                yield mirror.offsets[changed[first]], start, nbytes
            first = last + 1
