"""Finds what repeats in a history of requests, and gives each of its blocks a fixed place. A plan is a small text file.

A plan has a part for each stream that repeats itself: its requests from the first on, up to the end of one cycle, each
with a size and an offset in one range of memory. Time is counted in requests: a block lives from its own until the
request before which it is freed. Within the cycle, lifetimes are arcs of a circle: what lives on into the next one is
laid out first, and all else around it. What outlives a cycle, such as weights, is left out, and so is what the
beginning leaves to the cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .block import ALIGNMENT
from .constants import LEAST_SHARE, MOST_CHANGE
from .errors import CuplugError
from .packing import ORDERS, Buffer, Packing, load_peak, pack, place_buffers

UNPLANNED = -1
"""In place of an offset: the block lives longer than a cycle, and is no part of the plan."""
_FORMAT, _VERSION = "cuplug plan", 2
_FOREVER = 1 << 62

Request = tuple[int, int]
"""Rounded bytes, and how many requests there had been on the stream when the block was freed; -1 if it never was."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The requests on one stream of one device: those of the beginning, then the ones that repeat.

    Sizes and offsets are bytes.
    """

    stream: int
    sizes: list[int]
    """Of the requests, in order. Behind the last one, that at ``begin`` follows again."""
    begin: int
    """The first request of the cycle."""
    offsets: list[int]
    """Where each block lies in the range; ``UNPLANNED`` for those that the plan leaves out."""
    height: int
    """The bytes of the range."""
    bound: int
    """The most bytes that live at once, of those in the plan: what no plan can do without."""
    device: int = 0
    """The ordinal of the device."""

    @property
    def planned_bytes(self) -> int:
        """What is asked for in one cycle and has a place."""
        places = range(self.begin, len(self.sizes))
        return sum(self.sizes[place] for place in places if self.offsets[place] != UNPLANNED)

    @property
    def repeated(self) -> list[int]:
        """The sizes of what repeats."""
        return self.sizes[self.begin :]


@dataclass(frozen=True, slots=True)
class Learned:
    """What a look at the latest requests of a stream has shown."""

    cycle: Cycle | None
    """What has repeated, and is worth following; None if nothing is."""
    begins: int = 0
    """The number of the first request in it."""
    look_again: int = 0
    """If nothing is: with so many requests, what seems to repeat will have come often enough; 0 if nothing does."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cycles of a program, on all its devices. Empty where nothing repeats."""

    cycles: list[Cycle]

    def to_text(self) -> str:
        """The plan as a file: JSON, with one request a line."""
        parts = []
        for cycle in self.cycles:
            pairs = ",\n".join(f"[{size},{at}]" for size, at in zip(cycle.sizes, cycle.offsets, strict=True))
            parts.append(
                f'{{"device":{cycle.device},"stream":{cycle.stream},"height":{cycle.height},"bound":{cycle.bound},"begin":{cycle.begin},'
                f'"requests":[\n{pairs}]}}'
            )
        return f'{{"format":"{_FORMAT}","version":{_VERSION},"cycles":[{",".join(parts)}]}}\n'

    @staticmethod
    def read(path: str) -> Plan:
        """The plan in a file.

        Raises:
            CuplugError: the file cannot be read, is no plan, or one of a newer version.
        """
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CuplugError(f"cannot read the plan {path}: {error}") from None
        try:
            read = json.loads(text)
        except ValueError:
            read = None
        if not isinstance(read, dict) or read.get("format") != _FORMAT:
            raise CuplugError(f"{path} is no plan; cuplug-trace plan makes one from a trace")
        if read.get("version") not in (1, _VERSION):  # the first one knew no devices
            raise CuplugError(
                f"{path} is a plan of version {read.get('version')}, and this cuplug reads version {_VERSION}; make it "
                "anew"
            )
        try:
            return Plan([_checked(part) for part in read["cycles"]])
        except (KeyError, TypeError, ValueError) as error:
            raise CuplugError(f"{path} is a damaged plan ({error}); make it anew") from None


def _checked(part: Any) -> Cycle:
    sizes = [size for size, _ in part["requests"]]
    offsets = [at for _, at in part["requests"]]
    stream, begin, height, bound = part["stream"], part["begin"], part["height"], part["bound"]
    device = part.get("device", 0)
    if not all(type(number) is int for number in (device, stream, begin, height, bound, *sizes, *offsets)):
        raise ValueError("a number is missing")
    if (
        not 0 <= begin < len(sizes)
        or min(sizes) <= 0
        or min(offsets) < UNPLANNED
        or device < 0
        or not 0 <= stream < 1 << 64
    ):
        raise ValueError("a number is out of its range")
    if any(number % ALIGNMENT for number in (*sizes, *(at for at in offsets if at != UNPLANNED))):
        raise ValueError(f"a number is no multiple of {ALIGNMENT}")
    ends = (at + size for at, size in zip(offsets, sizes, strict=True) if at != UNPLANNED)
    if not max(ends, default=0) <= height < 1 << 46:
        raise ValueError("its height is wrong")
    return Cycle(stream, sizes, begin, offsets, height, bound, device)


