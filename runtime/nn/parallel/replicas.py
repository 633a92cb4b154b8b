"""A network on several devices: the same modules with copies of the parameters, through which gradients come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from ....allocators.errors import CuplugError
from ...autograd.grad_mode import recording
from ...autograd.graph import numbering
from ...machine.device import device as current
from ...machine.device_name import device as Device  # noqa: N812 - torch's class has a small name
from ...tensor.backends.device_place import DevicePlace
from ...tensor.core.tensor import Tensor
from ...tensor.places.registry import place_of
from ..module import Module
from .mirrors import Mirrors


def replicate(
    network: Module, devices: Sequence[Any], detach: bool = False, mirrors: Mirrors | None = None
) -> list[Any]:
    """The network on each device. On its own it shares the memory of its parameters; elsewhere they are copies.
    Gradients of all are added up in those of the parameters.

    Args:
        network: whose parameters and buffers are on the first device.
        devices: CUDA devices, their texts or ordinals.
        detach: whether no gradients come back.
        mirrors: copies made before, whose memory is used again, and to which only what was written to is sent.

    Raises:
        CuplugError: a parameter or buffer is on another device.
    """
    places = [_place(each) for each in devices]
    home = places[0]
    modules = _modules(network)
    tensors = _tensors(network, modules, home)
    others = [each for each in dict.fromkeys(places) if each is not home]
    mirrors = Mirrors() if mirrors is None else mirrors
    copies = mirrors.of(tensors, others)
    shown = {home: [each.detach() if detach and each.requires_grad else each for each in tensors], **copies}
    trained = [] if detach or not recording.enabled else [n for n, each in enumerate(tensors) if each.requires_grad]
    if trained and others:
        mine, theirs = mirrors.buckets.sent_home(
            [tensors[each] for each in trained], [[copies[place][each] for each in trained] for place in others]
        )
        for place, made in zip((home, *others), (mine, *theirs), strict=True):
            shown[place] = own = list(shown[place])
            for position, each in zip(trained, made, strict=True):
                own[position] = each
    tables = {
        place: {id(source): each for source, each in zip(tensors, own, strict=True)} for place, own in shown.items()
    }
    return [_replica(modules, tables[place]) for place in places]


def _modules(network: Module) -> list[Module]:
    """The network and all within it, each once. ``modules`` takes longer: it puts their names together."""
    found: dict[int, Module] = {}
    waiting = [network]
    while waiting:
        module = waiting.pop()
        if id(module) not in found:
            found[id(module)] = module
            waiting += [each for each in reversed(module._modules.values()) if each is not None]
    return list(found.values())


def _tensors(network: Module, modules: Sequence[Module], home: DevicePlace) -> list[Tensor]:
    """All parameters, then all buffers, each once.

    Raises:
        CuplugError: one is not on ``home``.
    """
    found: dict[int, Tensor] = {}
    for tables in ([each._parameters for each in modules], [each._buffers for each in modules]):
        for table in tables:
            for one in table.values():
                if one is not None:
                    found[id(one)] = one
    if any(each._layout.place is not home for each in found.values()):
        for name, each in (*network.named_parameters(), *network.named_buffers()):
            if each._layout.place is not home:
                raise CuplugError(
                    f"replicate: {name} is on {each.device}, and the first of the devices is {home.device}: move the "
                    f"network there with .to({str(home.device)!r})"
                )
    return list(found.values())


def _replica(modules: Sequence[Module], tensors: Mapping[int, Tensor]) -> Any:
    """A replica of the first of the modules, which has all others. What two modules share, their replicas share."""
    made = {id(each): object.__new__(type(each)) for each in modules}
    for module in modules:
        # Not by assignments: each would be looked at, whether it is a parameter or a module.
        own = made[id(module)].__dict__
        own.update(module.__dict__)
        own["_replica_of"] = module  # for traces: see plugins/tracing/training_scope.py
        for table in ("_parameters", "_buffers"):
            given = own[table]
            own[table] = {name: tensors.get(id(each)) for name, each in given.items()} if given else {}
        parts = own["_modules"]
        own["_modules"] = (
            {name: None if each is None else made[id(each)] for name, each in parts.items()} if parts else {}
        )
    return made[id(modules[0])]


def _place(given: Any) -> DevicePlace:
    place = place_of(Device(given))
    if not isinstance(place, DevicePlace):
        raise CuplugError(f"a network is replicated on CUDA devices, and {given!r} is none")
    return place


def parallel_apply(
    modules: Sequence[Any],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its arguments, each with its device as the current one.

    One is called after the other, from this thread: what they queue runs beside each other on the devices. A module
    that waits for its device holds up those after it. Threads, which would not, cost more than they gain, since each
    call of the driver lets go of the interpreter and has to wait for it again. Backward the devices take turns,
    operation by operation, so that none has to wait until everything is queued for another one.

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
    places = [None if each is None else _place(each).device for each in devices or [None] * count]
    if not count == len(inputs) == len(named) == len(places):
        raise CuplugError(
            f"parallel_apply: {count} modules, {len(inputs)} inputs, {len(named)} keyword arguments and {len(places)} "
            "devices"
        )
    results = []
    first = last = numbering.position()
    for number, (module, given, keywords, place) in enumerate(zip(modules, inputs, named, places, strict=True)):
        numbering.go_to(first)
        arguments = given if isinstance(given, (tuple, list)) else (given,)
        try:
            with nullcontext() if place is None else current(place):
                results.append(module(*arguments, **keywords))
        except BaseException as error:
            _note(error, f"It was raised in replica {number} on {place or 'the current device'}.")
            raise
        finally:
            last = max(last, numbering.position())
            numbering.go_to(last)
    return results


def _note(error: BaseException, text: str) -> None:
    add_note = getattr(error, "add_note", None)  # from Python 3.11 on
    if add_note is not None:
        add_note(text)
