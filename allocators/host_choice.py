"""Which blocks of an iteration lie on the host, where a program repeats itself and the device has no room for all.

The allocator sees births, deaths and sizes, but no uses. What makes a result makes a request for it, so what dies
after a few requests has been used a few times; what lives longer counts as used ``COUNTED_LIFE`` times. Where an
operand of a matrix product lies there, the product takes as long as it has multiplications, whatever the operand's
size. So the best choice is the one of few uses: blocks that serve through as much of the shortage for each use, and
the largest of these, as long as so much is missing. Where memory is short for a few requests, it is what lives for a
few (in a language model, what the loss makes of the logits); where it is short for longer, what lives through all of
that time, instead of the many that come and go in it (in a network of convolutions, what early layers keep for the
backward pass).

An iteration is what lies between two visits to the valley, where hardly more is in use than at the least. Within it, a
request is known again by the sizes of all requests since the valley. So programs are followed whose iterations differ,
such as by the length of a text, as soon as one comes again. What is not known again goes to the host, as before, where
it comes last.

What holds between any two operations (the tests check each):

1. Nothing is noted before something has gone to the host for want of room, and without ``host=`` nothing is ever asked.
2. Only a large block without a tag, and outside private pools, is chosen. Where the host has no room it goes to the
   device, and where that has none either, the usual sequence follows.
3. What is chosen for one iteration relieves the device, at each moment, of what did not fit when it ran short; or all
   blocks that could help are chosen. None is that could be left out. What has been on the host since before the
   iteration is not missing.
4. A chosen block goes there only where no more of the iteration lies there than was chosen of what lives. So where a
   block goes there unforeseen, since a little less fits one time than another, it takes the place of a chosen one.
5. Where the device has room again for all that was chosen, it is chosen no more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise

from .constants import COUNTED_LIFE, LAP_PATIENCE, MOST_RECORDED, PATIENT_LAPS, SHORTAGE_PARTS, VALLEY
from .recurrence import FACTOR
from .statistics import SMALL_BLOCK

_PRECISION = 15
"""Binary digits behind the point of what a use of a block on the host is worth."""


class _Request:
    """One request that was served."""

    __slots__ = ("death", "demand", "key", "nbytes")

    def __init__(self, key: int, nbytes: int, demand: int) -> None:
        self.key = key
        """Tells it apart from all others of the iteration, and is the same in the next."""
        self.nbytes = nbytes
        self.demand = demand
        """Bytes in use with it, but for what was put on the host on purpose or before the iteration."""
        self.death = 0
        """How many requests there had been when it was freed; 0 while it lives."""


class HostChoice:
    """Follows the requests of one allocator, and says which of them are to lie on the host."""

    _refused: int
    _most_on_device: int
    _most_placed: int

    def __init__(self, room: Callable[[], int]) -> None:
        """``room`` answers how many bytes more the device has for the allocator."""
        self._room = room
        self._chosen: set[int] = set()
        self.start_anew()

    def start_anew(self) -> None:
        """Forget what was seen, but not what was chosen: an operation broke off anywhere."""
        self._is_on = False
        self._alive: dict[int, tuple[int, int]] = {}  # by address: the number of the request, and bytes on the host
        self._placed = self._older = 0  # bytes of those on the host: of this iteration, and from before it
        self._low = self._high = 0
        self._least = 0  # since the latest visit to the valley, or the latest time that it was given up; 0 for nothing
        self._since = self._longest = 0  # requests since the latest visit to the valley, and the most between two
        self._start_lap(0, anchored=False)

    def wants(self, nbytes: int, device: int) -> bool:
        """Whether a request that comes now, with ``device`` bytes of the device in use, is to lie on the host."""
        if not self._chosen or self._key_of(nbytes) not in self._chosen:
            return False
        return self._placed <= self._planned and not self._is_valley(device + self._placed + self._older)

    def served(self, address: int, nbytes: int, device: int, *, host: bool, beyond: bool = False) -> None:
        """Note a request that was served.

        Args:
            address: of its block.
            nbytes: its size.
            device: bytes of the device in use before.
            host: whether it lies on the host; and, if ``beyond`` says so, because the device had no room.
        """
        if not self._is_on:
            if not beyond:
                return
            self._is_on = True
            self._low = self._high = device
        self._come_by(device + self._placed + self._older)
        demand = device + self._placed
        self._sum = self._key_of(nbytes)
        if self._sum in self._chosen:
            self._planned += nbytes
        self._alive[address] = self._start + len(self._lap), nbytes if host else 0
        self._lap.append(_Request(self._sum, nbytes, demand + nbytes))
        self._since += 1
        if host:
            self._placed += nbytes
            self._most_placed = max(self._most_placed, self._placed)
        else:
            self._most_on_device = max(self._most_on_device, device + nbytes)
        if beyond:
            self._refused = min(self._refused or device + nbytes, device + nbytes)

    def freed(self, address: int) -> None:
        """Note that a block is gone."""
        found = self._alive.pop(address, None)
        if found is not None:
            number, on_host = found
            if number < self._start:
                self._older -= on_host
                return
            self._placed -= on_host
            request = self._lap[number - self._start]
            request.death = self._start + len(self._lap)
            if request.key in self._chosen:
                self._planned -= request.nbytes

    def _key_of(self, nbytes: int) -> int:
        return (self._sum * FACTOR + nbytes) % (1 << 64)

    def _is_valley(self, demand: int) -> bool:
        return demand <= self._low + max(0, self._high - self._low) // VALLEY

    def _come_by(self, demand: int) -> None:
        """Look whether this is the valley, with so many bytes in use."""
        if self._is_valley(demand):
            if self._refused:
                self._high = self._older + max(request.demand for request in self._lap)
                if self._is_anchored:
                    self._choose()
            elif self._most_placed and self._room() >= self._most_placed:
                self._chosen.difference_update(request.key for request in self._lap)
            self._longest = max(self._longest, self._since)
            self._low, self._least, self._since = min(self._low, demand), 0, 0
            self._start_lap(self._start + len(self._lap), anchored=True)
            return
        self._least = min(self._least or demand, demand)
        if self._since % max(LAP_PATIENCE, PATIENT_LAPS * self._longest) == 0:
            self._low, self._least = self._least, 0
            self._start_lap(self._start + len(self._lap), anchored=False)
        elif len(self._lap) == MOST_RECORDED:
            self._start_lap(self._start + len(self._lap), anchored=False)

    def _start_lap(self, number: int, *, anchored: bool) -> None:
        self._lap: list[_Request] = []
        self._start = number  # of the first request in it
        self._is_anchored = anchored  # whether it began in the valley
        self._sum = 0  # of the sizes since then
        self._older += self._placed
        self._placed = self._planned = 0  # bytes of what lives and lies on the host, and of what was chosen for it
        self._refused = 0  # the least that could not be in use on the device at once; 0 if all could
        self._most_on_device = self._most_placed = 0

    def _choose(self) -> None:
        """Choose among the requests of the iteration that has just ended."""
        self._chosen.difference_update(request.key for request in self._lap)
        if len(self._chosen) >= MOST_RECORDED:
            self._chosen.clear()
        fits = min(self._most_on_device, self._refused - 1)
        moments = [at for at, request in enumerate(self._lap) if request.demand > fits]
        count = min(len(moments), SHORTAGE_PARTS)
        bounds = [part * len(moments) // count for part in range(count + 1)] if count else [0]
        parts = [moments[start:end] for start, end in pairwise(bounds)]
        first, last = [part[0] for part in parts], [part[-1] for part in parts]
        left = [max(self._lap[at].demand for at in part) - fits for part in parts]
        found: list[tuple[int, int, int, int, int, int, int]] = []
        for at, request in enumerate(self._lap):
            # The first comes while it may be the valley still.
            if at and request.nbytes > SMALL_BLOCK and request.death:
                life = request.death - self._start - at
                begin, end = bisect_left(first, at), bisect_left(last, at + life)
                if begin < end:
                    worth = (end - begin << _PRECISION) // min(life, COUNTED_LIFE)
                    helps = min(request.nbytes, max(left[begin:end]))
                    found.append((-worth, -helps, request.nbytes, -life, at, begin, end))
        taken: list[tuple[int, int, int]] = []
        for *_, at, begin, end in sorted(found):
            if any(need > 0 for need in left[begin:end]):
                taken.append((at, begin, end))
                for part in range(begin, end):
                    left[part] -= self._lap[at].nbytes
        for at, begin, end in reversed(taken):
            nbytes = self._lap[at].nbytes
            if all(need + nbytes <= 0 for need in left[begin:end]):
                for part in range(begin, end):
                    left[part] += nbytes
            else:
                self._chosen.add(self._lap[at].key)
