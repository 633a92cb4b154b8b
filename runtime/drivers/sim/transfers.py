"""Copies and fills as operations of the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

import numpy as np

from ..base import driver_error
from .simulated_device import Device, Extent
from .work import Operation

__all__ = ["copy", "fill", "memory_at"]

# What an operation costs on the simulated clock: microseconds to start, and bytes per microsecond. Rough figures of a
# current data-centre GPU; they make elapsed times plausible and the same in every run, and claim no more.
_START_US = 2.0
_RATES = {"device": 2e6, "peer": 2e5, "pinned": 5e4, "pageable": 1e4}

_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
_view.restype = ctypes.py_object
_WRITABLE = 0x200  # PyBUF_WRITE


def memory_at(address: int, nbytes: int) -> memoryview:
    """The bytes at an address of this process, writable and without a copy."""
    view: memoryview = _view(address, nbytes, _WRITABLE)
    return view


def copy(
    name: str,
    dst: int,
    src: int | bytes,
    nbytes: int,
    *,
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
    return Operation(name, body, reads=reads, writes=writes, homes=homes, cost_us=cost)


def fill(address: int, value: int, count: int, width: int) -> Operation:
    """The operation that writes ``count`` elements of ``width`` (1, 2 or 4) bytes. Of ``value`` the low bits count.

    Raises:
        DriverError: ``CUDA_ERROR_INVALID_VALUE``: the width is another, or does not divide the address.
    """
    if width not in (1, 2, 4) or count < 0 or address % width:
        raise driver_error(1, f"memset of {count} elements of {width} bytes at {address:#x}: width is 1, 2 or 4")
    nbytes = count * width
    if width == 1:
        body: Callable[[], object] = partial(ctypes.memset, address, value & 0xFF, nbytes)
    else:
        body = partial(_fill, address, value & ((1 << 8 * width) - 1), nbytes, width)
    cost = _START_US + nbytes / _RATES["device"]
    return Operation("memset", body, writes=((address, nbytes),), cost_us=cost)


def _fill(address: int, value: int, nbytes: int, width: int) -> None:
    np.frombuffer(memory_at(address, nbytes), dtype=f"u{width}").fill(value)
