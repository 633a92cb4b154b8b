"""The kit rejects allocators that hand memory to a stream while another one still works on it."""

from __future__ import annotations

import re

import pytest
from cuplug.allocators.base import BlockInfo, Segment
from cuplug.allocators.statistics import SMALL_BLOCK
from cuplug.plugins.conformance.random_operations import check_random_operations
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.plugins.conformance.stream_order import (
    check_forgotten_streams,
    check_pieces_beside_orphans_are_safe,
    check_recorded_streams_are_waited_for,
    check_streams_are_not_mixed,
)
from cuplug.plugins.conformance.workbench import Bench
from cuplug.runtime.drivers.sim import SimDriver

from .example import ExampleAllocator


class MixesStreams(ExampleAllocator):
    """Reuses across streams without a fence."""

    def _piece_for(self, nbytes, stream):
        fitting = (addresses for (_, size), addresses in self._cached.items() if size == nbytes and addresses)
        found = next(fitting, None)
        return found.pop() if found else None


class IgnoresRecordStream(ExampleAllocator):
    def record_stream(self, block, stream):
        if block not in self.live_blocks():
            super().record_stream(block, stream)


class WaitsForTheWrongStream(ExampleAllocator):
    """Puts one fence behind the first of the recorded streams, and none behind the others."""

    def record_stream(self, block, stream):
        if not block.streams:
            super().record_stream(block, stream)


class ReleasesUnderQueuedWork(ExampleAllocator):
    def _free(self, block):
        del self._live[block.address]
        self._release(block.address, block.nbytes, small=block.nbytes <= SMALL_BLOCK, stream=block.stream)


class StrandsBlocks(ExampleAllocator):
    """Leaves what a destroyed stream has cached to the next stream of its handle."""

    def _forget_stream(self, stream):
        pass


class WaitsForFewSizesOnly(ExampleAllocator):
    """Does not wait for a forgotten stream for which three sizes or more are cached."""

    def _forget_stream(self, stream):
        keys = [key for key in self._cached if key[0] == stream and self._cached[key]]
        if len(keys) < 3:
            self.upstream.fence(stream).wait()
        for key in keys:
            self._cached.setdefault((-1, key[1]), []).extend(self._cached.pop(key))


