"""``DistributedDataParallel``: one network in several processes, each with batches of its own and equal weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ....allocators.errors import CuplugError
from ... import distributed
from ...autograd.grad_mode import recording
from ...autograd.graph import state_of
from ...tensor.core.dtypes import int64
from ...tensor.core.layout import Layout
from ...tensor.core.tensor import Tensor
from ...tensor.ops.devices.packed_tensors import copy_all
from ...tensor.ops.making.creation import empty, zeros
from ...tensor.ops.making.from_values import tensor
from ...tensor.ops.shapes.reshape import reshape
from ...tensor.ops.shapes.views import narrow
from ..module import Module
from .buckets import in_buckets
from .scattered_batches import scatter_kwargs


class DistributedDataParallel(Module):
    """A module whose gradients are those of all processes, averaged, after each backward pass.

    Gradients are put into buckets; a bucket is averaged among the processes as soon as it is full, while the backward
    pass goes on. At the beginning all processes take the parameters and buffers of rank 0, and before each forward pass
    its buffers. Every process has to make the same passes.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        """Wrap a module.

        Args:
            module: whose parameters are on this process's device, of the same shapes in all processes.
            device_ids: this process's device, to which tensors among the arguments are moved; None moves none.
            output_device: as torch's.
            dim: as torch's.
            broadcast_buffers: whether to take rank 0's buffers before each forward pass.
            process_group: as torch's: there is one group.
            bucket_cap_mb: the MiB of a bucket, 25 by default.
            find_unused_parameters: whether to look in each pass for parameters that the results do not depend on. Else
                it is an error if there are some.
            check_reduction: as torch's.
            gradient_as_bucket_view: as torch's; gradients have memory of their own.
            static_graph: as torch's; nothing is remembered from one pass to the next.

        Raises:
            CuplugError: this process is in no group, nothing is to be trained, parameters are on several devices, or
                differ from those of another process.
        """
        super().__init__()
        del output_device, process_group, check_reduction, gradient_as_bucket_view, static_graph
        if not distributed.is_initialized():
            raise CuplugError("DistributedDataParallel: this process is in no group: call init_process_group() first")
        if device_ids is not None and len(device_ids) > 1:
            raise CuplugError(f"DistributedDataParallel: a process has one device, and device_ids are {device_ids}")
        self.module = module
        self.device_ids = None if device_ids is None else list(device_ids)
        self.dim, self.broadcast_buffers = dim, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        named = [(name, each) for name, each in module.named_parameters() if each.requires_grad]
        if not named:
            raise CuplugError("DistributedDataParallel: the network has no parameter that requires gradients")
        devices = sorted({str(each.device) for _, each in named})
        if len(devices) > 1:
            raise CuplugError(f"DistributedDataParallel: parameters are on {' and '.join(devices)}; move them to one")
        _compare(module)
        _Shared().take([*module.parameters(), *module.buffers()])
        self._shared = _Shared()
        nbytes = int((25 if bucket_cap_mb is None else bucket_cap_mb) * 2**20)
        self._reducer = _Reducer(named, nbytes, find_unused_parameters)
        for _, each in named:
            each.register_post_accumulate_grad_hook(self._ready)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's results for this process's part.

        Raises:
            CuplugError: in the pass before, parameters had no gradient; or another process is gone.
        """
        training = recording.enabled and self.require_backward_grad_sync
        if training:
            self._reducer.check_finished()
        if self.broadcast_buffers and training:
            self._shared.take(list(self.module.buffers()))
        if self.device_ids:
            parts, named = scatter_kwargs(inputs, kwargs, self.device_ids, self.dim)
            inputs, kwargs = (parts or ((),))[0], (named or ({},))[0]
        result = self.module(*inputs, **kwargs)
        if training:
            self._reducer.expect(result)
        return result

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients are added up in this process only, until a pass outside of it."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _ready(self, parameter: Tensor) -> None:
        if self.require_backward_grad_sync:
            self._reducer.ready(parameter)


class _Shared:
    """Gives all processes rank 0's elements of tensors. What it packs them in is kept for the next time."""

    def __init__(self) -> None:
        self._packed: list[tuple[list[Layout], Tensor, list[Tensor]]] = []

    def take(self, tensors: Sequence[Tensor]) -> None:
        """Take rank 0's elements, those of one type at once."""
        groups: dict[Any, list[Tensor]] = {}
        for each in tensors:
            layout = each._layout
            groups.setdefault((layout.dtype, layout.place), []).append(each.detach())
        layouts = [[each._layout for each in group] for group in groups.values()]
        if layouts != [known for known, _, _ in self._packed]:
            self._packed = [(known, *_flat(group)) for known, group in zip(layouts, groups.values(), strict=True)]
        for group, (_, flat, parts) in zip(groups.values(), self._packed, strict=True):
            copy_all(parts, group)
            distributed.broadcast(flat, 0)
            copy_all(group, parts)


