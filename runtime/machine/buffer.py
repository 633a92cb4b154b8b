"""``Buffer``: device memory that goes back to its allocator when nobody holds it any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...allocators.base import Allocator
from ...allocators.block import Block
from ...allocators.errors import CuplugError
from .foreign_handles import stream_handle
from .owner import Owner
from .runtime_upstream import RuntimeUpstream, driver_handle
from .uncopyable import refuse_copies

if TYPE_CHECKING:
    from typing_extensions import Self


class Buffer(Owner):
    """An owning handle of device memory, from ``cuplug.cuda.alloc`` or ``Runtime.alloc``.

    ``int(buffer)`` is its device address, so that calls of PyCUDA and of ``ctypes`` accept it. Dropped or closed, it
    goes back to the allocator that it came from, in the order of the stream that it was allocated for: work queued
    there before may still use the memory, and so may what allocates next there. Other streams that use it must be
    named with ``record_stream`` before it is dropped, as in PyTorch.
    """

    __slots__ = ()
    __reduce_ex__ = refuse_copies("allocate another buffer and fill it with cuplug.cuda.memcpy")

    @classmethod
    def of(cls, block: Block) -> Self:
        """The owner of ``block``, which came from ``Allocator.allocate``. There must be only one.

        Raises:
            TypeError: that is no block.
        """
        if not isinstance(getattr(block, "allocator", None), Allocator):
            raise TypeError(f"cuplug.cuda.alloc(nbytes) makes buffers; {block!r} cannot be made one")
        return cls._of(block)

    @property
    def block(self) -> Block:
        """The block that it owns, for reading.

        Raises:
            CuplugError: the memory is gone.
        """
        try:
            block = self._block
        except AttributeError:
            raise CuplugError("this buffer was closed; it has no memory any more") from None
        if not block.live:
            raise CuplugError(
                "this buffer has no memory any more: its runtime was shut down, or its arena was reset under it"
            )
        return block

    @property
    def address(self) -> int:
        """The device address, the same as ``int(buffer)``. 0 for a buffer of no bytes."""
        return self.block.address

    @property
    def nbytes(self) -> int:
        """The size in bytes, as asked for."""
        return self.block.requested

    @property
    def device(self) -> int:
        """The ordinal of the device whose memory it is."""
        return self._upstream().ordinal

    @property
    def stream(self) -> int:
        """The driver's handle of the stream that it was allocated for."""
        return driver_handle(self.block.stream)

    def record_stream(self, stream: Any) -> None:
        """Say that ``stream`` uses the memory too: once dropped, it is not used again before the work queued on
        ``stream`` at that time is done.

        Args:
            stream: a ``Stream``, another library's stream or a handle.

        Raises:
            CuplugError: the buffer is closed.
            TypeError: that is no stream.
        """
        key = self._upstream().key(stream_handle(stream))
        block = self.block
        block.allocator.record_stream(block, key)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as an array of bytes (CUDA Array Interface, version 3)."""
        block = self.block
        return {
            "version": 3,
            "shape": (block.requested,),
            "typestr": "|u1",
            "data": (block.address, False),
            "strides": None,
            "stream": driver_handle(block.stream) or 1,  # 0 is forbidden: 1 names the legacy stream
        }

    def __enter__(self) -> Self:
        self.block  # noqa: B018 - raises where it is gone
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<Buffer, closed>"
        return f"<Buffer of {self.nbytes} bytes at {self.address:#x} on device {self.device}>"

    def _upstream(self) -> RuntimeUpstream:
        upstream: Any = self.block.allocator.upstream
        while not isinstance(upstream, RuntimeUpstream):  # an adaptor, such as one that takes memory elsewhere
            upstream = upstream.upstream
        return upstream