class Packs(ExampleAllocator):
    """Cuts each piece from upstream into four, and keeps those of a forgotten stream until it is done. Right."""

    def __init__(self, upstream, *, memory_limit=None):
        super().__init__(upstream, memory_limit=memory_limit)
        self._packs = {}
        self._forgotten = []

    def _piece_for(self, nbytes, stream):
        self._take_over()
        return super()._piece_for(nbytes, stream)

    def _allocate(self, requested, nbytes, stream):
        address = self._piece_for(nbytes, stream)
        if address is None:
            address = self._reserve(4 * nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
            self._packs[address] = nbytes, stream
            self._cached.setdefault((stream, nbytes), []).extend(address + index * nbytes for index in (3, 2, 1))
        return self._hand_out(address, requested, nbytes, stream)

    def _forget_stream(self, stream):
        fence = self.upstream.fence(stream)
        for key in [key for key in self._cached if key[0] == stream]:
            self._forgotten.append((fence, key[1], self._cached.pop(key)))

    def _take_over(self):
        for fence, nbytes, addresses in list(self._forgotten):
            if fence.done():
                self._forgotten.remove((fence, nbytes, addresses))
                self._cached.setdefault((-1, nbytes), []).extend(addresses)

    def _release_cached(self):
        for fence, *_ in self._forgotten:
            fence.wait()
        self._take_over()
        released = 0
        for address, (nbytes, stream) in list(self._packs.items()):
            places = [address + index * nbytes for index in range(4)]
            keys = [(owner, size) for owner, size in self._cached if size == nbytes]
            free = {place: key for key in keys for place in self._cached[key]}
            if not all(place in free for place in places):
                continue
            for place in places:
                owner = free[place][0]
                if owner != -1:
                    self.upstream.fence(owner).wait()
                self._cached[free[place]].remove(place)
            self._release(address, 4 * nbytes, small=nbytes <= SMALL_BLOCK, stream=stream)
            del self._packs[address]
            released += 4 * nbytes
        return released

    def _segments(self):
        free = {at: key[1] for key, places in self._cached.items() for at in places}
        free.update((at, nbytes) for _, nbytes, places in self._forgotten for at in places)
        for address, (nbytes, stream) in self._packs.items():
            infos = []
            for at in range(address, address + 4 * nbytes, nbytes):
                infos.append(_inactive(at, nbytes) if at in free else self._state(self._live[at]))
            yield Segment(address, 4 * nbytes, stream, "small" if nbytes <= SMALL_BLOCK else "large", tuple(infos))


def _inactive(address, nbytes):
    return BlockInfo(address, nbytes, 0, "inactive")


class HandsOutPiecesBesideOrphans(Packs):
    """Waits for a forgotten stream only where a whole segment is free; pieces beside live blocks go to anybody."""

    def _forget_stream(self, stream):
        fence = self.upstream.fence(stream)
        for key in [key for key in self._cached if key[0] == stream]:
            nbytes, addresses = key[1], self._cached.pop(key)
            for address, (size, _) in self._packs.items():
                mine = [at for at in addresses if address <= at < address + 4 * size]
                if len(mine) == 4:
                    self._forgotten.append((fence, nbytes, mine))
                else:
                    self._cached.setdefault((-1, nbytes), []).extend(mine)


@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
@pytest.mark.parametrize(
    "check",
    [
        check_forgotten_streams,
        check_pieces_beside_orphans_are_safe,
        check_recorded_streams_are_waited_for,
        check_streams_are_not_mixed,
    ],
    ids=lambda check: check.__name__,
)
def test_an_allocator_that_cuts_pieces_and_waits_for_them_is_accepted(check, schedule, drivers):
    check(Packs, drivers[schedule])


FAULTS = [
    (MixesStreams, check_streams_are_not_mixed, Rule.STREAM_ORDER),
    (IgnoresRecordStream, check_recorded_streams_are_waited_for, Rule.RECORD_STREAM),
    (WaitsForTheWrongStream, check_recorded_streams_are_waited_for, Rule.RECORD_STREAM),
    (ReleasesUnderQueuedWork, check_streams_are_not_mixed, Rule.RELEASE),
    (StrandsBlocks, check_forgotten_streams, Rule.FORGET_STREAM),
    (WaitsForFewSizesOnly, check_forgotten_streams, Rule.FORGET_STREAM),
    (HandsOutPiecesBesideOrphans, check_pieces_beside_orphans_are_safe, Rule.FORGET_STREAM),
]


@pytest.mark.parametrize(("broken", "check", "rule"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_race_between_streams_is_found_and_its_rule_named(rule_broken_by, broken, check, rule):
    assert rule_broken_by(check, broken, "lazy") is rule


def test_a_race_with_a_destroyed_stream_is_told_apart_from_its_successor_of_the_same_handle(drivers):
    with pytest.raises(ContractBrokenError) as caught:
        check_forgotten_streams(StrandsBlocks, drivers["lazy"])
    said = str(caught.value)
    handle = re.search(r"stream (0x\w+) was destroyed and its handle given to a new stream", said)[1]
    assert "_forget_stream has to fence the old one's work" in said
    assert re.search(f"on stream {handle} takes the place of .* on the destroyed stream {handle}", said)


class Opaque:
    """A driver that is not the simulator, as far as the kit can tell: one whose queues it cannot look into."""

    def __init__(self):
        self._driver = SimDriver(schedule="lazy")

    def __getattr__(self, name):
        return getattr(self._driver, name)


@pytest.mark.parametrize(("broken", "check", "rule"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_races_are_found_on_a_driver_that_is_not_the_simulator(broken, check, rule, monkeypatch):
    monkeypatch.setattr(Bench, "keep_busy", lambda bench, lane: None)
    with pytest.raises(ContractBrokenError) as caught:
        check(broken, Opaque)
    assert caught.value.rule is rule


class Blind(Bench):
    """Sees only what queued work finds in memory: neither events nor the simulator's queues are asked."""

    def _check_address(self, live):
        pass

    def _touched(self, address, nbytes):
        return None


@pytest.mark.parametrize("broken", [MixesStreams, IgnoresRecordStream])
def test_what_queued_work_finds_in_memory_gives_a_race_away(broken, drivers, until_found, monkeypatch):
    monkeypatch.setattr("cuplug.plugins.conformance.random_operations.Bench", Blind)
    with pytest.raises(ContractBrokenError) as caught:
        check_random_operations(broken, drivers["random"], profile=until_found)
    assert caught.value.rule is Rule.CONTENTS


class Queues(Bench):
    """Asks only the simulator's queues."""

    def _check_reuse(self, live, freed):
        pass

    def _touched(self, address, nbytes):
        return None


@pytest.mark.parametrize("broken", [MixesStreams, IgnoresRecordStream])
def test_the_simulators_queues_give_a_race_away(broken, drivers, until_found, monkeypatch):
    monkeypatch.setattr("cuplug.plugins.conformance.random_operations.Bench", Queues)
    with pytest.raises(ContractBrokenError, match="is still queued"):
        check_random_operations(broken, drivers["lazy"], profile=until_found)
