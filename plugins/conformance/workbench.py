"""The bench on which an allocator is tested: a driver, streams, a metered upstream, and a model of what must hold."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

from ...allocators.base import Allocator
from ...allocators.block import ALIGNMENT, Block
from ...allocators.errors import DriverError, OutOfMemoryError
from ...runtime.drivers.base import Driver
from ...runtime.drivers.device_upstream import DeviceUpstream, on_device
from ...runtime.drivers.sim import SimDriver
from .expected import Expected
from .metered import MeteredUpstream
from .rules import ContractBrokenError, DeadlockError, Rule, broken_by, require

Factory = Callable[..., Allocator]
"""Makes an allocator over the upstream that it is given, with the options that it is given by name."""
Drivers = Callable[[], Driver]
"""Makes a driver."""

MIB = 1 << 20
SIZES = (1, 511, 512, 513, 4096, 100_000, MIB - 1, MIB, MIB + 1, 3 * MIB, 11 * MIB)
"""Sizes in bytes about which allocators make decisions."""

_REMEMBERED = 8
"""Operations that a failure tells of."""
_WHOLE = 1 << 20
_SAMPLE = 64
_SCRATCH = 1 << 20


class Lane:
    """A stream. Another one may get its handle once it is destroyed; the lane stays this one."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.destroyed = False

    def __repr__(self) -> str:
        return f"{'the destroyed ' * self.destroyed}stream {self.handle:#x}"


class Live:
    """A block in the program's hands, and what has been done with it."""

    def __init__(self, block: Block, lane: Lane) -> None:
        self.block = block
        self.address, self.nbytes, self.requested = block.address, block.nbytes, block.requested
        self.lane = lane
        self.users: dict[Lane, int | None] = {lane: None}
        """The streams that use it, and an event behind the latest use on each."""
        self.value: int | None = None
        """What every byte of it holds, once the queued work has run."""

    def __repr__(self) -> str:
        return f"the block of {self.requested} bytes at {self.address:#x} on {self.lane!r}"


class _Freed:
    """Memory that was freed, and an event on every stream that may still touch it."""

    def __init__(self, live: Live, events: dict[Lane, int]) -> None:
        self.start, self.end = live.address, live.address + live.nbytes
        self.live = live
        self.events = events


