"""What the tests of the kit share: drivers, and the question which rule a planted fault breaks."""

from __future__ import annotations

import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import hypothesis
import pytest
from cuplug.plugins.conformance.rules import ContractBrokenError, Rule
from cuplug.runtime.drivers.sim import SimDriver

DRIVERS = {
    "eager": partial(SimDriver, schedule="eager"),
    "lazy": partial(SimDriver, schedule="lazy"),
    "random": partial(SimDriver, schedule="random", seed=1),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each test of the contract runs with one seed of the random schedule; with ``CUPLUG_SCHEDULES=all``, with all."""
    if os.environ.get("CUPLUG_SCHEDULES") == "all":
        return
    left_out = [item for item in items if Path(__file__).parent in item.path.parents and not _is_its_seed(item.name)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _is_its_seed(name: str) -> bool:
    seed = re.search(r"schedule=random,seed=([123])\b", name)
    return seed is None or int(seed[1]) == 1 + zlib.crc32(name.replace(seed[0], "").encode()) % 3


@pytest.fixture
def drivers() -> dict[str, Callable[[], SimDriver]]:
    """What makes the simulator, by the name of its schedule."""
    return dict(DRIVERS)


@pytest.fixture
def rule_broken_by() -> Callable[..., Rule]:
    """The rule that a check finds broken: ``rule_broken_by(check, factory, "lazy")``. The failure has to name it."""

    def ask(
        check: Callable[..., object], factory: Callable[..., object], schedule: str = "eager", **options: object
    ) -> Rule:
        with pytest.raises(ContractBrokenError) as caught:
            check(factory, DRIVERS[schedule], **options)
        assert caught.value.rule.value in str(caught.value)
        return caught.value.rule

    return ask


@pytest.fixture
def ended_deadlocks() -> Iterator[list[threading.Lock]]:
    """Locks that are released after the test, so that the threads that wait for them end. CPython 3.12 crashes where
    instructions of one thread are traced while another one, traced by line, stands still for ever."""
    before = set(threading.enumerate())
    locks: list[threading.Lock] = []
    yield locks
    for thread in set(threading.enumerate()) - before:
        while thread.is_alive():
            for lock in locks:
                with suppress(RuntimeError):  # nobody holds it
                    lock.release()
            thread.join(0.01)


@pytest.fixture
def few_programs() -> hypothesis.settings:
    """Enough random programs to say that a right allocator is accepted."""
    return hypothesis.settings(
        max_examples=50 if "CUPLUG_THOROUGH" in os.environ else 20,
        stateful_step_count=30,
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.generate],
    )


@pytest.fixture
def until_found(few_programs: hypothesis.settings) -> hypothesis.settings:
    """As many random programs as it takes to find a fault. Longer ones find it sooner: more of memory is used again."""
    return hypothesis.settings(few_programs, max_examples=3000, stateful_step_count=60)
