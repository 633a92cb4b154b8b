"""``cuplug.cuda.nccl``: what the devices of one process compute together, by NVIDIA's NCCL.

Each function takes one contiguous tensor for each device, all of one type and number of elements. Work is queued on the
current stream of each device; none of these functions waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....allocators.errors import CuplugError
from ...backends.device_place import DevicePlace
from ...backends.libraries.nccl import SUM, Communicator, Nccl, nccl
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError
from ...places.place import place_at

__all__ = [
    "SUM",
    "all_gather",
    "all_reduce",
    "broadcast",
    "is_available",
    "reduce",
    "reduce_scatter",
    "unique_id",
    "version",
]


def is_available(tensors: Sequence[Tensor] = ()) -> bool:
    """Whether NCCL is installed and takes these tensors: contiguous ones on different CUDA devices, not simulated."""
    places = [each._layout.place for each in tensors]
    fits = all(isinstance(each, DevicePlace) and each.driver.simulator is None for each in places)
    fits = fits and len(set(places)) == len(places) and all(each.is_contiguous() for each in tensors)
    return fits and nccl() is not None


def version() -> tuple[int, int, int]:
    """NCCL's version, as in ``(2, 28, 9)``.

    Raises:
        CuplugError: it is not installed.
    """
    return _library().version()


def unique_id() -> bytes:
    """What the ranks of a group begin with.

    Raises:
        CuplugError: NCCL is not installed.
    """
    return _library().unique_id()


def all_reduce(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | None = None,
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    """Add up the devices' tensors, or reduce them by another operation; each device gets the result.

    Args:
        inputs: one tensor for each device.
        outputs: where results go; by default to the inputs.
        op: as NCCL numbers them: 0 sum, 1 product, 2 maximum, 3 minimum, 4 mean.
        streams: for each device, where to queue it; by default its current stream.
        comms: as torch's; the group of the devices is made at its first use.

    Raises:
        ValueError: numbers, types or devices do not fit.
        CuplugError: NCCL is not installed, or fails.
    """
    del comms
    outs = inputs if outputs is None else outputs
    ranks = _ranks(inputs, outs, 1)
    for rank, each, out, stream in _each(ranks, inputs, outs, streams):
        rank.all_reduce(each._address, out._address, each.numel(), each.dtype, op, stream)


def reduce(
    inputs: Sequence[Tensor],
    output: Tensor | None = None,
    root: int = 0,
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    """Add up the devices' tensors, or reduce them by another operation; the device at ``root`` gets the result.

    Other arguments and errors are those of ``all_reduce``.

    Args:
        output: where the result goes, on the device of ``inputs[root]``; by default to that.
        root: the position of the device.
    """
    del comms
    _check_root(root, inputs)
    outs = list(inputs)
    outs[root] = inputs[root] if output is None else output
    ranks = _ranks(inputs, outs, 1)
    for rank, each, out, stream in _each(ranks, inputs, outs, streams):
        rank.reduce(each._address, out._address, each.numel(), each.dtype, op, root, stream)


def broadcast(inputs: Sequence[Tensor], root: int = 0, streams: Sequence[Any] | None = None, comms: Any = None) -> None:
    """Copy the tensor at ``root``, the position of its device, to the others. Other arguments and errors are those of
    ``all_reduce``."""
    del comms
    _check_root(root, inputs)
    ranks = _ranks(inputs, inputs, 1)
    for rank, each, _, stream in _each(ranks, inputs, inputs, streams):
        rank.broadcast(each._address, each._address, each.numel(), each.dtype, root, stream)


def all_gather(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Sequence[Any] | None = None, comms: Any = None
) -> None:
    """Put the devices' tensors one behind the other; each device gets them all.

    ``outputs`` are one for each device, with as many elements as all inputs. Other arguments and errors are those of
    ``all_reduce``.
    """
    del comms
    ranks = _ranks(inputs, outputs, len(inputs))
    for rank, each, out, stream in _each(ranks, inputs, outputs, streams):
        rank.all_gather(each._address, out._address, each.numel(), each.dtype, stream)


def reduce_scatter(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    """Add up the devices' tensors, or reduce them by another operation; each device gets its part of the result.

    ``outputs`` are one for each device; all together have as many elements as one input. Other arguments and errors are
    those of ``all_reduce``.
    """
    del comms
    ranks = _ranks(outputs, inputs, len(inputs))
    for rank, each, out, stream in _each(ranks, inputs, outputs, streams):
        rank.reduce_scatter(each._address, out._address, out.numel(), each.dtype, op, stream)


def _library() -> Nccl:
    found = nccl()
    if found is None:
        raise CuplugError("NCCL is not installed: pip install 'cuplug[nccl]', or nvidia-nccl-cu12 where CUDA is 12")
    return found


def _check_root(root: int, inputs: Sequence[Tensor]) -> None:
    if not 0 <= root < len(inputs):
        raise ArgumentError(f"nccl: root is {root}, and there are {len(inputs)} tensors")


def _each(ranks: Any, inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Sequence[Any] | None) -> Any:
    """The ranks with their tensors and streams, within one group of calls."""
    handles = [None] * len(ranks) if streams is None else [None if s is None else s.cuda_stream for s in streams]
    with ranks[0].library.group():
        yield from zip(ranks, inputs, outputs, handles, strict=True)
    for each in outputs:
        each._storage.version += 1


def _ranks(small: Sequence[Tensor], large: Sequence[Tensor], times: int) -> list[Communicator]:
    """The communicators of the tensors' devices. Of each pair the large tensor has ``times`` the elements."""
    if not small or len(small) != len(large):
        raise ArgumentError(f"nccl: {len(small)} tensors and {len(large)}: there has to be one of each for each device")
    first = small[0]
    for one, other in zip(small, large, strict=True):
        for each, count in ((one, first.numel()), (other, first.numel() * times)):
            if each.dtype is not first.dtype or each.numel() != count:
                raise ArgumentError(
                    f"nccl: a tensor of {count} elements of {first.dtype!r} is needed on {each.device}, and one of "
                    f"{each.numel()} of {each.dtype!r} was given"
                )
            if not each.is_contiguous():
                raise ArgumentError(f"nccl: the tensor on {each.device} is not contiguous: .contiguous() makes it so")
        if one.device != other.device:
            raise ArgumentError(f"nccl: tensors on {one.device} and {other.device} stand at one position")
    places = [place_at(each._layout) for each in small]
    if not all(isinstance(each, DevicePlace) and each.driver.simulator is None for each in places):
        raise ArgumentError("nccl: it works on tensors on CUDA devices; cuplug.cuda.comm also on simulated ones")
    if len(set(places)) < len(places):
        raise ArgumentError("nccl: two of the tensors are on one device")
    return _group(tuple(each for each in places if isinstance(each, DevicePlace)))


def _group(places: tuple[DevicePlace, ...]) -> list[Communicator]:
    runtime = places[0].runtime
    objects = runtime.device(places[0].ordinal).objects
    key = f"nccl {[each.ordinal for each in places]}"

    def make() -> list[Communicator]:
        if key not in objects:
            objects[key] = _library().ranks(places)
        return objects[key]  # type: ignore[no-any-return]

    return objects.get(key) or runtime.exclusively(make)
