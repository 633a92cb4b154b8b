"""Records the requests of one stream as they come, and works out in the background what repeats and where it goes.

The recording is looked at whenever it has grown by a quarter, and when what seems to repeat has come often enough. What
is found is taken up at the point of the cycle where the least is alive, and only if the cycle has come once more,
request by request, up to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

from .constants import MOST_RECORDED, WINDOW
from .follower import Follower
from .planning import Learned, Request, learned_cycle


class Learner:
    """The latest requests of one stream, and the search for a cycle among them."""

    def __init__(self, stream: int, repetitions: int, followed: Sequence[int], *, at_once: bool) -> None:
        """``repetitions``: how often a cycle has to have come. ``followed``: the sizes of the cycle that is followed
        already; none is looked for that is the same. ``at_once``: search in the calling thread."""
        self._followed = followed
        self._stream = stream
        self._repetitions = repetitions
        self._at_once = at_once
        self._search: _Search | None = None
        self._sizes: list[int] = []
        self._ends: list[int] = []
        self._numbers: dict[int, int] = {}
        """By address: the numbers of the blocks that live."""
        self._next_look = WINDOW

    def due(self) -> Follower | None:
        """Who follows the cycle that begins with the next request, if one has been found; else None."""
        search = self._search
        if search is None or not search.done:
            return None
        found, again = search.found, search.learned.look_again
        if again:
            self._next_look = min(self._next_look, again)
        if found is not None:
            length = len(found.cycle.sizes)
            if (len(self._sizes) - search.learned.begins) % length:
                return None
            if self._sizes[-length:] != found.cycle.sizes:  # the program has gone over to something else
                found = None
        self._search = None
        if found is not None:
            self._followed = found.cycle.sizes
        return found

    def forget_cycle(self) -> None:
        """Nothing is followed any more."""
        self._followed = ()

    def asked(self, nbytes: int, address: int) -> None:
        """A request has been served by a block at ``address``."""
        if len(self._sizes) == MOST_RECORDED:
            self._sizes, self._ends, self._numbers, self._search = [], [], {}, None
            self._next_look = WINDOW
        self._numbers[address] = len(self._sizes)
        self._sizes.append(nbytes)
        self._ends.append(-1)
        if len(self._sizes) >= self._next_look and self._search is None:
            self._look()

    def freed(self, address: int) -> None:
        """The block at ``address`` is free again."""
        number = self._numbers.pop(address, None)
        if number is not None:
            self._ends[number] = len(self._sizes)

    def finish(self) -> None:
        """Wait until a search under way has ended."""
        if self._search is not None:
            self._search.finish()

    def _look(self) -> None:
        count = len(self._sizes)
        self._next_look = count + count // 4
        requests = list(zip(self._sizes, self._ends, strict=True))
        self._search = _Search(self._stream, requests, self._repetitions, self._followed)
        if self._at_once:
            self._search.run()
        else:
            self._search.start()


class _Search:
    """One look at a recording, in a thread of its own. It knows nothing of the allocator."""

    def __init__(self, stream: int, requests: list[Request], repetitions: int, followed: Sequence[int]) -> None:
        self.done = False
        self.found: Follower | None = None
        self.learned = Learned(None)
        self._arguments = stream, requests, repetitions, followed
        self._thread: Thread | None = None

    def start(self) -> None:
        thread = Thread(target=self.run, name="cuplug-planning", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there can be no more threads, or the interpreter ends: nothing is found then
            self.done = True
        else:
            self._thread = thread

    def run(self) -> None:
        try:
            with suppress(MemoryError):
                self.learned = learned_cycle(*self._arguments)
                if self.learned.cycle is not None:
                    self.found = Follower(self.learned.cycle, trials=self._arguments[2])
        finally:
            self.done = True  # the last step

    def finish(self) -> None:
        if self._thread is not None:
            self._thread.join()
