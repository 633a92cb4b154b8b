"""What an allocator on virtual memory does with the memory of one tag: it sleeps, wakes, and moves to the host or back.

``sleeping.py`` and ``moving.py`` say what holds. Both begin alike: the work is waited for that may use the memory, and
pages in which nothing lies go back. And both end alike: new pages stand where others stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from .address_spaces import AddressSpaces, power_of_two, within
from .block import Block
from .constants import PAGES_OF_ALL
from .errors import CuplugError
from .events import EventKind
from .moving import Copier, why_not_moved
from .page import Page
from .page_exchange import Exchange
from .pages import Emit, Move, runs_of
from .sleeping import Keep, Sleeper, Sleeping
from .spans import Space
from .statistics import Ledger
from .tags import tag_name
from .upstream import Upstream


class TaggedMemory:
    """Of all tags of one allocator. All of this runs under its lock, with no block waiting for streams."""

    def __init__(
        self, upstream: Upstream, ledger: Ledger, spaces: AddressSpaces, in_use: dict[int, Block], emit: Emit
    ) -> None:
        """
        Args:
            upstream: makes fences.
            ledger: counts pages.
            spaces: where the memory lies.
            in_use: the blocks in the program's hands, by address.
            emit: tells the observers.
        """
        self._upstream = upstream
        self._ledger = ledger
        self._spaces = spaces
        self._pages = spaces.pages
        self._in_use = in_use
        self._emit = emit
        self._asleep: dict[int, Sleeper] = {}
        """The tags that are asleep, and with them all their spaces."""
        self._exchange: Exchange | None = None
        """What is moving between the device and the host at present."""

    def is_asleep(self, tag: int) -> bool:
        """Whether this tag is."""
        return tag in self._asleep

    def asleep(self) -> list[Sleeping]:
        """What sleeps, by tags."""
        found = []
        for tag, sleeper in sorted(self._asleep.items()):
            sizes = {block.address: block.nbytes for block in self._blocks_tagged(tag)}
            kept = sum(sizes[address] for address in sleeper.copies)
            found.append(Sleeping(tag_name(tag), len(sizes), sum(sizes.values()), kept))
        return found

    # --- sleep

    def fall_asleep(self, tag: int, keep: Keep | None) -> int:
        """Put what is tagged so to sleep, and return the bytes given back: see ``Allocator.sleep``."""
        spaces = self._spaces.tagged(tag)
        if tag in self._asleep or not spaces:
            return 0
        blocks = self._blocks_tagged(tag)
        self._quieten(spaces, blocks)
        copies = {block.address: keep(block.address, block.nbytes) for block in blocks} if keep is not None else {}
        for copy in copies.values():
            copy.wait()
        pages = [page for space in spaces for page in space.distinct_pages()]
        if not pages:
            return 0
        # From the next line on it is asleep: what an interrupt leaves undone, ``recover`` does.
        self._asleep[tag] = Sleeper({page.address: page for page in pages}, copies)
        self._pages.retire(pages)
        for space in spaces:
            space.fall_asleep()
        self._ledger.num_device_free += len(pages)
        nbytes = sum(page.nbytes for page in pages)
        self._emit(EventKind.SLEEP, 0, 0, nbytes, tag)
        return nbytes

    def wake(self, tag: int) -> int:
        """Wake what is tagged so, and return the bytes taken. A tag that is awake takes none.

        Raises:
            OutOfMemoryError: there is no room; ``needed`` says for how much. It sleeps on.
        """
        sleeper = self._asleep.get(tag)
        if sleeper is None:
            return 0
        self._pages.release_strays()
        self._drop_unused(tag)
        needed, on_host = self.needed(tag), _bytes_of(space for space in self._spaces.tagged(tag) if space.host)
        self._spaces.check_room(needed - on_host, host=False)
        self._spaces.check_room(on_host, host=True)
        filled: list[tuple[Space, list[Page]]] = []
        try:
            for space in self._spaces.tagged(tag):
                for moves in self._moves_to_fill(space, needed, host=space.host):
                    pages = self._pages.carry_out(moves, space.stream)
                    filled.append((space, pages))
            for copy in sleeper.copies.values():
                copy.restore()
            for copy in sleeper.copies.values():
                copy.wait()
        except CuplugError:
            self._pages.retire(page for _, pages in filled for page in pages)
            raise
        del self._asleep[tag]  # from here on it is awake
        for space, pages in filled:
            space.replace_pages(pages)
            self._ledger.num_device_alloc += len(pages)
        for space in self._spaces.tagged(tag):
            space.wake()
        self._emit(EventKind.WAKE, 0, 0, needed, tag)
        return needed

    def needed(self, tag: int) -> int:
        """How many bytes ``wake`` would take."""
        return sum(page.nbytes for page in self._asleep[tag].pages.values())

    def freed(self, block: Block) -> None:
        """A block of a tag that sleeps is gone."""
        self._asleep[block.kept.range.space.tag].copies.pop(block.address, None)

    def wake_all_unused(self) -> None:
        """Before the end: no block is in use, so that nothing has to come back."""
        for tag in list(self._asleep):
            self._drop_unused(tag)
            for space in self._spaces.tagged(tag):
                space.wake()
            del self._asleep[tag]

    def _drop_unused(self, tag: int) -> None:
        """Let go of sleeping pages in which nothing lies any more."""
        pages = self._asleep[tag].pages
        for space in self._spaces.tagged(tag):
            if self._spaces.stays(space):
                continue
            for span in space.free_spans():
                for page in space.whole_pages(span):
                    pages.pop(page.address, None)
                    space.unmapped(span, page.address, page.nbytes)

    # --- moves between the device and the host

    def move(self, tag: int, copier: Copier, *, host: bool) -> int:
        """Move what is tagged so to the host or to the device: see ``Allocator.move``. What lies there already takes
        nothing.

        Raises:
            OutOfMemoryError: there is no room; ``to_move`` says for how much. Nothing has moved.
        """
        if tag in self._asleep:
            raise CuplugError(why_not_moved(tag))
        leaving = self._leaving(tag, host=host)
        blocks = [block for block in self._blocks_tagged(tag) if block.kept.range.space.host is not host]
        self._quieten(leaving, blocks)
        leaving = [space for space in leaving if space.pages]
        nbytes = _bytes_of(leaving)
        if not nbytes:
            return 0
        self._pages.release_strays()
        if host and self._ledger.host + nbytes > self._spaces.most_host:
            self._spaces.give_back_free(self._spaces.movable(host=True))
        self._spaces.check_room(nbytes, host=host)
        exchange = Exchange(leaving, [list(self._moves_to_fill(space, nbytes, host=host)) for space in leaving])
        self._spaces.drop_empty_ranges(self._spaces.ownerless)
        aside = self._spaces.reserve(leaving[0], nbytes)
        exchange.beside = [self._spaces.beside(space, host=host) for space in leaving]
        self._exchange = exchange
        try:
            self._pages.make_aside(exchange.new, exchange.moves, aside.address)
            exchange.copy(blocks, aside.address, copier)
            self._pages.lift(exchange.new)
            self._pages.lift(exchange.old)
            exchange.stand(self._pages)
        except CuplugError:
            exchange.await_copies()
            self._pages.retire(exchange.new)
            with suppress(CuplugError):  # as in a device that is lost: what can be put back is put back
                self._pages.put_back(exchange.old)
            self._exchange = None
            self._spaces.drop_aside(aside)
            raise
        exchange.done = True  # from here on it has moved
        self._spaces.in_use_on_host += sum(block.nbytes for block in blocks) * (1 if host else -1)
        self._take_effect(exchange)
        self._exchange = None
        self._spaces.drop_aside(aside)
        self._emit(EventKind.MOVE, 0, int(host), nbytes, tag)
        return nbytes

    def to_move(self, tag: int, *, host: bool) -> int:
        """How many bytes ``move`` would take."""
        return _bytes_of(self._leaving(tag, host=host))

    def _take_effect(self, exchange: Exchange) -> None:
        self._pages.retire(exchange.old)
        for space, other in zip(exchange.spaces, exchange.beside, strict=True):
            other.take_over(space)
            other.replace_pages(within(list(other.ranges.values()), exchange.new))
        self._ledger.num_device_free += len(exchange.old)
        for page, stream in zip(exchange.new, exchange.streams, strict=True):
            self._pages.tell_mapped(page, stream, is_new=True)
            self._ledger.num_device_alloc += 1

    def _leaving(self, tag: int, *, host: bool) -> list[Space]:
        return [space for space in self._spaces.tagged(tag) if space.host is not host]

    def _finish_exchange(self) -> None:
        """After an interrupt: the pages that count stand in their places, and the others go."""
        exchange = self._exchange
        if exchange is None:
            return
        exchange.await_copies()
        stays, goes = (exchange.new, exchange.old) if exchange.done else (exchange.old, exchange.new)
        self._pages.retire([page for page in goes if self._pages.is_there(page)])
        self._pages.put_back(stays)
        if exchange.done:
            for page, stream in zip(exchange.new, exchange.streams, strict=True):
                page.stream = stream
            for found in self._spaces.ranges:
                if found.space in exchange.spaces:
                    found.space = exchange.beside[exchange.spaces.index(found.space)]
        self._exchange = None

    # --- what both do

    def _quieten(self, spaces: list[Space], blocks: list[Block]) -> None:
        """Wait for the work that may use ``blocks``, which lie in ``spaces``: what is queued on the streams of these,
        and on those recorded for the blocks. What is free there goes back, but what private pools keep."""
        streams = {space.stream for space in spaces if not space.stamps.forgotten}
        for stream in sorted(streams.union(*(block.streams for block in blocks))):
            self._upstream.fence(stream).wait()
        for block in blocks:
            for _, fence in block.fences:
                fence.wait()
        self._spaces.give_back_free(space for space in spaces if not self._spaces.stays(space))

    def _moves_to_fill(self, space: Space, nbytes: int, *, host: bool) -> Iterator[list[Move]]:
        """What to map for a space, one range at a time; in fewer pages than before, if it was built up bit by bit."""
        largest = power_of_two(nbytes // PAGES_OF_ALL, self._spaces.granularity)
        pages = space.distinct_pages()
        for found in space.ranges.values():
            runs = runs_of([page for page in pages if found.holds(page.address)])
            moves = [move for run in runs for move in self._spaces.new_pages(*run, largest, host=host)]
            if moves:
                yield moves

    def _blocks_tagged(self, tag: int) -> list[Block]:
        found = [block for block in self._in_use.values() if block.kept.range.space.tag == tag]
        return sorted(found, key=int)

    def recover(self) -> None:
        """After an interrupt: each tag is asleep or awake, on one side or the other, and with it the spaces of all."""
        self._finish_exchange()
        for sleeper in self._asleep.values():
            sleeper.copies = {address: copy for address, copy in sleeper.copies.items() if address in self._in_use}
        asleep = {tag: sleeper.pages.values() for tag, sleeper in self._asleep.items()}
        self._spaces.recover(self._in_use.values(), asleep)


def _bytes_of(spaces: Iterable[Space]) -> int:
    """Of all their pages."""
    return sum(page.nbytes for space in spaces for page in space.distinct_pages())
