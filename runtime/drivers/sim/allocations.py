"""Device memory as ``cuMemAlloc`` gives it out."""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort

from ....allocators.errors import OutOfMemoryError
from ....allocators.sizes import format_size
from ..base import driver_error
from .gaps import Gaps, free_pieces, round_up
from .mapping import POISON, Reservation

PAGE = 2 << 20
"""Bytes of which a device's physical memory consists, as on NVIDIA's GPUs."""
_ALIGNMENT = 512
_SMALL = 1 << 20  # allocations up to this share physical pages


class PhysicalMemory:
    """How much memory a device has, or the host for pages, counted in whole pages."""

    def __init__(self, capacity: int, option: str = "memory") -> None:
        """``option`` is the driver's option that gives it so much."""
        self.total = self.free = capacity // PAGE * PAGE
        self._option = option

    def take(self, nbytes: int, requested: int) -> None:
        """Use up ``nbytes``.

        Raises:
            OutOfMemoryError: that many are not free. ``requested`` is what the program asked for.
        """
        if nbytes > self.free:
            raise self.exhausted(requested)
        self.free -= nbytes

    def give(self, nbytes: int) -> None:
        """Undo ``take``."""
        self.free += nbytes

    def exhausted(self, requested: int) -> OutOfMemoryError:
        """What to raise."""
        return OutOfMemoryError(
            f"asked the simulated {'device' if self._option == 'memory' else 'host'} for {format_size(requested)}: "
            f"{format_size(self.free)} of {format_size(self.total)} are free; free some, or give it more with the "
            f"driver's option {self._option}="
        )


class Allocations:
    """The allocations in a piece of address space. Addresses are given out again as soon as something fits.

    Allocations of up to 1 MiB share pages, larger ones have pages of their own. ``sizes`` is the truth of what is
    allocated; all else follows from it, and ``mend`` makes it anew.
    """

    __slots__ = ("_end", "_large", "_physical", "_small", "_space", "_start", "_starts", "_used_up_to", "sizes")

    def __init__(self, space: Reservation, start: int, end: int, physical: PhysicalMemory) -> None:
        self.sizes: dict[int, int] = {}
        """Requested bytes by address."""
        self._space = space
        self._start, self._end = start, end
        self._physical = physical
        self._starts: list[int] = []
        self._large = Gaps()
        self._large.give(start, end - start)
        self._small = Gaps(border=PAGE)
        self._used_up_to: dict[int, int] = {}
        """By shared page: below this address its memory was given out before, and may hold anything."""

    def prepare(self, nbytes: int) -> int:
        """Where the next allocation of ``nbytes`` lies, ready for use. It is made by entering it in ``sizes``."""
        if nbytes <= 0:
            raise driver_error(1, f"mem_alloc of {nbytes} bytes; ask for at least 1")
        small = nbytes <= _SMALL
        address = self._prepare_small(nbytes) if small else self._take_pages(round_up(nbytes, PAGE), nbytes)
        insort(self._starts, address)
        return address

    def release(self, address: int, nbytes: int) -> None:
        """As ``cuMemFree``, without its waiting, for an entry of ``sizes``, if it is still there."""
        if self.sizes.get(address) is not nbytes:
            return
        del self.sizes[address]
        del self._starts[bisect_right(self._starts, address) - 1]
        if nbytes > _SMALL:
            self._give_pages(address, round_up(nbytes, PAGE))
            return
        start, size = self._small.give(address, round_up(nbytes, _ALIGNMENT))
        if size == PAGE:
            self._small.withdraw(start, size)
            del self._used_up_to[start]
            self._give_pages(start, size)

    def mend(self) -> int:
        """Make anew what follows from ``sizes``, after an interrupted call. Returns the physical bytes in use."""
        pages: dict[int, list[tuple[int, int]]] = {}
        whole: list[tuple[int, int]] = []
        for address, nbytes in self.sizes.items():
            if nbytes > _SMALL:
                whole.append((address, round_up(nbytes, PAGE)))
            else:
                pages.setdefault(address // PAGE * PAGE, []).append((address, round_up(nbytes, _ALIGNMENT)))
        whole += ((page, PAGE) for page in pages)
        large, small = Gaps(), Gaps(border=PAGE)
        for start, size in free_pieces(self._start, self._end, whole):
            self._space.clear(start, size)
            large.give(start, size)
        for page, used in pages.items():
            for start, size in free_pieces(page, page + PAGE, used):
                small.give(start, size)
        self._starts = sorted(self.sizes)
        self._large, self._small = large, small
        self._used_up_to = {page: page + PAGE for page in pages}
        return sum(size for _, size in whole)

    def fault(self, address: int, nbytes: int) -> str | None:
        """Why the range is not within one live allocation, or None."""
        position = bisect_right(self._starts, address) - 1
        if position >= 0:
            start = self._starts[position]
            size = self.sizes[start]
            if address + nbytes <= start + size:
                return None
            if address < start + size:
                return f"the allocation at {start:#x} has {size} bytes and ends at {start + size:#x}"
        return "no live allocation holds it"

    def _prepare_small(self, nbytes: int) -> int:
        size = round_up(nbytes, _ALIGNMENT)
        address = self._small.take(size)
        if address is None:
            address = self._take_pages(PAGE, nbytes)
            self._used_up_to[address] = address + size
            self._small.give(address + size, PAGE - size)
            return address
        page = address // PAGE * PAGE
        used_up_to = self._used_up_to[page]
        if address < used_up_to:
            ctypes.memset(address, POISON, min(size, used_up_to - address))
        self._used_up_to[page] = max(used_up_to, address + size)
        return address

    def _take_pages(self, size: int, requested: int) -> int:
        self._physical.take(size, requested)
        address = self._large.take(size)
        if address is None:
            self._physical.give(size)
            raise self._physical.exhausted(requested)
        try:
            self._space.fill_with_poison(address, size)
        except OSError as error:
            self._large.give(address, size)
            self._physical.give(size)
            raise OutOfMemoryError(f"this machine cannot back {format_size(size)} of simulated memory") from error
        return address

    def _give_pages(self, address: int, size: int) -> None:
        self._space.take_poison_back(address, size)
        self._large.give(address, size)
        self._physical.give(size)
