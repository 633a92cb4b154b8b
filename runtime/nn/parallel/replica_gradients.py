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
from ...autograd.graph import Node, attach, edge_of
from ...memory.copies import copy_pieces
from ...tensor.backends.device_place import DevicePlace
from ...tensor.core.dtypes import uint8
from ...tensor.core.layout import Layout
from ...tensor.core.tensor import Tensor, make_tensor
from ...tensor.ops.arithmetic.arithmetic import add
from ...tensor.ops.copying.copying import copied_to
from ...tensor.ops.devices.optimizer_updates import update
from ...tensor.ops.devices.packed_tensors import PackedOrder
from ...tensor.ops.joining.joining import cat
from ...tensor.ops.shapes.reshape import contiguous, reshape
from ...tensor.ops.shapes.views import narrow
from ...tensor.places.place import place_at
from .buckets import in_buckets

BUCKET_BYTES = 25 << 20
"""About how many bytes of gradients are sent at once: as PyTorch's DistributedDataParallel."""


class GradientBuckets:
    """How gradients of one network's copies come home, worked out once for all passes."""

    def __init__(self) -> None:
        self._known: tuple[Any, ...] | None = None
        self._buckets: list[_Bucket] = []

    def sent_home(
        self, parameters: Sequence[Tensor], copies: Sequence[Sequence[Tensor]]
    ) -> tuple[list[Tensor], list[list[Tensor]]]:
        """Tensors to compute with, whose gradients are added up and passed on to the parameters.

        Args:
            parameters: all on one device.
            copies: for each of the other devices a copy of each parameter, as a plain tensor.

        Returns:
            What to compute with on the parameters' device, and on each of the others.
        """
        known = BUCKET_BYTES, [each._layout.plain for each in parameters], [each[0]._layout.place for each in copies]
        if known != self._known:
            _, layouts, places = self._known = known
            self._buckets = [
                _Bucket(each, [layouts[one] for one in each], places) for each in in_buckets(parameters, BUCKET_BYTES)
            ]
        shown: list[list[Any]] = [[None] * len(parameters) for _ in (parameters, *copies)]
        for bucket in self._buckets:
            nodes = bucket.nodes([parameters[each] for each in bucket.positions])
            for node, results, sources in zip(nodes, shown, (parameters, *copies), strict=True):
                for number, position in enumerate(bucket.positions):
                    own = sources[position]
                    bare = make_tensor(own._storage, own._offset, own._layout.plain)
                    results[position] = attach(bare, node, number)
        return shown[0], shown[1:]


class _Bucket:
    """Some parameters of one type. It knows no nodes, which know it: no pass stays in memory in a circle."""

    def __init__(self, positions: Sequence[int], layouts: list[Layout], places: Sequence[Any]) -> None:
        self.positions = positions
        """Of the parameters among all."""
        self._layouts = layouts
        self._home = place_at(layouts[0])
        self._away = places
        self._all = range(len(layouts))
        self._order = PackedOrder([each.like() for each in layouts])
        self._orders = [PackedOrder([Layout.of(each, own.dtype, own.shape) for own in layouts]) for each in places]

    def nodes(self, parameters: Sequence[Tensor]) -> list[Node]:
        """For one pass: the node at home that adds up, then for each other device the one that sends."""
        came: list[Sequence[int]] = [()] * len(self._away)
        """Of which parameters there are gradients in what each device has sent, until they are added up."""
        edges = [edge_of(each) for each in parameters]
        stream = stream_at(self._layouts[0])
        adding = Node("AddReplicasBackward", edges, lambda _, *given: self._add(came, given), (), stream)
        adding.layouts = [*self._layouts, *self._layouts[:1] * len(came)]
        nodes = [adding, *(self._sender(adding, came, away) for away in range(len(came)))]
        for each in nodes:
            # As soon as a bucket is full it is sent, while the rest of the pass is still being queued.
            each.sequence = sys.maxsize - 1
        return nodes

    def _sender(self, adding: Node, came: list[Sequence[int]], away: int) -> Node:
        layouts = list(self._orders[away].layouts)
        edge = adding, len(layouts) + away
        node = Node(
            "SendHomeBackward",
            [edge],
            lambda _, *given: (self._send(came, away, given),),
            (),
            stream_at(layouts[0]),
        )
        node.layouts = layouts
        return node

    def _send(self, came: list[Sequence[int]], away: int, gradients: Sequence[Tensor | None]) -> Tensor:
        """The gradients of one device's copies, one behind the other, at home."""
        given = [each for each in gradients if each is not None]
        whole = len(given) == len(self._all)
        numbers = came[away] = self._all if whole else [n for n, each in enumerate(gradients) if each is not None]
        if recording.enabled:  # their own gradients may be asked for: by operations that have some
            return copied_to(cat([reshape(each, -1) for each in given]), self._home)
        here, home = place_at(self._orders[away].layouts[0]), self._home
        assert isinstance(here, DevicePlace)
        assert isinstance(home, DevicePlace)
        order = self._orders[away] if whole else _some(self._orders[away], numbers)
        memory = here.allocate(order.nbytes)
        order.fill(memory, given)
        arrived = home.allocate(order.nbytes)
        if order.nbytes:
            copy_pieces(home.runtime, home.ordinal, here.ordinal, [(arrived.address, memory.address, order.nbytes)])
        return make_tensor(arrived, 0, Layout.of(home, uint8, (order.nbytes,)))

    def _add(self, came: list[Sequence[int]], given: Sequence[Any]) -> list[Tensor | None]:
        """The sums of all devices' gradients, those at home first."""
        count = len(self._all)
        totals: list[Tensor | None] = list(given[:count])
        for numbers, sent in zip(came, given[count:], strict=True):
            if sent is None:
                continue
            rows = []
            for number, part in zip(numbers, self._parts(numbers, sent), strict=True):
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

    def _parts(self, numbers: Sequence[int], sent: Tensor) -> list[Tensor]:
        order = self._order if len(numbers) == len(self._all) else _some(self._order, numbers)
        if not recording.enabled:
            return order.shown_in(sent._storage)
        parts, start = [], 0
        for each in order.layouts:
            parts.append(reshape(narrow(sent, 0, start, each.numel), each.shape))
            start += each.numel
        return parts


def _some(order: PackedOrder, numbers: Sequence[int]) -> PackedOrder:
    return PackedOrder([order.layouts[each] for each in numbers])
