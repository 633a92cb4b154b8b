"""Streams and devices as other libraries hand them over, as the integers that drivers know."""

from __future__ import annotations

from operator import index
from typing import Any

from ..drivers.base import LEGACY_STREAM


def stream_handle(stream: Any) -> int:
    """The driver's handle of a stream of cuplug, PyTorch (``cuda_stream``), CuPy (``ptr``), PyCUDA and Numba
    (``handle``), of anything with the ``__cuda_stream__`` protocol of NVIDIA's ``cuda.core``, or an integer.

    ``CU_STREAM_LEGACY`` (1) is another name of stream 0 and becomes 0.

    Raises:
        TypeError: it is none of these.
        ValueError: it is an integer that cannot be a handle.
    """
    handle = _raw_handle(stream)
    if not 0 <= handle < 1 << 64:
        raise ValueError(f"{handle} is not the handle of a stream: a handle is an address, from 0 to 2 ** 64 - 1")
    return LEGACY_STREAM if handle == 1 else handle


def event_handle(event: Any) -> int:
    """The driver's handle of an event of PyTorch (``cuda_event``), CuPy (``ptr``), Numba or cuda.core (``handle``), or
    an integer.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(event, int) and not isinstance(event, bool):
        return event
    handle = _attribute(event, ("cuda_event", "ptr", "handle"))
    if handle is None:
        raise TypeError(f"{event!r} is not an event: pass a cuplug Event, another library's, or a handle")
    return handle


def _raw_handle(stream: Any) -> int:
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        answer = protocol() if callable(protocol) else protocol
        return index(answer[1])
    handle = _attribute(stream, ("cuda_stream", "ptr", "handle"))
    if handle is None:
        raise TypeError(
            f"{stream!r} is not a stream: pass a cuplug Stream, a stream of PyTorch, CuPy, PyCUDA or Numba, an object "
            "with __cuda_stream__, or the handle as an integer"
        )
    return handle


def _attribute(thing: Any, names: tuple[str, ...]) -> int | None:
    """The first of these attributes as an integer; None if it has none."""
    for name in names:
        if hasattr(thing, name):
            handle = getattr(thing, name)
            if hasattr(handle, "value"):  # a ctypes pointer, as Numba's
                handle = handle.value
            return 0 if handle is None else index(handle)
    return None


def device_of(thing: Any) -> int | None:
    """The device's ordinal that a foreign stream or array names, or None where it names none."""
    for owner, names in ((thing, ("device_index", "device_id")), (getattr(thing, "device", None), ("index", "id"))):
        for name in names:
            ordinal = getattr(owner, name, None)
            if isinstance(ordinal, int) and ordinal >= 0:
                return ordinal
    device = getattr(thing, "device", None)
    return device if isinstance(device, int) and device >= 0 else None
