"""Page-locked host memory, kept by a caching allocator of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import CuplugError
from ...allocators.upstream import Fence
from ..drivers.base import LEGACY_STREAM, PER_THREAD_STREAM
from ..drivers.device_upstream import EventFence, PinnedUpstream
from ..machine.checks import whole_number
from ..machine.default_runtime import runtime_or_default
from ..machine.owner import Owner, settle_owners
from ..machine.runtime import Runtime
from ..machine.uncopyable import refuse_copies

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Self

_SHOWN, _PRIVATE = "pinned", "private pinned"
_HOST = 0
"""The key under which the host itself uses blocks: it does so at once, with nothing queued."""


def alloc_pinned(nbytes: int, *, runtime: Runtime | None = None) -> PinnedBuffer:
    """``nbytes`` bytes of page-locked host memory, uninitialised. Copies from and to it are truly asynchronous.

    Raises:
        OutOfMemoryError: the driver cannot lock that much.
        CuplugError: there is no device, or the runtime cannot be used any more.
        ValueError: ``nbytes`` is negative.
        TypeError: ``nbytes`` is not a whole number.
    """
    runtime = runtime_or_default(runtime)
    return PinnedBuffer(PinnedMemory.allocate(pinned_allocator(runtime), whole_number(nbytes, "nbytes"), stream=_HOST))


def pinned_allocator(runtime: Runtime, *, private: bool = False) -> Allocator:
    """The allocator of a runtime's page-locked memory: ``caching`` over memory that every device can use.

    What is ``private`` has one of its own: no program has this memory in hand, and so no forked child needs it.
    """
    settle_owners()
    name = _PRIVATE if private else _SHOWN
    if name not in runtime.shared:
        runtime.exclusively(_make_pinned_allocator, runtime, name)
    found = runtime.shared[name]
    assert isinstance(found, Allocator)
    return found


def made_pinned_allocators(runtime: Runtime) -> list[Allocator]:
    """Those that were made."""
    return [runtime.shared[name] for name in (_SHOWN, _PRIVATE) if name in runtime.shared]


def _make_pinned_allocator(runtime: Runtime, name: str) -> None:
    if name not in runtime.shared:
        upstream = _HostUpstream(runtime.driver, runtime.current.device, private=name == _PRIVATE)
        made = runtime.plugins.make_allocator("caching", upstream)
        runtime.keep(made)
        runtime.shared[name] = made


class PinnedBuffer:
    """Page-locked host memory, from ``cuplug.cuda.alloc_pinned``.

    ``array`` shows it to NumPy as bytes, ``numpy.asarray(buffer)`` too. Closed or dropped, the memory serves a later
    buffer once the last array on it is gone and the copies that use it are done.
    """

    __slots__ = ("__weakref__", "_memory")
    _memory: PinnedMemory  # unset once closed
    __reduce_ex__ = refuse_copies("copy its contents, with numpy.array(buffer)")

    def __init__(self, memory: PinnedMemory) -> None:
        """What ``alloc_pinned`` makes of its memory.

        Raises:
            TypeError: ``memory`` is none of ``alloc_pinned``'s.
        """
        if not isinstance(memory, PinnedMemory):
            raise TypeError(f"cuplug.cuda.alloc_pinned(nbytes) makes pinned buffers; {memory!r} cannot be made one")
        self._memory = memory

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """The memory as a NumPy array of bytes. It keeps the memory, also when the buffer is closed."""
        return self._live().array()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._live().__array_interface__

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.array
        if copy or (dtype is not None and np.dtype(dtype) != array.dtype):
            return array.astype(dtype or array.dtype)
        return array

    def __buffer__(self, flags: int) -> memoryview:
        """The buffer protocol, from Python 3.12 on. Before, use ``array``."""
        return self.array.data

    @property
    def address(self) -> int:
        """The host address."""
        return self._live().block.address

    @property
    def nbytes(self) -> int:
        """The size in bytes, as asked for."""
        return self._live().block.requested

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return not hasattr(self, "_memory")

    def close(self) -> None:
        """Give the memory up. Closing again does nothing."""
        with suppress(AttributeError):
            del self._memory

    def __len__(self) -> int:
        return self.nbytes

    def __enter__(self) -> Self:
        self._live()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            "<PinnedBuffer, closed>" if self.closed else f"<PinnedBuffer of {self.nbytes} bytes at {self.address:#x}>"
        )

    def _live(self) -> PinnedMemory:
        try:
            memory = self._memory
        except AttributeError:
            raise CuplugError("this pinned buffer was closed; it has no memory any more") from None
        if not memory.block.live:
            raise CuplugError("this pinned buffer has no memory any more: its runtime was shut down")
        return memory


class PinnedMemory(Owner):
    """Owns a block of page-locked memory. Every NumPy array on it keeps it alive."""

    __slots__ = ()
    __reduce_ex__ = refuse_copies("copy its contents, with numpy.array(...)")

    @property
    def block(self) -> Block:
        """The block, which is not live once the runtime was shut down."""
        return self._block

    def used_by(self, device: int, stream: int) -> None:
        """A copy that uses the memory was queued on ``stream`` (a handle) of ``device``."""
        self.block.allocator.record_stream(self.block, _key(device, stream))

    def array(self) -> npt.NDArray[np.uint8]:
        """The memory as a NumPy array of bytes."""
        return np.asarray(self) if self.block.requested else np.empty(0, np.uint8)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.block.requested,),
            "typestr": "|u1",
            "data": (self.block.address, False),
            "strides": None,
        }


class _HostUpstream(PinnedUpstream):
    """Page-locked memory, whose blocks are used on streams of several devices: keys say which."""

    def fence(self, stream: int) -> Fence:
        if stream == _HOST:
            return _Passed()
        handle, device = divmod(stream - 1, _DEVICES)
        return EventFence(self.driver, device, handle)


class _Passed:
    def done(self) -> bool:
        return True

    def wait(self) -> None:
        pass


_DEVICES = 1 << 10


def _key(device: int, stream: int) -> int:
    """One number for a stream and its device. Not ``_HOST``."""
    if stream == PER_THREAD_STREAM:
        stream = LEGACY_STREAM  # it waits for every thread's own stream, and any thread may make the fence
    return stream * _DEVICES + device + 1
