"""Where PyTorch's expandable segments lay a block, and what they map for it: for ``expandable:preset=torch``.

The rules are those of ``CUDACachingAllocator.cpp`` (PyTorch 2.1 to 2.11). Address arithmetic only.
"""

from __future__ import annotations

from .spans import FREE, HOLE, LIVE, Opening, Space, Span

_MIB = 1 << 20
_SMALL_PAGE, _LARGE_PAGE = 2 * _MIB, 20 * _MIB
_MOST_RANGE = 1 << 40
"""Bytes of address space for one range at most: a replay's device may be larger than any that there is."""


def page_of(space: Space, granularity: int) -> int:
    """The bytes that are mapped at once: 2 MiB for small blocks, 20 MiB for large ones."""
    return _up(_SMALL_PAGE if space.small else _LARGE_PAGE, granularity)


def bytes_of_range(total: int, nbytes: int, page: int) -> int:
    """The address space to reserve at once on a device of ``total`` bytes, for a block of ``nbytes``: 9/8 of it."""
    return _up(max(min(total + total // 8, _MOST_RANGE), nbytes), page)


def find_as_torch(space: Space, nbytes: int) -> Span | None:
    """The free span of at least ``nbytes`` that is chosen; None if none fits (``get_free_block``).

    It is the smallest. But one that could grow, since a hole lies behind it, counts with that: as long as the next
    larger one counts less, that one is chosen.
    """
    chosen: Span | None = None
    for span in space.free_spans(nbytes):
        if chosen is not None and _reach(span) >= _reach(chosen):
            break
        chosen = span
    return chosen


def lowest_opening(space: Space, nbytes: int, page: int) -> Opening | None:
    """The lowest place for a block where something has to be mapped (``find_expandable_block``); None if there is none.

    It begins with a hole, or with the free memory before it, and goes on behind it up to the next live block. In each
    hole whole pages are mapped, from its beginning on.
    """
    for hole in space.holes():
        span: Span | None = hole.before if hole.before is not None and hole.before.kind == FREE else hole
        assert span is not None
        address, there = span.address, 0
        holes: list[tuple[Span, int, int]] = []
        while there < nbytes and span is not None and span.kind != LIVE:
            if span.kind == HOLE:
                mapped = min(_up(nbytes - there, page), span.nbytes)
                holes.append((span, span.address, span.address + mapped))
            there += span.nbytes
            span = span.after
        if there >= nbytes:
            return Opening(address, nbytes, holes, there)
    return None


def _reach(span: Span) -> int:
    after = span.after
    return span.nbytes + (after.nbytes if after is not None and after.kind == HOLE else 0)


def _up(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit
