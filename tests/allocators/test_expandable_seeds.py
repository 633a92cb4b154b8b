"""Random programs under random schedules: physical memory has one owner at a time, and goes away only when unused.

``CUPLUG_SEEDS=10000`` runs that many programs, ``CUPLUG_SEEDS=5000:10000`` those from the 5000th on. By default
they are 80, and 200 with ``CUPLUG_THOROUGH``.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import partial
from typing import Any

import pytest
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.stamps import Stamps
from cuplug.plugins.conformance.metered import MeteredUpstream
from cuplug.plugins.conformance.workbench import Bench
from cuplug.runtime.drivers.sim import SimDriver

pytestmark = pytest.mark.needs_sim

MIB = 1 << 20
CHUNK = 40


def seeds() -> range:
    first, _, end = os.environ.get("CUPLUG_SEEDS", "200" if "CUPLUG_THOROUGH" in os.environ else "80").rpartition(":")
    return range(int(first or 0), int(end))


@pytest.mark.parametrize("first", seeds()[::CHUNK])
def test_no_page_serves_two_places_or_goes_away_under_queued_work(first: int) -> None:
    for seed in range(first, min(first + CHUNK, seeds().stop)):
        try:
            run(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed} fails; run it alone with CUPLUG_SEEDS={seed}:{seed + 1}") from error


@pytest.mark.parametrize(
    "fault", ["it does not wait", "it moves pages without waiting", "it gives out more than was freed"]
)
def test_faults_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "it does not wait":
        monkeypatch.setattr(Stamps, "wait", lambda self, stamp: None)
    elif fault == "it moves pages without waiting":
        monkeypatch.setattr(Stamps, "freed", lambda self, nbytes: 0)
    else:
        monkeypatch.setattr(ExpandableAllocator, "_free", _free_without_joining)
    assert any(is_caught(seed) for seed in range(40))


def is_caught(seed: int) -> bool:
    try:
        run(seed)
    except AssertionError:
        return True
    return False


def _free_without_joining(allocator: ExpandableAllocator, block: Any) -> None:
    """Leave the block in place, and give a part of it out again."""
    block.range.space._list(block)
    block.nbytes += 512


def run(seed: int) -> None:
    """One program of random operations. The bench checks each, and what the queued work finds in memory."""
    choose = random.Random(seed)
    driver = partial(SimDriver, schedule=f"random:{seed}")
    capacity = choose.choice((24, 48, 96)) * MIB
    aliases = choose.choice((0, 1, 4))
    make = partial(ExpandableAllocator, aliases=aliases)
    with Bench(make, driver, capacity=capacity, streams=choose.randint(1, 3)) as bench:
        for _ in range(choose.randint(30, 60)):
            step(bench, choose)
            check_pages(bench.upstream, aliases)
            bench.check_upstream()
        bench.verify()


def step(bench: Bench, choose: random.Random) -> None:
    """One operation."""
    what = choose.random()
    lane = choose.choice(bench.lanes)
    if what < 0.5 or not bench.live:
        nbytes = choose.choice((choose.randint(1, 4096), choose.randint(1, MIB), choose.randint(MIB, 12 * MIB)))
        try:
            live = bench.allocate(nbytes, lane)
        except OutOfMemoryError:
            return
        if choose.random() < 0.8:
            bench.touch(live)
    elif what < 0.85:
        bench.free(choose.choice(bench.live))
    elif what < 0.95:
        bench.touch(choose.choice(bench.live), lane)
    elif what < 0.965:
        bench.allocator.release_cached()
    elif what < 0.975 and len(bench.lanes) > 1:
        bench.replace(choose.choice(bench.lanes[1:]))
    else:
        bench.synchronize()


def check_pages(upstream: MeteredUpstream, aliases: int) -> None:
    """Every page that exists is mapped, in one place, and at so many more as it may have aliases."""
    assert upstream.virtual is not None
    places = Counter(handle for _, handle in upstream.virtual._mapped.values())
    assert places.keys() == upstream.virtual._pages.keys()
    assert max(places.values(), default=1) <= 1 + aliases
