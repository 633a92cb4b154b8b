"""``cuplug.cuda.comm``: tensors sent to several devices, and brought together from them.

Copies between devices are the driver's peer copies, which need no peer access; each is ordered with the current streams
of both devices. None of these functions waits for a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....machine.device_name import device as Device  # noqa: N812 - torch's class has a small name
from ...backends.device_place import DevicePlace
from ...core.memory_formats import channels_last, channels_last_3d
from ...core.shapes import existing_axis
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ShapeError
from ...places.place import Place
from ...places.registry import place_of
from ..arithmetic.arithmetic import add
from ..copying.copying import channels_come_last, clone, copied_to, copy_
from ..joining.joining import cat
from ..shapes.reshape import contiguous
from ..shapes.views import chunk, split
from .packed_tensors import sent_together

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def broadcast(
    tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """A tensor on each of several devices: itself where it is, and copies.

    Args:
        tensor: what is sent.
        devices: where to: CUDA devices, their texts or ordinals.
        out: tensors on CUDA devices to write to, instead of ``devices``.

    Raises:
        ValueError: both are given or none, or one of ``out`` is on no CUDA device or of another shape.
    """
    if (devices is None) == (out is None):
        raise ArgumentError("broadcast: give either devices or out")
    if out is not None:
        _check_devices("broadcast: out", out)
        for each in out:
            if each.shape != tensor.shape:
                raise ShapeError(f"broadcast: out has shape {list(each.shape)}, and the tensor {list(tensor.shape)}")
        return tuple(copy_(each, tensor, non_blocking=True) for each in out)
    assert devices is not None
    return tuple(_sent(tensor, each) for each in devices)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10 << 20
) -> list[tuple[Tensor, ...]]:
    """For each device the tensors on it. See ``broadcast``.

    Args:
        tensors: what is sent.
        devices: where to.
        buffer_size: about how many bytes are sent by one copy.
    """
    return [tuple(_all_sent(tensors, place_of(Device(each)), buffer_size)) for each in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape on several devices, in their order.

    Args:
        inputs: what is added up.
        destination: on which device, by default the first tensor's.

    Raises:
        ValueError: there are none, or shapes differ.
    """
    if not inputs:
        raise ArgumentError("reduce_add: there are no tensors to add up")
    for each in inputs:
        if each.shape != inputs[0].shape:
            raise ShapeError(f"reduce_add: shapes {list(inputs[0].shape)} and {list(each.shape)} differ")
    where = inputs[0].device if destination is None else destination
    total = _sent(inputs[0], where)
    for each in inputs[1:]:
        total = add(total, _sent(each, where))
    return clone(total) if total is inputs[0] else total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10 << 20
) -> tuple[Tensor, ...]:
    """The sums of tensors that stand at one position of each device's list. See ``reduce_add``.

    Args:
        inputs: for each device its tensors.
        destination: on which device.
        buffer_size: about how many bytes are sent by one copy.

    Raises:
        ValueError: there are none, or shapes differ.
    """
    if not inputs or not inputs[0]:
        raise ArgumentError("reduce_add_coalesced: there are no tensors to add up")
    place = place_of(inputs[0][0].device if destination is None else Device(destination))
    arrived = [_all_sent(each, place, buffer_size) for each in inputs]
    return tuple(reduce_add(each, place.device) for each in zip(*arrived, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """The parts of a tensor along a dimension, one on each device.

    Args:
        tensor: what is divided, on the CPU or a device.
        devices: where to. Without ``chunk_sizes`` there may be fewer parts than devices.
        chunk_sizes: how long the parts are; by default alike.
        dim: along which dimension.
        streams: as torch's; copies are ordered with the devices' current streams.
        out: tensors to write to, instead of ``devices``.

    Raises:
        ValueError: both are given or none, there is nothing to scatter to, one of ``out`` is on no CUDA device, or the
            sizes do not fit.
    """
    del streams
    if (devices is None) == (out is None):
        raise ArgumentError("scatter: give either devices or out")
    if not (devices or out):
        raise ArgumentError("scatter: there is nothing to scatter to")
    if out is not None:
        _check_devices("scatter: out", out)
        axis = existing_axis(dim, tensor.ndim)
        rest = (*tensor.shape[:axis], *tensor.shape[axis + 1 :])
        for each in out:
            if each.ndim != tensor.ndim or (*each.shape[:axis], *each.shape[axis + 1 :]) != rest:
                raise ShapeError(f"scatter: out has shape {list(each.shape)}, and the tensor {list(tensor.shape)}")
        parts = split(tensor, [each.shape[dim] for each in out], dim)
        return tuple(copy_(to, part, non_blocking=True) for to, part in zip(out, parts, strict=True))
    assert devices is not None
    if chunk_sizes is not None and len(chunk_sizes) != len(devices):
        raise ArgumentError(f"scatter: {len(chunk_sizes)} chunk_sizes for {len(devices)} devices")
    parts = chunk(tensor, len(devices), dim) if chunk_sizes is None else split(tensor, list(chunk_sizes), dim)
    return tuple(_sent(part, each) for part, each in zip(parts, devices, strict=False))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Tensors of several devices, one behind the other.

    Args:
        tensors: what is joined; all dimensions but ``dim`` are alike.
        dim: along which dimension.
        destination: on which device, by default the current one; ``"cpu"`` or -1 for the CPU.
        out: where to write it, instead.

    Raises:
        ValueError: ``destination`` and ``out`` are given, there are no tensors, one is on no CUDA device, or shapes do
            not fit.
    """
    if not tensors:
        raise ArgumentError("gather: there are no tensors to join")
    _check_devices("gather: tensors", tensors)
    if out is not None:
        if destination is not None:
            raise ArgumentError("gather: give either destination or out")
        return copy_(out, gather(tensors, dim, out.device))
    where = "cpu" if destination == -1 else "cuda" if destination is None else destination
    made = cat([_sent(each, where) for each in tensors], dim)
    if all(channels_come_last(each._layout) for each in tensors):
        return contiguous(made, channels_last if made.ndim == 4 else channels_last_3d)
    return made


def _check_devices(what: str, tensors: Sequence[Tensor]) -> None:
    """Raise ArgumentError where a tensor is not on a CUDA device."""
    for position, each in enumerate(tensors):
        if not each.is_cuda:
            raise ArgumentError(f"{what} are on CUDA devices; number {position} is on {each.device}")


def _all_sent(tensors: Sequence[Tensor], place: Place, buffer_size: int) -> list[Tensor]:
    """Tensors at a place: those of one other device are sent together, where no gradients are asked for."""
    first = tensors[0]._layout.place if tensors else place
    together = isinstance(place, DevicePlace) and isinstance(first, DevicePlace) and first is not place
    if not together or any(each._layout.place is not first or each._layout.tracked for each in tensors):
        return [_sent(each, place.device) for each in tensors]
    assert isinstance(place, DevicePlace)
    return sent_together(tensors, place, buffer_size)


def _sent(tensor: Tensor, where: Any) -> Tensor:
    """A tensor on a device, as a copy that does not wait; to the CPU it does."""
    place = place_of(Device(where))
    return copied_to(tensor, place, non_blocking=place.device.type != "cpu")