def find_cycle(sizes: Sequence[int]) -> tuple[int, int] | None:
    """What ``sizes`` repeats at its end, twice at least: where that begins, and the length of one cycle.

    Of several lengths, the one that explains the most, and of these the shortest. None if none explains a quarter.
    """
    return _best_cycle(_equal_starts(sizes[::-1]), 2)


def find_cycle_and_larger(sizes: Sequence[int]) -> tuple[int, int]:
    """The length of what ``sizes`` repeats at its end, twice at least, and of what that seems to be a part of.

    If all that repeats has come before with something else behind it (four parts of a batch, say, and a step of the
    optimizer), it is a part of something larger, until it has come more often than that time. 0 for what there is not.
    """
    same = _equal_starts(sizes[::-1])
    found = _best_cycle(same, 2)
    return (0, 0) if found is None else (found[1], _larger(same, *found))


def _larger(same: list[int], first: int, length: int) -> int:
    """The length of what a cycle seems to be a part of (``find_cycle_and_larger``); 0 for none."""
    return next((lag for lag in range(length + 1, len(same)) if same[lag] >= len(same) - first), 0)


def _best_cycle(same: list[int], repetitions: int) -> tuple[int, int] | None:
    """``find_cycle`` of requests that agree, from the last one backwards, in so many places with those before them."""
    more = repetitions - 1
    found = [(same[length] + length, -length) for length in range(1, len(same)) if same[length] >= more * length]
    explained, negative = max(found, default=(0, 0))
    if not explained or explained * LEAST_SHARE < len(same):
        return None
    return len(same) - explained, -negative


def make_cycle(stream: int, requests: Sequence[Request], *, seconds: float = 5.0) -> Cycle | None:
    """The requests of a stream up to the end of a cycle, with their places packed in about ``seconds``.

    Returns:
        None if nothing repeats.
    """
    found = find_cycle([size for size, _ in requests])
    if found is None:
        return None
    first, length = found
    lives = [_life(requests, place, length) for place in range(first, first + length)]
    turn = _quietest(lives, length, [size for size, _ in requests[first : first + length]])
    begin = first + turn  # there the cycle is cut, since the least lives on
    sizes = [size for size, _ in requests[: begin + length]]
    starting = [max(freed - place, 1) if freed >= 0 else _FOREVER for place, (_, freed) in enumerate(requests[:first])]
    return _packed(stream, sizes, begin, [*starting, *lives, *lives[:turn]], seconds)


def learned_cycle(stream: int, requests: Sequence[Request], repetitions: int, followed: Sequence[int]) -> Learned:
    """What a stream has repeated so often, of late; it begins where the least is alive, and knows no other beginning.

    Packed without improvements, so that the same requests give the same plan. What is ``followed`` already is not
    learnt again, wherever it begins, and neither is a part of something larger (``find_cycle_and_larger``).
    """
    count = len(requests)
    same = _equal_starts([size for size, _ in reversed(requests)])
    found = _best_cycle(same, repetitions)
    if found is None:
        seems = _best_cycle(same, 2)
        return Learned(None, look_again=0 if seems is None else seems[0] + repetitions * seems[1])
    first, length = found
    larger = _larger(same, first, length)
    if larger:
        return Learned(None, look_again=count - same[larger] + (repetitions - 1) * larger)
    lives = [_life(requests, place, length) for place in range(first, first + length)]
    sizes = [size for size, _ in requests[first : first + length]]
    turn = _quietest(lives, length, sizes)
    sizes, lives = [*sizes[turn:], *sizes[:turn]], [*lives[turn:], *lives[:turn]]
    if _repeat_alike(sizes, followed):
        return Learned(None)
    alive = _alive(requests, range(first + turn + length, count + 1, length))  # the first may lack a past
    if max(alive) - min(alive) > sum(sizes) // MOST_CHANGE:
        return Learned(None)
    return Learned(_packed(stream, sizes, 0, lives, 0.0), first + turn)


