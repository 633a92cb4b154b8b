"""Owners of blocks: what they own goes back, also where an interrupt comes in their end."""

from __future__ import annotations

from typing import Any

import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.machine.owner import Owner, settle_owners


class Interrupted(CachingAllocator):
    """Is interrupted at the beginning of ``give_back``, as often as the test says."""

    interrupts = 0

    def give_back(self, block: Any) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        super().give_back(block)

    @property
    def live(self) -> int:
        return self.statistics().all.allocation.current


def test_an_interrupt_in_an_owners_end_only_puts_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: told.append(what.exc_type))
    allocator = Interrupted(NullUpstream())
    owner = Owner.allocate(allocator, 1000, stream=0)
    allocator.interrupts = 1
    del owner
    assert told in ([], [KeyboardInterrupt])
    settle_owners()
    assert allocator.live == 0


def test_an_interrupt_in_close_only_puts_it_off() -> None:
    allocator = Interrupted(NullUpstream())
    owner = Owner.allocate(allocator, 1000, stream=0)
    allocator.interrupts = 1
    with pytest.raises(KeyboardInterrupt):
        owner.close()
    del owner
    settle_owners()
    assert allocator.live == 0


def test_owners_put_off_are_settled_though_interrupted_again() -> None:
    allocator = Interrupted(NullUpstream())
    owners = [Owner.allocate(allocator, 1000, stream=0) for _ in range(3)]
    for owner in owners:
        allocator.interrupts = 1
        with pytest.raises(KeyboardInterrupt):
            owner.close()
    owners.clear()
    del owner
    if allocator.live:  # an owner in Python gives its block back when it goes
        allocator.interrupts = 1
        with pytest.raises(KeyboardInterrupt):
            settle_owners()
    settle_owners()
    assert allocator.live == 0
    allocator.close()


def test_an_owner_takes_over_a_block() -> None:
    allocator = CachingAllocator(NullUpstream())
    owner = Owner._of(allocator.allocate(1000, stream=3))
    assert int(owner) == owner.address == allocator.live_blocks()[0].address
    del owner
    assert allocator.live_blocks() == []
