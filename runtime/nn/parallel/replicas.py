"""A network on several devices: the same modules with copies of the parameters, through which gradients come back.

The memory of the copies stays from one use to the next, and only parameters that were written to since are sent again.
"""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from ....allocators.errors import CuplugError
from ...autograd.grad_mode import recording
from ...autograd.gradient_streams import stream_at
from ...autograd.graph import Node, attach, edge_of, plain
from ...device import device as current
from ...device_name import device as Device  # noqa: N812 - torch's class has a small name
from ...tensor.core.tensor import Tensor
from ...tensor.ops.copying import copied_to, copy_
from ...tensor.places.registry import place_of
from ..module import Module

__all__ = ["Copies", "parallel_apply", "replicate"]


class _Copy:
    """A tensor's copy on another device, and of which state of the tensor it is one."""

    __slots__ = ("made", "source", "storage", "stream", "version")

    def __init__(self, source: Tensor, made: Tensor, gone: Callable[[Any], Any]) -> None:
        self.source = weakref.ref(source, gone)
        self.made = made
        self.storage, self.version = source._storage, source._storage.version
        self.stream = stream_at(made._layout)


class Copies:
    """Copies of tensors on other devices, which are brought up to date where they are asked for."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, Any], _Copy] = {}

    def of(self, source: Tensor, device: Any) -> Tensor:
        """The copy of a tensor on a device, which is not the tensor's. It is a plain tensor."""
        key = id(source), device
        known = self._copies.get(key)
        if known is not None and not self._fits(known, source):
            known = None
        if known is None:
            made, kept = copied_to(plain(source), place_of(device)), self._copies
            known = kept[key] = _Copy(source, made, lambda _: kept.pop(key, None))
            return made
        now = stream_at(known.made._layout)
        if now is not None and known.stream is not None and now != known.stream:
            now.wait_stream(known.stream)  # what was queued there may still read the copy
            known.stream = now
        if known.storage is not source._storage or known.version != source._storage.version:
            copy_(known.made, plain(source))
            known.storage, known.version = source._storage, source._storage.version
        return known.made

    @staticmethod
    def _fits(known: _Copy, source: Tensor) -> bool:
        layout = known.made._layout
        return known.source() is source and layout.shape == source.shape and layout.dtype is source.dtype


def replicate(network: Module, devices: Sequence[Any], detach: bool = False, copies: Copies | None = None) -> list[Any]:
    """The network on each device. On its own it shares its parameters; elsewhere they are copies, and gradients of a
    copy are added to those of the parameter.

    Args:
        network: whose parameters and buffers are on the first device.
        devices: CUDA devices, their texts or ordinals.
        detach: whether no gradients come back.
        copies: copies made before, whose memory is used again.

    Raises:
        CuplugError: a parameter or buffer is on another device.
    """
    places = [_device(each) for each in devices]
    for name, each in (*network.named_parameters(), *network.named_buffers()):
        if each.device != places[0]:
            raise CuplugError(
                f"replicate: {name} is on {each.device}, and the first of the devices is {places[0]}: move the "
                f"network there with .to({str(places[0])!r})"
            )
    copies = Copies() if copies is None else copies
    return [_Replication(place, place == places[0], detach, copies).of(network) for place in places]


class _Replication:
    """One network's replica on one device. What two modules share, their replicas share."""

    def __init__(self, device: Any, at_home: bool, detach: bool, copies: Copies) -> None:
        self._device, self._at_home, self._detach, self._copies = device, at_home, detach, copies
        self._modules: dict[int, Module] = {}
        self._tensors: dict[int, Tensor] = {}

    def of(self, module: Module) -> Any:
        made = self._modules.get(id(module))
        if made is None:
            made = self._modules[id(module)] = object.__new__(type(module))
            made.__dict__ = copy.copy(module.__dict__)
            made.__dict__["_replica_of"] = module  # for traces: see plugins/tracing/training_scope.py
            made._parameters = {name: self._tensor(each) for name, each in module._parameters.items()}
            made._buffers = {name: self._tensor(each) for name, each in module._buffers.items()}
            made._modules = {name: each and self.of(each) for name, each in module._modules.items()}
        return made

    def _tensor(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        made = self._tensors.get(id(tensor))
        if made is None:
            made = self._tensors[id(tensor)] = self._made(tensor)
        return made

    def _made(self, tensor: Tensor) -> Tensor:
        wanted = tensor.requires_grad and not self._detach
        if self._at_home:
            return tensor.detach() if tensor.requires_grad and self._detach else tensor
        kept = self._copies.of(tensor, self._device).detach()
        if not (wanted and recording.enabled):
            return kept
        home = place_of(tensor.device)
        node = Node(
            "ReplicateBackward",
            [edge_of(tensor)],
            lambda _, gradient: (copied_to(gradient, home),),
            (),
            stream_at(kept._layout),
        )
        # As soon as the gradient is whole it is sent home, while the rest of the pass is still being queued.
        node.sequence = sys.maxsize - 1
        return attach(kept, node)


def _device(given: Any) -> Any:
    return place_of(Device(given)).device


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its arguments, each with its device as the current one.

    One is called after the other, from this thread: what they queue runs beside each other on the devices. A module
    that waits for its device holds up those after it. Threads, which would not, cost more than they gain, since each
    call of the driver lets go of the interpreter and has to wait for it again.

    Args:
        modules: as many as devices.
        inputs: for each the positional arguments: a tuple, or one argument.
        kwargs_tup: for each the keyword arguments.
        devices: on which each runs; by default on the current one.

    Raises:
        CuplugError: the numbers differ.
        Exception: what a module raised, with a note of its replica.
    """
    count = len(modules)
    named = list(kwargs_tup) if kwargs_tup is not None else [{}] * count
    places = [None if each is None else _device(each) for each in devices or [None] * count]
    if not count == len(inputs) == len(named) == len(places):
        raise CuplugError(
            f"parallel_apply: {count} modules, {len(inputs)} inputs, {len(named)} keyword arguments and {len(places)} "
            "devices"
        )
    results = []
    for number, (module, given, keywords, place) in enumerate(zip(modules, inputs, named, places, strict=True)):
        arguments = given if isinstance(given, (tuple, list)) else (given,)
        try:
            with nullcontext() if place is None else current(place):
                results.append(module(*arguments, **keywords))
        except BaseException as error:
            _note(error, f"It was raised in replica {number} on {place or 'the current device'}.")
            raise
    return results


def _note(error: BaseException, text: str) -> None:
    add_note = getattr(error, "add_note", None)  # from Python 3.11 on
    if add_note is not None:
        add_note(text)
