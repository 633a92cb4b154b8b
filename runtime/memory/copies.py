"""Copies between host and devices and between devices, and filling with a byte pattern; all queued on a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...allocators.errors import CuplugError, DeviceMismatchError
from ..machine.borrowed import Borrower
from ..machine.checks import whole_number
from ..machine.default_runtime import runtime_or_default
from ..machine.runtime import Runtime
from ..streams.stream import ExternalStream, Stream, as_stream, current_stream
from .operands import Operand, operand

__all__ = ["copy_pieces", "memcpy", "memset"]


def memcpy(
    dst: Any, src: Any, nbytes: int | None = None, *, stream: Any = None, runtime: Runtime | None = None
) -> None:
    """Queue a copy from ``src`` to ``dst``, at least one of which is device memory.

    It is asynchronous as CUDA's copies are. From page-locked host memory it is only queued. From other host memory the
    call returns once that was read; to other host memory, once the copy is done. **A copy into page-locked memory has
    happened once the stream was synchronised.** Page-locked memory stays usable by the copy when it is dropped
    meanwhile. Device memory that the copy uses on another stream than the one it was allocated for needs
    ``Buffer.record_stream``, by the caller, as in PyTorch.

    Args:
        dst: a Buffer, a PinnedBuffer, an object with ``__cuda_array_interface__``, a NumPy array or another object
            with the buffer protocol. Elements must be contiguous.
        src: the same.
        nbytes: how many bytes, from the start of both. By default all: then both must have the same size.
        stream: where to queue it; by default the current stream of the device. A copy between two devices is then
            queued on the current stream of the source's, and the current stream of the other waits for it, and it
            for that one.
        runtime: the default runtime, if left out.

    Raises:
        ValueError: the sizes do not fit, ``dst`` is read-only, elements are not contiguous, or both are host memory.
        TypeError: something is neither device nor host memory.
        DeviceMismatchError: ``stream`` is of another device, which has no access to the memory.
        DriverError: the device is in a sticky error state.
    """
    runtime = runtime_or_default(runtime)
    target, source = operand(dst, runtime), operand(src, runtime)
    count = _count(target, source, nbytes)
    if not target.writable:
        raise ValueError(f"cannot copy to {type(dst).__name__}: its memory is read-only")
    device = target.device if source.device is None else source.device
    if device is None:
        raise ValueError("both sides of this copy are host memory; use numpy.copyto for that")
    if not count:
        return
    queue = current_stream(device, runtime=runtime) if stream is None else as_stream(stream, runtime)
    between = target.device is not None and source.device is not None and target.device != source.device
    other = current_stream(target.device, runtime=runtime) if between and stream is None else None
    if other is not None:
        queue.wait_stream(other)
    for side in (target, source):
        if side.device is not None:
            _check_access(side.device, queue, between)
            _order(side, queue)
        if side.pinned is not None:
            side.pinned.used_by(queue.device_index, queue.cuda_stream)
    _queue_keeping(target, source, count, queue)
    if other is not None:
        other.wait_stream(queue)
    if runtime.launch_blocking:
        queue.synchronize()


def copy_pieces(runtime: Runtime, target: int, source: int, pieces: Iterable[tuple[int, int, int]]) -> None:
    """Queue copies of several pieces of one device's memory to another device, as ``memcpy`` does one: on the current
    stream of the source's, which waits for that of the target's, and that one for it, once for all pieces.

    Args:
        runtime: of both devices.
        target: the ordinal of the device to copy to.
        source: of the device to copy from.
        pieces: for each the address to copy to, the address to copy from, and the number of bytes.

    Raises:
        DriverError: a device is in a sticky error state.
    """
    queue, other = current_stream(source, runtime=runtime), current_stream(target, runtime=runtime)
    queue.wait_stream(other)
    driver, stream = runtime.driver, queue.cuda_stream
    with runtime.on_device(source):
        for to, start, nbytes in pieces:
            driver.memcpy_peer(to, target, start, source, nbytes, stream=stream)
    other.wait_stream(queue)
    if runtime.launch_blocking:
        queue.synchronize()


def memset(
    dst: Any,
    value: int,
    nbytes: int | None = None,
    *,
    width: int = 1,
    stream: Any = None,
    runtime: Runtime | None = None,
) -> None:
    """Queue filling device memory with copies of ``value``.

    Args:
        dst: a Buffer or an object with ``__cuda_array_interface__``.
        value: what each element becomes, from 0 to ``256 ** width - 1``.
        nbytes: how many bytes, a multiple of ``width``; by default all.
        width: bytes of an element: 1, 2 or 4.
        stream: where to queue it; by default the current stream of the device.
        runtime: the default runtime, if left out.

    Raises:
        ValueError: value, width or size do not fit, or it is host memory or read-only.
        DeviceMismatchError: ``stream`` is of another device, which has no access to the memory.
        DriverError: the device is in a sticky error state.
    """
    runtime = runtime_or_default(runtime)
    target = operand(dst, runtime)
    count = target.nbytes if nbytes is None else whole_number(nbytes, "nbytes")
    value, width = whole_number(value, "value"), whole_number(width, "width")
    if width not in (1, 2, 4):
        raise ValueError(f"cannot fill elements of {width} bytes: width is 1, 2 or 4")
    if not 0 <= value < 256**width:
        raise ValueError(f"cannot fill with {value}: an element of {width} bytes holds 0 to {256**width - 1}")
    if not 0 <= count <= target.nbytes or count % width:
        raise ValueError(f"cannot fill {count} of {target.nbytes} bytes with elements of {width} bytes")
    if target.device is None or not target.writable:
        raise ValueError(f"cannot fill {type(dst).__name__}: it is not writable device memory")
    if not count:
        return
    queue = current_stream(target.device, runtime=runtime) if stream is None else as_stream(stream, runtime)
    _check_access(target.device, queue, between=False)
    _order(target, queue)
    with runtime.on_device(queue.device_index):
        runtime.driver.memset(target.address, value, count // width, width=width, stream=queue.cuda_stream)
    if runtime.launch_blocking:
        queue.synchronize()


def _count(target: Operand, source: Operand, nbytes: int | None) -> int:
    if nbytes is None:
        if target.nbytes != source.nbytes:
            raise ValueError(
                f"cannot copy {source.nbytes} bytes to memory of {target.nbytes} bytes; make the sizes the same, or "
                "say how many with nbytes"
            )
        return target.nbytes
    count = whole_number(nbytes, "nbytes")
    if not 0 <= count <= min(target.nbytes, source.nbytes):
        raise ValueError(f"cannot copy {count} bytes from memory of {source.nbytes} to memory of {target.nbytes} bytes")
    return count


def _check_access(device: int, queue: Stream, between: bool) -> None:
    # A copy between devices needs no peer access (cuMemcpyPeerAsync), but runs on a stream of one of the two.
    if between or queue._runtime.can_use(queue.device_index, device):
        return
    raise DeviceMismatchError(
        f"the memory is device {device}'s and the stream is device {queue.device_index}'s; use a stream of device "
        f"{device}, or enable_peer_access({queue.device_index}, {device})"
    )


def _order(side: Operand, queue: Stream) -> None:
    """Wait for the stream on which another library makes the contents (CUDA Array Interface, "Synchronization")."""
    if side.stream is not None and side.device is not None and side.stream not in (queue.cuda_stream, 0):
        queue.wait_stream(ExternalStream(side.stream, side.device, runtime=queue._runtime))


def _queue_keeping(target: Operand, source: Operand, count: int, queue: Stream) -> None:
    """Queue the copy, and keep the host memory of it that may be page-locked, by whom we do not know, until it ran."""
    runtime = queue._runtime
    owners = [side.owner for side in (target, source) if side.device is None and not (side.pinned or side.pageable)]
    if not owners:
        with runtime.on_device(queue.device_index):
            _queue(target, source, count, queue)
        return
    borrowed, key = runtime.device(queue.device_index).borrowed, runtime.current.key(queue.cuda_stream)
    borrower = Borrower()
    loan = borrowed.begin(key, owners, borrower)
    try:
        with runtime.on_device(queue.device_index):
            _queue(target, source, count, queue)
    except CuplugError:  # the driver refused. After any other exception the copy may be queued: the loan lasts
        borrowed.cancel(key, loan)
        raise
    del borrower
    loan.is_done = queue.record_event().query
    borrowed.end_done(key)


def _queue(target: Operand, source: Operand, count: int, queue: Stream) -> None:
    driver, stream = queue._runtime.driver, queue.cuda_stream
    if source.device is None:
        driver.memcpy_htod(target.address, source.address, count, stream=stream)
    elif target.device is None:
        driver.memcpy_dtoh(target.address, source.address, count, stream=stream)
    elif target.device == source.device:
        driver.memcpy_dtod(target.address, source.address, count, stream=stream)
    else:
        driver.memcpy_peer(target.address, target.device, source.address, source.device, count, stream=stream)
