"""Where a block is laid that no free span can hold: where little has to be mapped for it, now and later."""

from __future__ import annotations

from .returning import Returning
from .spans import FREE, Opening, Space


def best_opening(space: Space, nbytes: int, returning: Returning | None = None) -> Opening | None:
    """The best place for a block of ``nbytes`` in free spans and holes between two live blocks; None if there is none.

    It begins or ends where one of them does. The best one is where the least has to be mapped; of equals that between
    live blocks that are close together, then the lowest.

    With ``returning``, for pages that have to come from elsewhere, it may begin or end where an alias does, too. Pages
    that could come back to where they are still mapped count as less to map then, and those that would have to be
    unmapped as more: they are mapped anew once they are needed. Of equals the one comes first that misses least.
    """
    best: Opening | None = None
    least: tuple[int, int, int, int] | None = None
    for gap in space.gaps():
        start, end = gap[0].address, gap[-1].end
        starts = {span.address for span in gap} | {span.end - nbytes for span in gap if span.kind == FREE}
        for alias in returning.pages.within(start, end) if returning is not None else ():
            starts |= {alias.address, alias.end - nbytes}
        for address in starts:
            if not start <= address <= end - nbytes:
                continue
            found = Opening(address, nbytes, space.missing(gap, address, address + nbytes), end - start)
            saving = returning.saving(address, address + nbytes) if returning is not None else 0
            rank = found.missing - saving, found.missing, found.room, address
            if least is None or rank < least:
                best, least = found, rank
    return best
