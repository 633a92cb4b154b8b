"""What an allocator must have counted, kept independently, and the comparison with what it says."""

from __future__ import annotations

from collections.abc import Iterable

from ...allocators.base import Allocator
from ...allocators.block import Block, Segment
from ...allocators.statistics import SMALL_BLOCK, Statistics
from .metered import MeteredUpstream
from .rules import Rule, require

_KEPT = ("allocation", "allocated_bytes", "requested_bytes")
"""The counters that follow from the program's calls alone."""


class Expected:
    """The program's allocations and frees, added up."""

    def __init__(self, allocator: Allocator, upstream: MeteredUpstream) -> None:
        self._allocator = allocator
        self._upstream = upstream
        self._figures = {(pool, name): [0, 0, 0, 0] for pool in _POOLS for name in _KEPT}

    def allocated(self, block: Block) -> None:
        """Count an allocation."""
        for figures, amount in self._of(block):
            figures[0] += amount
            figures[1] = max(figures[1], figures[0])
            figures[2] += amount

    def freed(self, block: Block) -> None:
        """Count a free."""
        for figures, amount in self._of(block):
            figures[0] -= amount
            figures[3] += amount

    def peaks_were_reset(self) -> None:
        """Start the peaks again, as ``reset_peaks`` does."""
        for figures in self._figures.values():
            figures[1] = figures[0]

    def adopt(self, statistics: Statistics, live: list[Block], *, most: int, peaks_were_reset: bool = False) -> None:
        """Go on from what an allocator says after an operation was broken off, if that is right.

        What is current must be exact. The operation may have come into the peaks and sums, or not.

        Args:
            statistics: what the allocator says.
            live: the blocks in the program's hands.
            most: the bytes that the operation can have added to any figure.
            peaks_were_reset: whether it has begun to start the peaks again.
        """
        for figures in self._figures.values():
            figures[0] = 0
        for block in live:
            for figures, amount in self._of(block):
                figures[0] += amount
        pools = dict(statistics.pools())
        for (pool, name), figures in self._figures.items():
            found = getattr(pools[pool], name)
            what = f"{pool}.{name} says {found}"
            current, peak, allocated, _ = figures
            step = 3 if name == "allocation" else most  # it, and two probes
            require(found.current == current, Rule.ACCOUNTING, f"{what}, and {current} are in use")
            require(found.allocated - found.freed == current, Rule.ACCOUNTING, f"{what}: its sums do not add up")
            lowest = current if peaks_were_reset else max(peak, current)
            fits = lowest <= found.peak <= max(peak, current) + step
            require(fits, Rule.ACCOUNTING, f"{what}, and its peak was {peak}")
            fits = allocated <= found.allocated <= allocated + step
            require(fits, Rule.ACCOUNTING, f"{what}, and its sum was {allocated}")
            figures[1:] = found.peak, found.allocated, found.freed

    def verify_counted(self, rule: Rule = Rule.ACCOUNTING) -> None:
        """Compare what follows from the program's calls alone: current values, peaks and sums."""
        pools = dict(self._allocator.statistics().pools())
        for (pool, name), expected in self._figures.items():
            found = getattr(pools[pool], name).as_dict()
            kept = dict(zip(("current", "peak", "allocated", "freed"), expected, strict=True))
            require(found == kept, rule, f"{pool}.{name} says {found}, and the program did {kept}")

    def verify(self, live: dict[int, Block]) -> None:
        """Compare the allocator's word with the ledger. ``live``: the blocks in the program's hands, by address."""
        segments = self._allocator.segments()
        statistics = self._allocator.statistics()
        listed = self._allocator.live_blocks()
        require(
            [block.address for block in listed] == sorted(live)
            and all(block is live[block.address] for block in listed),
            Rule.LIVE_BLOCKS,
            f"live_blocks() is {listed}, in the program's hands are {[live[address] for address in sorted(live)]}",
        )
        self.verify_counted()
        self._verify_sums(statistics)
        self._verify_map(segments, live)
        self._verify_held(statistics, segments)

    def _of(self, block: Block) -> Iterable[tuple[list[int], int]]:
        pool = "small_pool" if block.nbytes <= SMALL_BLOCK else "large_pool"
        for name, amount in zip(_KEPT, (1, block.nbytes, block.requested), strict=True):
            yield self._figures["all", name], amount
            yield self._figures[pool, name], amount

    def _verify_sums(self, statistics: Statistics) -> None:
        for name, counter in statistics.all.named():
            parts = getattr(statistics.small, name).current + getattr(statistics.large, name).current
            require(
                counter.current == parts >= 0,
                Rule.ACCOUNTING,
                f"{name}: all {counter}, small and large together {parts}",
            )
            require(counter.peak >= counter.current, Rule.ACCOUNTING, f"{name}: {counter} is above its peak")

    def _verify_map(self, segments: list[Segment], live: dict[int, Block]) -> None:
        end = 0
        mapped = {}
        for segment in segments:
            require(segment.address >= end, Rule.MAP, f"{segment} begins before {end:#x}, where the one before it ends")
            end = segment.address
            for info in segment.blocks:
                require(
                    info.address == end, Rule.MAP, f"{info} does not begin at {end:#x}, where the one before it ends"
                )
                end += info.nbytes
                require(
                    info.state == "inactive" or segment.pool == "large" or info.nbytes <= SMALL_BLOCK,
                    Rule.SEGMENT,
                    f"{info} is large and lies in a segment of the small pool",
                )
                if info.state == "active_allocated":
                    mapped[info.address] = info
            require(end == segment.address + segment.nbytes, Rule.MAP, f"the pieces do not fill {segment}")
        require(
            {address: (info.nbytes, info.requested) for address, info in mapped.items()}
            == {address: (block.nbytes, block.requested) for address, block in live.items()},
            Rule.MAP,
            f"segments() has {list(mapped.values())} in use, in the program's hands are {list(live.values())}",
        )

    def _verify_held(self, statistics: Statistics, segments: list[Segment]) -> None:
        counted = statistics.all
        reserved = sum(segment.nbytes for segment in segments)
        given = self._upstream.held + self._upstream.held_on_host
        require(
            counted.reserved_bytes.current == reserved == given,
            Rule.ACCOUNTING,
            f"statistics say {counted.reserved_bytes.current} bytes reserved, segments() {reserved}, and upstream has "
            f"given {given}",
        )
        on_host = sum(segment.nbytes for segment in segments if segment.host)
        require(
            counted.host_bytes.current == on_host == self._upstream.held_on_host,
            Rule.HOST,
            f"statistics say {counted.host_bytes.current} bytes on the host, segments() {on_host}, and upstream has "
            f"given {self._upstream.held_on_host} there",
        )
        active = [info.nbytes for segment in segments for info in segment.blocks if info.state != "inactive"]
        small = [nbytes for nbytes in active if nbytes <= SMALL_BLOCK]
        large = [nbytes for nbytes in active if nbytes > SMALL_BLOCK]
        for pool, pieces, counters in (
            ("all", active, counted),
            ("small", small, statistics.small),
            ("large", large, statistics.large),
        ):
            figures = counters.active.current, counters.active_bytes.current
            require(
                figures == (len(pieces), sum(pieces)),
                Rule.ACCOUNTING,
                f"{pool}: statistics say {figures[0]} blocks and {figures[1]} bytes active, segments() {len(pieces)} "
                f"and {sum(pieces)}",
            )
            of_pool = [segment.nbytes for segment in segments if pool in ("all", segment.pool)]
            figures = counters.segment.current, counters.reserved_bytes.current
            require(
                figures == (len(of_pool), sum(of_pool)),
                Rule.ACCOUNTING,
                f"{pool}: statistics say {figures[0]} segments and {figures[1]} bytes reserved, segments() "
                f"{len(of_pool)} and {sum(of_pool)}",
            )
        if self._upstream.virtual is None or self._upstream.reserved:
            require(
                statistics.num_device_alloc >= self._upstream.taken,
                Rule.ACCOUNTING,
                f"statistics say {statistics.num_device_alloc} calls upstream, there were {self._upstream.taken}",
            )


_POOLS = ("all", "small_pool", "large_pool")
