"""Which free pages could serve again at an address where they are still mapped."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter

from .page import Alias, Page
from .pages import Pages
from .spans import Opening, Space, Span

__all__ = ["Returning"]


class Returning:
    """A look at what is free in ``spaces``, until something changes there.

    Nothing of it is kept from one operation to the next, since blocks come and go far more often than pages move.
    """

    def __init__(self, pages: Pages, granularity: int, spaces: Iterable[Space]) -> None:
        self._pages = pages
        self._granularity = granularity
        self._spans: list[Span] = []
        if pages.aliases:
            self._spans = [span for space in spaces for span in space.free_spans()]
            self._spans.sort(key=attrgetter("address"))

    def span_of(self, page: Page) -> Span | None:
        """The free span in which ``page`` lies as a whole; None if there is none."""
        place = bisect_right(self._spans, page.address, key=attrgetter("address")) - 1
        if place < 0 or self._spans[place].end < page.address + page.nbytes:
            return None
        return self._spans[place]

    def within(self, opening: Opening) -> Iterator[tuple[Alias, Span]]:
        """The aliases in the holes of ``opening`` whose pages could come, each page once, in order of address.

        None of the pages is one that stands in the opening itself.
        """
        start = opening.address // self._granularity * self._granularity
        end = opening.address + opening.nbytes
        seen: set[int] = set()
        for _, first, last in opening.holes:
            for alias in self._pages.within(first, last):
                page = alias.page
                if id(page) in seen or (start < page.address + page.nbytes and page.address < end):
                    continue
                span = self.span_of(page)
                if span is not None:
                    seen.add(id(page))
                    yield alias, span
