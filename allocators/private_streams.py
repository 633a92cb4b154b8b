"""The numbers by which allocators tell streams apart, and the private pools that they may name.

A stream's number has 48 bits. Bits 48 to 62, where they are not all zero, name a private pool: to an allocator it is
another stream, to the device it is the same one. What a private pool holds stays where it is, free or not, since
recorded work (a CUDA graph) comes back to its addresses: it is neither moved nor given back until ``forget_stream``
ends the pool. Its blocks that are live then belong to the stream itself.
"""

from __future__ import annotations

STREAM_BITS = 48
MOST_POOLS = (1 << 15) - 1
_POOL_BITS = MOST_POOLS << STREAM_BITS


def names_pool(stream: int) -> bool:
    """Whether a stream's number names a private pool."""
    return stream & _POOL_BITS != 0


def without_pool(stream: int) -> int:
    """The number of the stream itself, as the device knows it."""
    return stream & ~_POOL_BITS