class Bench:
    """One allocator on one device. Every operation checks what the contract says of it.

    Args:
        factory: makes the allocator over an upstream.
        drivers: makes a driver; the simulator by default.
        capacity: the bytes that the upstream gives at most.
        streams: how many streams to create besides the default one.
    """

    def __init__(
        self, factory: Factory, drivers: Drivers = SimDriver, *, capacity: int = 192 << 20, streams: int = 3
    ) -> None:
        self._factory = factory
        self._drivers = drivers
        self._capacity = capacity
        self._streams = streams
        self.lost = False
        """Set where a test leaves the allocator unusable: then only the driver is closed at the end."""

    def __enter__(self) -> Bench:  # noqa: PYI034 - typing has Self from Python 3.11 on
        self.driver = driver = self._drivers()
        driver.set_device(0)
        self._simulator = driver if isinstance(driver, SimDriver) else None
        try:
            self._set_up(driver)
        except BaseException:
            driver.close()
            raise
        return self

    def _set_up(self, driver: Driver) -> None:
        self._before = self._handles()
        self.upstream = MeteredUpstream(DeviceUpstream(driver, 0), self._capacity, self._touched)
        self.lanes = [Lane(0), *(Lane(driver.stream_create()) for _ in range(self._streams))]
        self.live: list[Live] = []
        self.spare: list[Block] = []
        """Blocks that a test took without the bench's help."""
        self._freed: list[_Freed] = []
        self._value = 0
        self._scratch = driver.host_alloc(_SCRATCH)
        self._expected: list[tuple[int, int, str]] = []
        self._operations: deque[tuple[Any, ...]] = deque(maxlen=_REMEMBERED)
        self._load: int | None = None
        self.allocator = self._factory(self.upstream)
        self.ledger = Expected(self.allocator, self.upstream)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        """Close everything. Whatever was raised in between, or now, becomes a failure that names a rule."""
        if isinstance(error, DeadlockError):
            return
        try:
            if error is None and not self.lost:
                self._operations.append(("close the allocator",))
                self.close()
        except ContractBrokenError as found:
            self.tell(found)
            raise
        except Exception as found:
            raise self.tell(found) from found
        finally:
            self.driver.close()
        if isinstance(error, Exception):
            broken = self.tell(error)
            if broken is not error:
                raise broken from error

    def tell(self, error: Exception) -> ContractBrokenError:
        """The failure that names the rule broken by ``error``, and what was done last."""
        broken = broken_by(error)
        if not broken.operations:
            broken.operations = tuple(words.format(*values) for words, *values in self._operations)
        return broken

    # --- what a program does

    def allocate(self, nbytes: int, lane: Lane) -> Live:
        """Allocate, and check the block's address, its size, and that nothing else is in its place.

        Raises:
            OutOfMemoryError: the allocator's; checked to be justified and to have lost nothing.
        """
        self._operations.append(("allocate {} bytes on stream {:#x}", nbytes, lane.handle))
        refused = self.upstream.refused
        try:
            block = self.allocator.allocate(nbytes, stream=lane.handle)
        except OutOfMemoryError:
            self._check_failure(refused)
            raise
        return self.took(block, nbytes, lane)

    def took(self, block: Block, nbytes: int, lane: Lane) -> Live:
        """Check and note a block that the allocator gave for ``nbytes`` on ``lane``."""
        live = Live(block, lane)
        self._check_block(live, nbytes)
        self._check_address(live)
        self._check_side(live)
        self.ledger.allocated(block)
        self.live.append(live)
        return live

    def touch(self, live: Live, lane: Lane | None = None) -> None:
        """Queue work on ``lane``: check what the block holds, and write something new, behind all earlier uses."""
        lane = lane or (self.lanes[0] if live.lane.destroyed else live.lane)
        self._operations.append(
            ("use the {} bytes at {:#x} on stream {:#x}", live.requested, live.address, lane.handle)
        )
        if lane not in live.users:
            self.allocator.record_stream(live.block, lane.handle)
            live.users[lane] = None
            if live.users[live.lane] is None:
                self._mark(live, live.lane)  # what is queued there may still use the memory's last block
        for other, event in live.users.items():
            if event is not None and other is not lane:
                self.driver.stream_wait_event(lane.handle, event)
        if live.value is not None:
            self._expect(live, lane)
        self._value = live.value = self._value % 250 + 1
        for address, nbytes in _parts(live):
            self.driver.memset(address, live.value, nbytes, stream=lane.handle)
        self._mark(live, lane)
        self.check_upstream()

    def free(self, live: Live) -> None:
        """Free, and remember what is queued behind the block."""
        self.gave_up(live)
        self.allocator.free(live.block)
        self.check_upstream()

    def gave_up(self, live: Live) -> None:
        """Note that the block is freed now."""
        self._operations.append(("free the {} bytes at {:#x}", live.requested, live.address))
        events = {lane: self._mark(live, lane) for lane in live.users}
        self.live.remove(live)
        self._freed.append(_Freed(live, events))
        self.ledger.freed(live.block)

    def kept(self, live: Live) -> None:
        """Note that a block that was given up is in the program's hands after all: its free was broken off."""
        self._freed = [freed for freed in self._freed if freed.live is not live]
        self.live.append(live)

    def synchronize(self) -> None:
        """Wait for all queued work, and check what the queued reads have found."""
        self._operations.append(("wait for all queued work",))
        try:
            self.driver.synchronize()
        except DriverError as error:
            raise broken_by(error) from error
        expected, self._expected = self._expected, []
        for offset, value, what in expected:
            found = ctypes.string_at(self._scratch + offset, _SAMPLE)
            require(
                found == bytes([value]) * _SAMPLE,
                Rule.CONTENTS,
                f"{what} was filled with {value} and holds {sorted(set(found))} once the queued work has run",
            )
        for freed in self._freed:
            self._forget(freed)
        self._freed.clear()

    def keep_busy(self, lane: Lane) -> None:
        """Queue work that takes a GPU some milliseconds, so that what is queued behind it stays queued."""
        nbytes, times = (4096, 2) if self._simulator is not None else (512 << 20, 30)
        if self._load is None:
            self._load = self.driver.mem_alloc(nbytes)
        for _ in range(times):
            self.driver.memset(self._load, 0, nbytes, stream=lane.handle)

    def replace(self, lane: Lane) -> None:
        """Destroy a stream, also one that live blocks are on, and create another one in its place."""
        self._operations.append(("forget and destroy stream {:#x}, and create another one", lane.handle))
        for live in self.live:
            if lane in live.users:
                self._mark(live, lane)
        self.allocator.forget_stream(lane.handle)
        self.driver.stream_destroy(lane.handle)
        lane.destroyed = True
        self.lanes[self.lanes.index(lane)] = Lane(self.driver.stream_create())

    def start_over(self) -> None:
        """Free everything; an arena (an allocator with ``reset``) takes its memory back only then."""
        for live in list(self.live):
            self.free(live)
        reset = getattr(self.allocator, "reset", None)
        if callable(reset):
            reset()

    def release_cached(self) -> int:
        """Call ``release_cached``, and raise what the upstream has noticed. Returns the bytes."""
        self._operations.append(("release_cached()",))
        released = self.allocator.release_cached()
        self.check_upstream()
        return released

    def verify(self) -> None:
        """Compare statistics, map and live blocks with the model."""
        self.ledger.verify({live.address: live.block for live in self.live})
        self.check_upstream()

    def close(self) -> None:
        """Close the allocator, and check that everything went back."""
        self.synchronize()
        left = [live.block for live in self.live]
        self.allocator.close()
        self.check_upstream()
        left_there = self.upstream.held + self.upstream.held_on_host
        require(not left_there, Rule.CLOSE, f"{left_there} bytes were not given back upstream")
        for block in left:
            self.allocator.free(block)
        self.dismantle()

    def dismantle(self) -> None:
        """Take the bench itself away, and check that the driver is as it was."""
        for live in self.live:
            for event in live.users.values():
                if event is not None:
                    self.driver.event_destroy(event)
        self.live.clear()
        for freed in self._freed:
            self._forget(freed)
        if self._load is not None:
            self.driver.mem_free(self._load)
        self.driver.host_free(self._scratch)
        for lane in self.lanes[1:]:
            self.driver.stream_destroy(lane.handle)
        after = self._handles()
        require(after == self._before, Rule.CLOSE, f"the driver had {self._before} before, and has {after} afterwards")

    def check_upstream(self) -> None:
        """Raise what the upstream has noticed."""
        if self.upstream.faults:
            raise self.upstream.faults[0]

    def _mark(self, live: Live, lane: Lane) -> int:
        """The event behind everything that is queued on ``lane`` now, as far as ``live`` is concerned."""
        event = live.users[lane]
        if event is None:
            event = live.users[lane] = self.driver.event_create()
        if not lane.destroyed:
            self.driver.event_record(event, stream=lane.handle)
        return event

    # --- checks

    def _check_block(self, live: Live, asked: int) -> None:
        block = live.block
        require(block.allocator is self.allocator, Rule.INVALID_FREE, f"{live!r} names another allocator as its own")
        require(
            block.address % ALIGNMENT == 0 and block.nbytes % ALIGNMENT == 0 and block.address > 0,
            Rule.ALIGNED,
            f"{live!r} has {block.nbytes} bytes",
        )
        require(
            block.requested == asked <= block.nbytes, Rule.ALIGNED, f"{live!r} has {block.nbytes}, {asked} were asked"
        )
        require(block.stream == live.lane.handle, Rule.STREAM_ORDER, f"{live!r} says that it is on {block.stream:#x}")

    def _check_address(self, live: Live) -> None:
        start, end = live.address, live.address + live.nbytes
        for other in self.live:
            if other.address < end and other.address + other.nbytes > start:
                raise ContractBrokenError(Rule.NO_OVERLAP, f"{live!r} overlaps {other!r}")
        given = self.upstream.covers(start, live.nbytes)
        require(given, Rule.NO_OVERLAP, f"{live!r} lies in no memory that upstream gave")
        for freed in self._freed:
            if freed.start < end and freed.end > start:
                self._check_reuse(live, freed)
        if self._simulator is not None:
            pending = self._simulator.pending_access(start, live.nbytes, before_stream=live.lane.handle)
            require(not pending, Rule.STREAM_ORDER, f"{live!r} lies where {pending} is still queued")

    def _check_side(self, live: Live) -> None:
        """Check that a block lies on the host only where the device, its unused memory given back, has no room."""
        if not self.upstream.held_on_host or not any(
            segment.host and segment.address <= live.address < segment.address + segment.nbytes
            for segment in self.allocator.segments()
        ):
            return
        limit = self.allocator.memory_limit
        capacity = self.upstream.capacity
        room = (capacity if limit is None else min(limit, capacity)) - self.upstream.held
        most = live.nbytes + 2 * self.upstream.granularity_of_pages
        require(room < most, Rule.HOST, f"{live!r} lies on the host, while the device has {room} bytes free")

    def _check_reuse(self, live: Live, freed: _Freed) -> None:
        for lane, event in freed.events.items():
            if lane is live.lane or self.driver.event_query(event):
                continue
            what = f"{live!r} takes the place of {freed.live!r}, whose work"
            if lane is not freed.live.lane:
                raise ContractBrokenError(Rule.RECORD_STREAM, f"{what} on {lane!r} is still queued")
            what += " is still queued"
            if not lane.destroyed:
                raise ContractBrokenError(Rule.STREAM_ORDER, what)
            again = " and its handle given to a new stream" * (lane.handle == live.lane.handle)
            raise ContractBrokenError(
                Rule.FORGET_STREAM,
                f"stream {lane.handle:#x} was destroyed{again}; _forget_stream has to fence the old one's work: {what}",
            )

    def _check_failure(self, refused: int) -> None:
        self.check_upstream()
        self.ledger.verify_counted(Rule.NOTHING_LOST)
        limited = self.allocator.memory_limit is not None
        require(
            limited or self.upstream.refused > refused,
            Rule.LAST_RESORT,
            "an allocation failed without asking upstream for memory",
        )
        arena = hasattr(self.allocator, "reset")
        for segment in self.allocator.segments():
            states = {info.state for info in segment.blocks}
            require("active_pending_free" not in states, Rule.LAST_RESORT, f"a block still waits in {segment}")
            kept = arena or segment.host  # what is kept there helps the device nothing
            require(kept or states != {"inactive"}, Rule.LAST_RESORT, f"{segment} is held and unused")
        try:
            self.verify()
        except ContractBrokenError as broken:
            raise ContractBrokenError(Rule.NOTHING_LOST, f"after one, {broken}") from broken

    def _expect(self, live: Live, lane: Lane) -> None:
        assert live.value is not None
        for address, nbytes in _parts(live):
            for at in {address, address + nbytes // 2 // _SAMPLE * _SAMPLE, address + nbytes - _SAMPLE}:
                if (len(self._expected) + 1) * _SAMPLE > _SCRATCH:
                    return
                offset = len(self._expected) * _SAMPLE
                self.driver.memcpy_dtoh(self._scratch + offset, at, _SAMPLE, stream=lane.handle)
                self._expected.append((offset, live.value, f"{live!r}, read at {at:#x} on {lane!r},"))

    def _forget(self, freed: _Freed) -> None:
        for event in freed.events.values():
            self.driver.event_destroy(event)

    def _touched(self, address: int, nbytes: int) -> str | None:
        for freed in self._freed:
            if freed.start < address + nbytes and freed.end > address:
                with on_device(self.driver, 0):  # a finaliser may have come on any thread
                    for lane, event in freed.events.items():
                        if not self.driver.event_query(event):
                            return f"work was queued behind {freed.live!r} on {lane!r}"
        pending = self._simulator.pending_access(address, nbytes) if self._simulator is not None else ()
        return f"{pending} was queued" if pending else None

    def _handles(self) -> object:
        return self._simulator.live if self._simulator is not None else None


def _parts(live: Live) -> list[tuple[int, int]]:
    """What the bench fills: all of a block, or the two ends of a large one."""
    if live.nbytes <= _WHOLE:
        return [(live.address, live.nbytes)]
    return [(live.address, _WHOLE // 16), (live.address + live.nbytes - _WHOLE // 16, _WHOLE // 16)]
