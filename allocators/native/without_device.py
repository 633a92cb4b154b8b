"""An upstream of the native core's own, without a device: with it a replay enters no Python at all."""

from __future__ import annotations

from .. import _native
from ..base import Allocator


class NativeNullUpstream:
    """As ``NullUpstream``, for native allocators alone: one allocator each. ``calls_of`` tells what was asked of it."""

    plans_at_once = True
    """As ``NullUpstream.plans_at_once``."""

    def __init__(
        self,
        total_bytes: int = 1 << 50,
        granularity: int = 512,
        *,
        page_granularity: int = 2 << 20,
        ordinal: int = 0,
    ) -> None:
        self.ordinal = ordinal
        self.native_null = (total_bytes, granularity, page_granularity)

    def memory_info(self) -> tuple[int, int]:
        """What is free and all there is, in bytes, before anything was taken."""
        return self.native_null[0], self.native_null[0]


def calls_of(allocator: Allocator) -> dict[str, float]:
    """What an allocator over a ``NativeNullUpstream`` has asked of it: the calls by their names in the driver API, and
    ``fences``, ``driver_time_us`` and ``used_bytes`` as ``NullUpstream`` has them."""
    counts: dict[str, float] = _native.null_counts(allocator)
    return counts
