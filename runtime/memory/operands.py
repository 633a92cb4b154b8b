"""What copies take: where an object's bytes are, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..machine.buffer import Buffer
from ..machine.foreign_handles import device_of
from ..machine.runtime import Runtime
from .pinned import PinnedBuffer, PinnedMemory


@dataclass(slots=True)
class Operand:
    """A contiguous piece of memory."""

    address: int
    nbytes: int
    device: int | None
    """The device's ordinal; None for host memory."""
    owner: Any
    """What keeps the memory."""
    writable: bool = True
    stream: int | None = None
    """The handle of the stream that its owner says its contents are made on."""
    pinned: PinnedMemory | None = None
    """The page-locked memory of ours that it lies in."""
    pageable: bool = False
    """Whether it is certainly not page-locked, so that drivers are done with it when a copy's call returns."""


def operand(thing: Any, runtime: Runtime) -> Operand:
    """The memory of ``thing``: a Buffer or a PinnedBuffer, an object with ``__cuda_array_interface__``, a NumPy array
    or anything else with the buffer protocol.

    Raises:
        TypeError: it has no memory that could be found.
        ValueError: its elements are not contiguous.
        CuplugError: it is closed.
    """
    if isinstance(thing, Buffer):
        block = thing.block
        return Operand(block.address, block.requested, thing.device, thing)
    if isinstance(thing, PinnedBuffer):
        thing = thing.array
    interface = getattr(thing, "__cuda_array_interface__", None)
    if interface is not None:
        return _device_array(thing, interface, runtime)
    if isinstance(thing, np.ndarray):
        return _host_array(thing, thing)
    try:
        view = memoryview(thing)
    except TypeError:
        raise TypeError(
            f"a copy cannot take {type(thing).__name__}: pass a Buffer, a PinnedBuffer, an object with "
            "__cuda_array_interface__, a NumPy array or an object with the buffer protocol"
        ) from None
    return _host_array(np.asarray(view), view.obj)


def _device_array(thing: Any, interface: dict[str, Any], runtime: Runtime) -> Operand:
    shape, itemsize = interface["shape"], np.dtype(interface["typestr"]).itemsize
    nbytes = itemsize
    for length in shape:
        nbytes *= length
    strides = interface.get("strides")
    if strides is not None and nbytes and tuple(strides) != _c_strides(shape, itemsize):
        raise ValueError(f"a copy needs contiguous elements; this array has shape {shape} and strides {strides}")
    address, read_only = interface["data"]
    device = device_of(thing)
    return Operand(
        address,
        nbytes,
        runtime.current.device if device is None else device,
        thing,
        writable=not read_only,
        stream=interface.get("stream"),
    )


def _host_array(array: np.ndarray[Any, Any], owner: Any) -> Operand:
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError(
            f"a copy needs contiguous elements; this array has shape {array.shape} and strides {array.strides}: pass "
            "numpy.ascontiguousarray of it"
        )
    address = array.__array_interface__["data"][0]
    base = _base(array)
    return Operand(
        address,
        array.nbytes,
        None,
        owner,
        writable=array.flags.writeable,
        pinned=base if isinstance(base, PinnedMemory) else None,
        # Memory that NumPy or Python themselves allocated. Anything else may be page-locked by whoever made it.
        pageable=base is None or isinstance(base, (bytes, bytearray)),
    )


def _base(array: np.ndarray[Any, Any]) -> Any:
    """Whose memory the array shows; None if it is NumPy's own."""
    base: Any = array
    while True:
        if isinstance(base, np.ndarray):
            base = base.base
        elif isinstance(base, memoryview):
            base = base.obj
        else:
            return base


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))