class _Bucket:
    """Some parameters, the memory in which their gradients are averaged, and how far they have come."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.flat, self.parts = _flat(parameters)
        self.missing = len(parameters)
        self.work: Any = None


class _Reducer:
    """Averages gradients among the processes, bucket by bucket."""

    def __init__(self, named: Sequence[tuple[str, Tensor]], nbytes: int, find_unused: bool) -> None:
        self._names = {id(each): name for name, each in named}
        self._find_unused = find_unused
        parameters = [each for _, each in named]
        self._buckets = [_Bucket([parameters[n] for n in group]) for group in in_buckets(parameters, nbytes)]
        self._bucket_of = {id(each): bucket for bucket in self._buckets for each in bucket.parameters}
        self._waiting: set[int] = set()
        """Parameters whose gradients are still to come; empty outside of a pass."""
        self._unused: set[int] = set()
        self._expecting = False
        self._started = 0
        """How many buckets, from the first, are being averaged: the order is the same in all processes."""

    def expect(self, result: Any) -> None:
        """A pass has begun, with this result of the network."""
        self._waiting = set(self._names)
        self._unused, self._started, self._expecting = set(), 0, True
        for bucket in self._buckets:
            bucket.missing, bucket.work = len(bucket.parameters), None
        if self._find_unused:
            self._unused = self._waiting - _leading_to(result)

    def ready(self, parameter: Tensor) -> None:
        """A parameter's gradient is complete."""
        if not self._expecting:
            return  # a pass through something else than the last forward
        if id(parameter) not in self._waiting:
            raise CuplugError(
                f"DistributedDataParallel: {self._names[id(parameter)]} got a gradient twice after one forward pass: "
                "call backward once for each forward, or add the losses up first"
            )
        if self._unused:  # now it is known that this forward's backward has begun
            unused, self._unused = self._unused, set()
            for each in unused:
                self._count(each)
        self._count(id(parameter))

    def _count(self, parameter: int) -> None:
        self._waiting.discard(parameter)
        self._bucket_of[parameter].missing -= 1
        while self._started < len(self._buckets) and not self._buckets[self._started].missing:
            self._begin(self._buckets[self._started])
            self._started += 1
        if self._started == len(self._buckets):
            self._finish()

    @staticmethod
    def _begin(bucket: _Bucket) -> None:
        given, parts = [], []
        for each, part in zip(bucket.parameters, bucket.parts, strict=True):
            gradient = each.grad
            if gradient is None:
                part.zero_()
            else:
                given.append(gradient)
                parts.append(part)
        copy_all(parts, given)
        bucket.work = distributed.all_reduce(bucket.flat, distributed.ReduceOp.AVG, async_op=True)

    def _finish(self) -> None:
        used = self._used_anywhere() if self._find_unused else None
        for bucket in self._buckets:
            bucket.work.wait()
            targets, parts = [], []
            for each, part in zip(bucket.parameters, bucket.parts, strict=True):
                gradient = each.grad
                if gradient is None:
                    if used is not None and id(each) not in used:
                        continue
                    gradient = state_of(each).grad = empty(tuple(each.shape), dtype=each.dtype, device=each.device)
                targets.append(gradient)
                parts.append(part)
            copy_all(targets, parts)
        self._expecting = False

    def _used_anywhere(self) -> set[int]:
        """The parameters that have a gradient in some process."""
        parameters = [each for bucket in self._buckets for each in bucket.parameters]
        flags = tensor([int(each.grad is not None) for each in parameters], dtype=int64, device=parameters[0].device)
        distributed.all_reduce(flags, distributed.ReduceOp.MAX)
        return {id(each) for each, flag in zip(parameters, flags.tolist(), strict=True) if flag}

    def check_finished(self) -> None:
        """Raise CuplugError if the pass before has left gradients that were not averaged."""
        if self._expecting and self._waiting and len(self._waiting) < len(self._names):
            self._expecting = False
            names = sorted(self._names[each] for each in self._waiting)
            listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            raise CuplugError(
                f"DistributedDataParallel: the pass before ended without gradients of {listed}: the loss does not "
                "depend on them, so the processes could not finish their average. Say find_unused_parameters=True, or "
                "let every parameter take part"
            )


def _flat(tensors: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """New memory for tensors of one type, one behind the other; as a vector, and the tensors in it."""
    first = tensors[0]
    flat = zeros(sum(each.numel() for each in tensors), dtype=first.dtype, device=first.device)
    parts, start = [], 0
    for each in tensors:
        parts.append(reshape(narrow(flat, 0, start, each.numel()), tuple(each.shape)))
        start += each.numel()
    return flat, parts


def _compare(module: Module) -> None:
    """Make sure that all processes have a network of the same kind."""
    state = [(name, str(each.dtype), tuple(each.shape)) for name, each in module.named_parameters()]
    device = next(each.device for each in module.parameters())
    digest = int.from_bytes(hashlib.sha256(repr(state).encode()).digest()[:7], "big")
    mine = tensor([digest], dtype=int64, device=device)
    found = [mine.clone() for _ in range(distributed.get_world_size())]
    distributed.all_gather(found, mine)
    others = [rank for rank, each in enumerate(found) if each.item() != digest]
    if others:
        raise CuplugError(
            f"DistributedDataParallel: the parameters of ranks {others} have other names, types or shapes than those "
            f"of rank {distributed.get_rank()}: all processes have to build the same network"
        )


def _leading_to(result: Any) -> set[int]:
    """The leaves that tensors within a result depend on, by identity."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [node for node in (state_of(each).node for each in _tensors(result)) if node is not None]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.title == "AccumulateGrad":
            found.add(id(node.variable))
        stack += [target for target, _ in node.next_functions if target is not None]
    return found


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        for each in result.values():
            yield from _tensors(each)
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from _tensors(each)
