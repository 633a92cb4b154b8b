"""What the two kinds of device have in common: memory from the runtime's allocator, streams, and copies."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import Any

import numpy as np
import numpy.typing as npt

from ...machine.buffer import Buffer
from ...machine.current import Current
from ...machine.device_name import device
from ...machine.owner import unsettled
from ...machine.runtime import Runtime
from ...memory.copies import memcpy
from ...streams.stream import ExternalStream, Stream, default_stream
from ..core.layout import Layout
from ..core.storage import Storage, make_storage
from ..core.tensor import Tensor, make_tensor
from ..places.place import Place

_allocate = Buffer.allocate


class DevicePlace(Place):
    """A device of a runtime. Work goes to the calling thread's current stream of it, whatever device is current."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        super().__init__(device("cuda", ordinal))
        self.runtime = runtime
        self.ordinal = ordinal
        self.driver = runtime.driver
        self._default_stream: Stream | None = None

    # --- memory

    def allocate(self, nbytes: int, current: Current | None = None) -> Storage:
        """As ``Place`` says. ``current``: what is current in this thread, if that is known."""
        current = current or self.runtime.current
        if current.device == self.ordinal:
            buffer = self.runtime.allocate_current(current, nbytes)
        else:
            key = current.key(self.stream_handle())
            buffer = Buffer.allocate(self.runtime.allocator(self.ordinal), nbytes, stream=key)
        return make_storage(self, nbytes, buffer, int(buffer))

    def empty(self, layout: Layout) -> Tensor:
        if layout.contiguous:
            runtime, nbytes = self.runtime, layout.nbytes
            try:  # ``runtime.current``, written out: on Python 3.11 its call would be a tenth of all this
                current = runtime.threads.current
            except AttributeError:  # the thread's first work; or the runtime was closed, which this says
                current = runtime.current
            allocator = current.allocator
            if current.device != self.ordinal or allocator is None or unsettled:
                return make_tensor(self.allocate(nbytes, current), 0, layout)
            buffer = _allocate(allocator, nbytes, stream=current.stream)  # the most usual case, in fewer steps
            return make_tensor(make_storage(self, nbytes, buffer, int(buffer)), 0, layout)
        low, high = layout.span()
        return make_tensor(self.allocate((high - low) * layout.dtype.itemsize), -low, layout)

    # --- streams

    def stream_handle(self) -> int:
        """The driver's handle of the current stream of this device."""
        chosen = self.runtime.current.streams.get(self.ordinal)
        return 0 if chosen is None else chosen.cuda_stream

    def stream(self) -> Stream:
        """The current stream of this device."""
        chosen: Stream | None = self.runtime.current.streams.get(self.ordinal)
        if chosen is not None:
            return chosen
        if self._default_stream is None:
            self._default_stream = default_stream(self.ordinal, runtime=self.runtime)
        return self._default_stream

    def synchronize(self) -> None:
        self.stream().synchronize()

    def launched(self) -> None:
        """Something else was queued: wait for it, if everything is to be waited for."""
        if self.runtime.launch_blocking:
            self.synchronize()

    def reaches(self, other: Place) -> bool:
        return (
            isinstance(other, DevicePlace)
            and other.runtime is self.runtime
            and self.runtime.can_use(self.ordinal, other.ordinal)
        )

    def wait_for(self, other: Place) -> None:
        assert isinstance(other, DevicePlace)
        self.stream().wait_stream(other.stream())

    def hand_over(self, tensor: Any, handle: int) -> None:
        """Let another library's stream wait for what is queued on the current stream, and on the tensor's own."""
        self._order(self.stream(), handle, take=False)
        owner = tensor._storage.owner
        if isinstance(owner, Buffer) and owner.stream != self.stream_handle():
            self._order(ExternalStream(owner.stream, self.ordinal, runtime=self.runtime), handle, take=False)

    def take_over(self, handle: int) -> None:
        """Let the current stream wait for what is queued on another library's stream."""
        self._order(self.stream(), handle, take=True)

    def _order(self, own: Stream, handle: int, *, take: bool) -> None:
        other = ExternalStream(handle, self.ordinal, runtime=self.runtime)
        if other.cuda_stream == own.cuda_stream:
            return
        if take:
            own.wait_stream(other)
        else:
            other.wait_stream(own)

    # --- copies

    def upload(self, out: Tensor, source: Tensor, *, non_blocking: bool) -> None:
        if _is_numpys(source._storage.owner):  # and so not page-locked: the driver has read it when it returns
            start = source._layout.span()[0] * source._layout.dtype.itemsize  # the same for both
            self._call("memcpy_htod", out._address + start, source._address + start, out._layout.nbytes)
            return
        memcpy(_Range(self, out), _bytes(source), runtime=self.runtime)
        if source._storage.pinned and not non_blocking:
            self.synchronize()

    def download(self, out: Tensor, source: Tensor, *, non_blocking: bool) -> None:
        owner = out._storage.owner
        if _is_numpys(owner) and owner.flags.writeable:  # the driver's copy returns when it is done
            start = source._layout.span()[0] * source._layout.dtype.itemsize
            self._call("memcpy_dtoh", out._address + start, source._address + start, out._layout.nbytes)
            return
        memcpy(_bytes(out), _Range(self, source), runtime=self.runtime)
        if out._storage.pinned and not non_blocking:
            self.synchronize()

    def _call(self, name: str, target: int, source: int, nbytes: int) -> None:
        """A copy of the driver's on the current stream of this device, whatever device is current."""
        copy, stream = getattr(self.driver, name), self.stream_handle()
        if self.driver.current_device() == self.ordinal:
            copy(target, source, nbytes, stream=stream)
        else:
            with self.runtime.on_device(self.ordinal):
                copy(target, source, nbytes, stream=stream)
        if self.runtime.launch_blocking:
            self.synchronize()

    def clear_bytes(self, target: int, nbytes: int) -> None:
        """Zeros written by the driver on the current stream of this device, by address."""
        self._call("memset", target, 0, nbytes)

    def receive(self, out: Tensor, source: Tensor) -> None:
        origin = source._layout.place
        assert isinstance(origin, DevicePlace)
        if origin.runtime is self.runtime:
            memcpy(_Range(self, out), _Range(origin, source), runtime=self.runtime)
        else:
            memcpy(_Range(self, out), origin.read(source), runtime=self.runtime)

    def read(self, source: Tensor) -> npt.NDArray[Any]:
        ready = source if source._layout.contiguous else self.contiguous_copy(source)
        layout = ready._layout
        made: npt.NDArray[Any] = np.empty(layout.shape, layout.dtype.numpy)
        if layout.numel:
            # To memory that is certainly not page-locked the driver's copy returns when it is done.
            self._call("memcpy_dtoh", _address_of(made), ready._address, layout.nbytes)
        return made


def _address_of(made: Any) -> int:
    """Where a new array lies."""
    try:
        return addressof(c_char.from_buffer(made))
    except ValueError:  # a type that Python's buffers do not know: bfloat16, for which NumPy takes twice as long
        return int(made.ctypes.data)


def _is_numpys(owner: Any) -> bool:
    """Whether memory is NumPy's own, possibly by way of views."""
    while isinstance(owner, np.ndarray):
        if owner.flags.owndata:
            return True
        owner = owner.base
    return False


def _bytes(tensor: Tensor) -> npt.NDArray[np.uint8]:
    """The memory of a CPU tensor without gaps, in whatever order of the dimensions."""
    layout = tensor._layout
    low, high = (each * layout.dtype.itemsize for each in layout.span())
    start = tensor._offset * layout.dtype.itemsize
    return tensor._storage.bytes[start + low : start + high]


class _Range:
    """The memory of a tensor without gaps, as copies take it: in the order of the current stream."""

    def __init__(self, place: DevicePlace, tensor: Tensor) -> None:
        self.device_index = place.ordinal
        layout = tensor._layout
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": (layout.nbytes,),
            "typestr": "|u1",
            "data": (tensor._address + layout.span()[0] * layout.dtype.itemsize, False),
        }
