"""A network's tensors on the other devices: their memory stays, and what was written to is sent again, all at once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from ...autograd.gradient_streams import stream_at
from ...memory.copies import copy_pieces
from ...tensor.backends.device_place import DevicePlace
from ...tensor.core.layout import Layout
from ...tensor.core.storage import Storage
from ...tensor.core.tensor import Tensor
from ...tensor.ops.devices.packed_tensors import PackedOrder
from .replica_gradients import GradientBuckets


class Mirrors:
    """Copies of one network's tensors on other devices, brought up to date where they are asked for."""

    def __init__(self) -> None:
        self._mirrors: dict[DevicePlace, _Mirror] = {}
        self.buckets = GradientBuckets()
        """In which the copies' gradients come back."""

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
        """Of each copy which state it shows: the memory, the offset in it, its versions, and the copy's."""
        self._parcels: dict[tuple[int, ...], _Parcel] = {}
        self._stream = stream_at(self._order.layouts[0]) if self.tensors else None

    def fits(self, sources: Sequence[Tensor]) -> bool:
        """Whether tensors have the shapes and types of those that this was made for."""
        return [each._layout.plain for each in sources] == self._layouts

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
            [
                position
                for position, (source, known, copy) in enumerate(zip(sources, self._states, self.tensors, strict=True))
                if known is None
                or known[0]() is not source._storage
                or known[1] != source._offset
                or known[2] != source._storage.version
                or known[3] != copy._storage.version
            ]
        )
        if not changed:
            return
        here = sources[0]._layout.place
        assert isinstance(here, DevicePlace)
        parcel = self._parcels.get(changed)
        if parcel is None:
            if len(self._parcels) >= _MOST_PARCELS:
                self._parcels.clear()
            parcel = self._parcels[changed] = _Parcel(changed, self._order, here)
        memory = packed.get(changed)
        if memory is None:
            memory = packed[changed] = here.allocate(parcel.order.nbytes)
            parcel.order.fill(memory, [sources[each] for each in changed])
        to, start = self._memory.address, memory.address
        pieces = [(to + there, start + offset, nbytes) for there, offset, nbytes in parcel.runs]
        copy_pieces(here.runtime, self._place.ordinal, here.ordinal, pieces)
        for position in changed:
            source, storage, known = sources[position], self.tensors[position]._storage, self._states[position]
            storage.version += 1
            own = source._storage
            reference = known[0] if known is not None and known[0]() is own else weakref.ref(own)
            self._states[position] = reference, source._offset, own.version, storage.version


_MOST_PARCELS = 8
"""Of how many sets of tensors it is kept how they are sent."""


class _Parcel:
    """How the tensors that were written to are sent together."""

    def __init__(self, changed: Sequence[int], mirror: PackedOrder, here: DevicePlace) -> None:
        layouts = [mirror.layouts[each] for each in changed]
        self.order = PackedOrder([Layout.of(here, each.dtype, each.shape, each.strides) for each in layouts])
        self.runs = list(_runs(changed, mirror, self.order))


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
