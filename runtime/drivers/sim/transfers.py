"""Copies and fills: what such a call checks, and the operation that it queues."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from ..base import driver_error
from .device_table import DeviceTable
from .locked_calls import Change
from .simulated_device import Device, Extent
from .streams import Streams, Submission
from .work import Operation, Stream

# What an operation costs on the simulated clock: microseconds to start, and bytes per microsecond. Rough figures of a
# current data-centre GPU; they make elapsed times plausible and the same in every run, and claim no more.
_START_US = 2.0
_RATES = {"device": 2e6, "peer": 2e5, "pinned": 5e4, "pageable": 1e4}

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_view.restype = ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


class Copies:
    """Prepares the copies and fills of one machine. ``here`` is the current device, whose stream the work goes to."""

    def __init__(self, devices: DeviceTable, streams: Streams) -> None:
        self._devices = devices
        self._streams = streams

    def from_host(self, here: Device, dst: int, src: int, nbytes: int, stream: int) -> Change[None]:
        """A copy from host to device. Pageable memory is read at once, if the work may run later."""
        queue = self._queue("memcpy_htod", here, dst, src, nbytes, stream)
        pinned = self._devices.is_pinned("memcpy_htod", src, nbytes)
        if not nbytes:
            return _NOTHING
        writes = ((dst, nbytes),)
        if pinned:
            reads = ((src, nbytes),)
            operation = _copy("memcpy_htod", dst, src, nbytes, "pinned", reads, writes)
        else:
            source = ctypes.string_at(src, nbytes) if self._streams.schedule.defers else src
            operation = _copy("memcpy_htod", dst, source, nbytes, "pageable", (), writes)
        return Submission(self._streams, queue, operation)

    def to_host(self, here: Device, dst: int, src: int, nbytes: int, stream: int) -> Change[None]:
        """A copy from device to host. To pageable memory the call waits for it."""
        queue = self._queue("memcpy_dtoh", here, dst, src, nbytes, stream)
        pinned = self._devices.is_pinned("memcpy_dtoh", dst, nbytes)
        if not nbytes:
            return _NOTHING
        reads = ((src, nbytes),)
        if pinned:
            writes = ((dst, nbytes),)
            operation = _copy("memcpy_dtoh", dst, src, nbytes, "pinned", reads, writes)
        else:
            operation = _copy("memcpy_dtoh", dst, src, nbytes, "pageable", reads)
        return Submission(self._streams, queue, operation, not pinned)

    def on_device(self, here: Device, dst: int, src: int, nbytes: int, stream: int) -> Change[None]:
        """A copy within the stream's device, or between it and peers whose access is enabled."""
        queue = self._queue("memcpy_dtod", here, dst, src, nbytes, stream)
        if not nbytes:
            return _NOTHING
        reads, writes = ((src, nbytes),), ((dst, nbytes),)
        operation = _copy("memcpy_dtod", dst, src, nbytes, "device", reads, writes)
        return Submission(self._streams, queue, operation)

    def between_devices(
        self, here: Device, dst: int, dst_device: int, src: int, src_device: int, nbytes: int, stream: int
    ) -> Change[None]:
        """A copy between two devices, given by ordinal, with or without peer access."""
        queue = self._queue("memcpy_peer", here, dst, src, nbytes, stream)
        homes = self._devices.used(src_device), self._devices.used(dst_device)
        if not nbytes:
            return _NOTHING
        reads, writes = ((src, nbytes),), ((dst, nbytes),)
        operation = _copy("memcpy_peer", dst, src, nbytes, "peer", reads, writes, homes)
        return Submission(self._streams, queue, operation)

    def fill(self, here: Device, address: int, value: int, count: int, width: int, stream: int) -> Change[None]:
        """Writing ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: the width is another, or does not divide the address.
        """
        queue = self._streams.of(stream, here)
        if width not in (1, 2, 4) or count < 0 or address % width:
            raise driver_error(1, f"memset of {count} elements of {width} bytes at {address:#x}: width is 1, 2 or 4")
        if not count:
            return _NOTHING
        nbytes = count * width
        if width == 1:
            body: Callable[[], object] = partial(ctypes.memset, address, value & 0xFF, nbytes)
        else:
            body = partial(_fill, address, value & ((1 << 8 * width) - 1), nbytes, width)
        cost = _START_US + nbytes / _RATES["device"]
        return Submission(self._streams, queue, Operation("memset", body, writes=((address, nbytes),), cost_us=cost))

    def _queue(self, name: str, here: Device, dst: int, src: int, nbytes: int, stream: int) -> Stream:
        """The stream of a copy, whose arguments are checked."""
        if nbytes < 0 or (nbytes and not (dst and src)):
            raise driver_error(1, f"{name} of {nbytes} bytes from {src:#x} to {dst:#x}: give addresses and a size")
        return self._streams.of(stream, here)


class _Nothing:
    """The change of a call that has nothing to do."""

    def commit(self) -> None:
        pass

    def undo(self) -> None:
        pass


_NOTHING = _Nothing()


def memory_at(address: int, nbytes: int) -> memoryview:
    """The bytes at an address of this process, writable and without a copy."""
    view: memoryview = _view(address, nbytes, _WRITABLE)
    return view


def _copy(
    name: str,
    dst: int,
    src: int | bytes,
    nbytes: int,
    over: str,
    reads: tuple[Extent, ...] = (),
    writes: tuple[Extent, ...] = (),
    homes: tuple[Device, Device] | None = None,
) -> Operation:
    """The operation that copies ``nbytes`` bytes from ``src``, an address or the bytes themselves, to ``dst``.

    Args:
        name: the call's.
        dst: an address.
        src: an address, or the bytes themselves.
        nbytes: how many.
        over: ``device``, ``peer``, ``pinned`` or ``pageable``: what bounds its speed.
        reads: what to check before.
        writes: what to check before.
        homes: whose memory is read and written, where that is not the stream's device's and its peers'.
    """
    body = partial(ctypes.memmove, dst, src, nbytes)
    cost = _START_US + nbytes / _RATES[over]
    return Operation(name, body, reads, writes, cost, True, (), homes)


def _fill(address: int, value: int, nbytes: int, width: int) -> None:
    np.frombuffer(memory_at(address, nbytes), dtype=f"u{width}").fill(value)
