"""What an allocator says when memory is short."""

from __future__ import annotations

from .sizes import format_size


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
    """The message of an OutOfMemoryError: what was asked, what was found, and what to do. Sizes are bytes.

    Args:
        requested: what was asked for.
        stream: for this stream.
        free: what the device has free.
        total: what it has.
        limit: the allocator's own limit, if it has one.
        in_use: what the program holds, rounded.
        in_use_requested: the same as it asked for it.
        reserved: what the allocator holds from upstream.
        largest: the largest free block.
        lost: all free blocks together.
    """
    limited = "" if limit is None else f" The allocator's limit is {format_size(limit)}."
    room = free if limit is None else min(free, max(limit - reserved, 0))
    other = "another allocator or option may fit. cuplug-trace advise tries them on a recorded run."
    if room >= requested:
        advice = (
            f"The allocator may still reserve {format_size(room)}, which is enough for the request, but not for the "
            f"larger size to which the allocator rounds it (rounding), unless the driver refused: {other}"
        )
    elif largest >= requested:
        advice = (
            "The largest free block would do for the request, but it is kept for another stream or pool, or is less "
            f"than the size to which the allocator rounds the request: {other}"
        )
    elif room + lost >= requested:
        advice = (
            f"Enough is free, but in pieces (fragmentation), {format_size(room)} outside of what is reserved and "
            f"{format_size(lost)} within: {other}"
        )
    else:
        larger = "raise the limit" if free >= requested else "choose a larger device"
        advice = f"Free something, use a smaller batch, or {larger}."
    return (
        f"CUDA out of memory. Tried to allocate {format_size(requested)} on stream {stream:#x}. "
        f"The device has {format_size(total)}, of "
        f"which {format_size(free)} are free.{limited} The program holds "
        f"{format_size(in_use)} ({format_size(in_use_requested)} requested) "
        f"and the allocator has reserved {format_size(reserved)}; its largest free block has "
        f"{format_size(largest)}, and {format_size(lost)} are lost to fragmentation. {advice}"
    )
