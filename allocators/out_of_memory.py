"""What an allocator says when memory is short."""

from __future__ import annotations

from collections.abc import Iterable

from .block import Segment
from .sizes import format_size
from .statistics import Counters

__all__ = ["out_of_memory_message", "shortage_message"]


def out_of_memory_message(
    requested: int,
    stream: int,
    free: int,
    total: int,
    limit: int | None,
    counted: Counters,
    segments: Iterable[Segment],
) -> str:
    """The message of an OutOfMemoryError: what was asked, what was found, and what to do.

    Args:
        requested: the bytes asked for.
        stream: for this stream.
        free: the device's free bytes.
        total: the device's bytes.
        limit: the allocator's own limit in bytes, if it has one.
        counted: the allocator's counters.
        segments: its map.
    """
    awake = [segment for segment in segments if not segment.asleep]
    inactive = [info.nbytes for segment in awake for info in segment.blocks if info.state == "inactive"]
    largest, lost = max(inactive, default=0), sum(inactive)
    in_use, asked, held = counted.allocated_bytes, counted.requested_bytes, counted.reserved_bytes
    return shortage_message(
        requested, stream, free, total, limit, in_use.current, asked.current, held.current, largest, lost
    )


def shortage_message(
    requested: int,
    stream: int,
    free: int,
    total: int,
    limit: int | None,
    in_use: int,
    in_use_requested: int,
    reserved: int,
    largest: int,
    lost: int,
) -> str:
    """The same from figures alone, in bytes.

    Args:
        requested, stream, free, total, limit: as of ``out_of_memory_message``.
        in_use: what the program holds, rounded.
        in_use_requested: the same as it asked for it.
        reserved: what the allocator holds from upstream.
        largest: the largest free block.
        lost: all free blocks together.
    """
    limited = "" if limit is None else f" The allocator's limit is {format_size(limit)}."
    advice = (
        "Much of it is fragmentation: another allocator or option may fit; compare them by replaying a trace."
        if lost >= requested
        else "Free something, use a smaller batch, or choose a larger device."
    )
    return (
        f"tried to allocate {format_size(requested)} on stream {stream:#x}. The device has {format_size(total)}, of "
        f"which {format_size(free)} are free.{limited} The program holds "
        f"{format_size(in_use)} ({format_size(in_use_requested)} requested) "
        f"and the allocator has reserved {format_size(reserved)}; its largest free block has "
        f"{format_size(largest)}, and {format_size(lost)} are lost to fragmentation. {advice}"
    )
