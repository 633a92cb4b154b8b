"""Which free pages could serve again at an address where they are still mapped."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import attrgetter

from .page import Alias, Page
from .pages import Pages
from .spans import Opening, Space, Span


class Returning:
    """A look at what is free in ``spaces``, until something changes there.

    Nothing of it is kept from one operation to the next, since blocks come and go far more often than pages move.
    """

    def __init__(self, pages: Pages, granularity: int, spaces: Iterable[Space]) -> None:
        self.pages = pages
        self._granularity = granularity
        self._spans: list[Span] = []
        if pages.aliases:
            self._spans = [span for space in spaces for span in space.free_spans()]
            self._spans.sort(key=attrgetter("address"))
        pages_of = (alias.page for alias in pages.aliases)
        saved = (page.nbytes if self.span_of(page) is not None else -page.nbytes for page in pages_of)
        self._saved = list(accumulate(saved, initial=0))  # by the aliases before each

    def span_of(self, page: Page) -> Span | None:
        """The free span in which ``page`` lies as a whole; None if there is none."""
        place = bisect_right(self._spans, page.address, key=attrgetter("address")) - 1
        if place < 0 or self._spans[place].end < page.address + page.nbytes:
            return None
        return self._spans[place]

    def saving(self, start: int, end: int) -> int:
        """The bytes of pages that could come back between two addresses, less those that would be unmapped there.

        An estimate: a page that is mapped there twice, or stands there already, counts among those that could.
        """
        page = self._granularity
        start, end = start // page * page, -(-end // page) * page
        aliases = self.pages.aliases
        first = bisect_left(aliases, start, key=attrgetter("address"))
        last = bisect_left(aliases, end, key=attrgetter("address"))
        lost = 0
        if last > first and aliases[last - 1].end > end:
            last -= 1
            lost += aliases[last].page.nbytes
        if first and aliases[first - 1].end > start:
            lost += aliases[first - 1].page.nbytes
        return self._saved[last] - self._saved[first] - lost

    def within(self, opening: Opening) -> Iterator[tuple[Alias, Span]]:
        """The aliases in the holes of ``opening`` whose pages could come, each page once, in order of address.

        None of the pages is one that stands in the opening itself.
        """
        start = opening.address // self._granularity * self._granularity
        end = opening.address + opening.nbytes
        seen: set[int] = set()
        for _, first, last in opening.holes:
            for alias in self.pages.within(first, last):
                page = alias.page
                if id(page) in seen or (start < page.address + page.nbytes and page.address < end):
                    continue
                span = self.span_of(page)
                if span is not None:
                    seen.add(id(page))
                    yield alias, span
