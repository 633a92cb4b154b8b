"""How gradients of a network's replicas come home: in buckets, each as soon as it is full, by one copy a device.

For each bucket of parameters there is a node for each other device, which takes the gradients of the copies there, puts
them one behind the other and sends them home; and a node at home, which adds all devices' gradients up. The parameters
that the replicas compute with, also the one at home, are results of these nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from ...autograd.grad_mode import recording
from ...autograd.gradient_streams import stream_at
from ...autograd.graph import Node, attach, edge_of, plain
from ...copies import copy_pieces
from ...tensor.backends.device_place import DevicePlace
from ...tensor.core.dtypes import uint8
from ...tensor.core.layout import Layout
from ...tensor.core.tensor import Tensor, make_tensor
from ...tensor.ops.arithmetic import add
from ...tensor.ops.copying import copied_to
from ...tensor.ops.joining import cat
from ...tensor.ops.packed_tensors import PackedOrder, copy_all
from ...tensor.ops.reshape import contiguous, reshape
from ...tensor.ops.updating import update
from ...tensor.ops.views import narrow
from ...tensor.places.place import place_at
from .buckets import in_buckets

__all__ = ["with_gradients_sent_home"]

BUCKET_BYTES = 25 << 20
"""About how many bytes of gradients are sent at once: as PyTorch's DistributedDataParallel."""


def with_gradients_sent_home(
    parameters: Sequence[Tensor], copies: Sequence[Sequence[Tensor]]
) -> tuple[list[Tensor], list[list[Tensor]]]:
    """Tensors to compute with, whose gradients are added up and passed on to the parameters.

    Args:
        parameters: all on one device.
        copies: for each of the other devices a copy of each parameter, as a plain tensor.

    Returns:
        What to compute with on the parameters' device, and on each of the others.
    """
    home: list[Any] = [None] * len(parameters)
    others: list[list[Any]] = [[None] * len(parameters) for _ in copies]
    for positions in in_buckets(parameters, BUCKET_BYTES):
        bucket = _Bucket(
            [parameters[each] for each in positions], [[own[each] for each in positions] for own in copies]
        )
        for number, position in enumerate(positions):
            home[position] = bucket.at_home(number)
            for away, results in enumerate(others):
                results[position] = bucket.elsewhere(away, number)
    return home, others


class _Bucket:
    """Some parameters of one type, with their copies on other devices, and the nodes for their gradients."""

    def __init__(self, parameters: Sequence[Tensor], copies: Sequence[Sequence[Tensor]]) -> None:
        self._parameters, self._copies = [plain(each) for each in parameters], copies
        layouts = [each._layout.plain for each in parameters]
        self._home = place_at(layouts[0])
        self._order = PackedOrder([each.like() for each in layouts])
        self._came: list[list[int]] = [[] for _ in copies]
        """Of which parameters there are gradients in what each device has sent, until they are added up."""
        self._sum = Node("AddReplicasBackward", [edge_of(each) for each in parameters], self._add, (), _stream(layouts))
        self._sum.layouts = layouts + layouts[:1] * len(copies)
        self._senders = [self._sender(away, each) for away, each in enumerate(copies)]
        for node in (self._sum, *self._senders):
            # As soon as a bucket is full it is sent, while the rest of the pass is still being queued.
            node.sequence = sys.maxsize - 1

    def _sender(self, away: int, copies: Sequence[Tensor]) -> Node:
        layouts = [each._layout for each in copies]
        edge = self._sum, len(self._parameters) + away
        node = Node("SendHomeBackward", [edge], lambda _, *given: (self._send(away, given),), (), _stream(layouts))
        node.layouts = layouts
        return node

    def at_home(self, number: int) -> Tensor:
        """A parameter, as what its own device computes with."""
        own = self._parameters[number]
        return attach(make_tensor(own._storage, own._offset, own._layout), self._sum, number)

    def elsewhere(self, away: int, number: int) -> Tensor:
        """A parameter, as what one of the other devices computes with."""
        own = self._copies[away][number]
        return attach(make_tensor(own._storage, own._offset, own._layout), self._senders[away], number)

    def _send(self, away: int, gradients: Sequence[Tensor | None]) -> Tensor:
        """The gradients of one device's copies, one behind the other, at home."""
        came = self._came[away] = [number for number, each in enumerate(gradients) if each is not None]
        given = [each for each in gradients if each is not None]
        if recording.enabled:  # their own gradients may be asked for: by operations that have some
            return copied_to(cat([reshape(each, -1) for each in given]), self._home)
        here, home = place_at(self._copies[away][0]._layout), self._home
        assert isinstance(here, DevicePlace)
        assert isinstance(home, DevicePlace)
        sent = PackedOrder([Layout.of(here, each.dtype, each.shape) for each in self._layouts(came)])
        memory = here.allocate(sent.nbytes)
        copy_all(sent.shown_in(memory), given)
        arrived = home.allocate(sent.nbytes)
        if sent.nbytes:
            copy_pieces(home.runtime, home.ordinal, here.ordinal, [(arrived.address, memory.address, sent.nbytes)])
        return make_tensor(arrived, 0, Layout.of(home, uint8, (sent.nbytes,)))

    def _layouts(self, came: Sequence[int]) -> list[Layout]:
        return [self._order.layouts[number] for number in came]

    def _add(self, _: Node, *given: Any) -> list[Tensor | None]:
        """The sums of all devices' gradients, those at home first."""
        count = len(self._parameters)
        totals: list[Tensor | None] = list(given[:count])
        for came, sent in zip(self._came, given[count:], strict=True):
            if sent is None:
                continue
            parts = self._parts(came, sent)
            rows = []
            for number, part in zip(came, parts, strict=True):
                before = totals[number]
                if before is not None and recording.enabled:
                    totals[number] = add(before, part)
                    continue
                if before is not None:
                    rows.append((part, contiguous(before)))
                totals[number] = part
            if rows:
                update("add", rows)
        return totals

    def _parts(self, came: Sequence[int], sent: Tensor) -> list[Tensor]:
        layouts = self._layouts(came)
        if not recording.enabled:
            return PackedOrder(layouts).shown_in(sent._storage)
        parts, start = [], 0
        for each in layouts:
            parts.append(reshape(narrow(sent, 0, start, each.numel), each.shape))
            start += each.numel
        return parts


def _stream(layouts: Sequence[Layout]) -> Any:
    return stream_at(layouts[0])