def _repeat_alike(sizes: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two cycles are the same, wherever each begins."""
    count = len(sizes)
    return count == len(others) and count in (
        min(length, count) for length in _equal_starts([*sizes, *others, *others])[count:]
    )


def _alive(requests: Sequence[Request], places: Sequence[int]) -> list[int]:
    """The bytes that live before each of the requests with these numbers, in order."""
    change = [0] * (len(requests) + 1)
    for place, (size, freed) in enumerate(requests):
        if freed != place:
            change[min(place + 1, len(requests))] += size
            if freed >= 0:
                change[freed] -= size
    found = []
    alive, at = 0, 0
    for place in places:
        alive += sum(change[at : place + 1])
        at = place + 1
        found.append(alive)
    return found


def _life(requests: Sequence[Request], place: int, length: int) -> int:
    """For how many requests the block at ``place`` lives, in the longest of its repetitions; more than ``length`` if it
    is not freed within one."""
    if requests[place][1] < 0:  # in the first cycle, behind which there is a whole one more
        return _FOREVER
    return max(
        max(requests[at][1] - at, 1) if requests[at][1] >= 0 else len(requests) - at
        for at in range(place, len(requests), length)
    )


def _packed(stream: int, sizes: list[int], begin: int, lives: list[int], seconds: float) -> Cycle:
    """Lay out the beginning and one cycle behind it, as one stretch of time."""
    end = len(sizes)
    length = end - begin
    buffers: list[Buffer] = []
    fixed: list[int] = []
    owners: list[int] = []
    owned_early: set[int] = set()
    crossing = 0
    for place in sorted(range(begin, end), key=lambda place: -sizes[place]):
        size, over = sizes[place], place + lives[place] - end
        if lives[place] > length:
            continue
        pieces = [(place, min(place + lives[place], end), size)]
        owned = [place]
        # It lives on into the next cycle: pieces at one offset; and so does its like before the first cycle.
        if over > 0:
            pieces.append((begin, begin + over, size))
            owned.append(place)
            like = place - length
            if like >= 0 and sizes[like] == size and lives[like] == lives[place]:
                pieces.append((like, begin, size))
                owned.append(like)
                owned_early.add(like)
        buffers += pieces
        owners += owned
        fixed += [crossing if over > 0 else -1] * len(pieces)
        crossing += size if over > 0 else 0
    found = pack(buffers, seconds=seconds, fixed=fixed, enough=load_peak(buffers) * 1002 // 1000)
    offsets = [UNPLANNED] * end
    for owner, at in zip(owners, found.offsets, strict=True):
        offsets[owner] = at
    early = [place for place in range(begin) if place + lives[place] <= begin and place not in owned_early]
    for place, at in _beside(buffers, found, [(place, place + lives[place], sizes[place]) for place in early]):
        offsets[place] = at
    return Cycle(stream, sizes, begin, offsets, found.height, found.bound)


def _beside(laid: list[Buffer], packing: Packing, more: list[Buffer]) -> Iterator[tuple[int, int]]:
    """Where those of ``more`` lie that go into a packing as it is, by when they begin: it grows no higher for them.

    In the beginning of a program weights are still missing, so that there is room beside the range.
    """
    best: tuple[int, list[tuple[int, int]]] | None = None
    for key in ORDERS:
        ordered = sorted(more, key=key)
        _, found = place_buffers([*laid, *ordered], range(len(laid), len(laid) + len(more)), packing.offsets)
        placed = list(zip(ordered, found[len(laid) :], strict=True))
        outside = load_peak([buffer for buffer, at in placed if at + buffer[2] > packing.height])
        if best is None or outside < best[0]:
            best = outside, [(buffer[0], at) for buffer, at in placed if at + buffer[2] <= packing.height]
    yield from best[1] if best is not None else ()


def _quietest(lives: list[int], length: int, sizes: list[int]) -> int:
    """The place in a cycle before which the least is alive, of what lives no longer than a cycle."""
    change = [0] * (length + 1)
    alive = 0
    for place, life in enumerate(lives):
        if life <= length:
            change[place] += sizes[place]
            if place + life > length:
                alive += sizes[place]
                change[place + life - length] -= sizes[place]
            elif place + life < length:
                change[place + life] -= sizes[place]
    least, chosen = alive, 0
    for place in range(1, length):
        alive += change[place - 1]
        before = alive + min(change[place], 0)
        if before < least:
            least, chosen = before, place
    return chosen


def _equal_starts(values: Sequence[int]) -> list[int]:
    """For each place, how many values from there on equal those at the start (the Z function)."""
    count = len(values)
    same = [0] * count
    left = right = 0
    for place in range(1, count):
        length = min(right - place, same[place - left]) if place < right else 0
        while place + length < count and values[length] == values[place + length]:
            length += 1
        same[place] = length
        if place + length > right:
            left, right = place, place + length
    return same
