"""The pages of one tag, and those that are to take their places on the other side (``moving.py``)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from operator import itemgetter

from .block import Block
from .errors import CuplugError
from .moving import Copier
from .page import Page
from .pages import Move, Pages
from .spans import Space


class Exchange:
    """Pages that stand where blocks of one tag lie, and those that are to take their places."""

    def __init__(self, spaces: list[Space], moves: list[list[list[Move]]]) -> None:
        self.spaces = spaces
        """What moves."""
        self.beside: list[Space] = []
        """The spaces of the other side that they become parts of."""
        self.old = [page for space in spaces for page in space.distinct_pages()]
        self.ranges = [part for parts in moves for part in parts]
        """Where the new pages are to stand: for each range of ``spaces``, in order of address."""
        self.moves = [move for part in self.ranges for move in part]
        """The same, one after the other."""
        each = zip(spaces, moves, strict=True)
        self.streams = [space.stream for space, parts in each for part in parts for _ in part]
        """For each of ``moves``."""
        self.new: list[Page] = []
        self.copier: Copier | None = None
        """Once something may have been queued."""
        self.done = False
        """Whether the new pages are those that count."""

    def stand(self, pages: Pages) -> None:
        """Let the new pages take their places, which are free.

        Raises:
            DriverError: a call failed.
        """
        new = iter(self.new)
        for moves in self.ranges:
            pages.stand([next(new) for _ in moves], moves)

    def copy(self, blocks: Iterable[Block], aside: int, copier: Copier) -> None:
        """Copy the contents of ``blocks`` to the new pages, which stand one behind the other from ``aside`` on."""
        places = []
        for move in self.moves:
            places.append((move.address, aside))
            aside += move.nbytes
        places.sort()
        self.copier = copier
        for block in blocks:
            start, copy = places[bisect_right(places, block.address, key=itemgetter(0)) - 1]
            copier.copy(copy + block.address - start, block.address, block.nbytes)
        copier.wait()

    def await_copies(self) -> None:
        """Wait for what was queued, after a failure."""
        if self.copier is not None:
            with suppress(CuplugError):
                self.copier.wait()
