"""The small programs that are timed beside PyTorch compute what they say. No time is asserted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cuplug
import pytest
from cuplug.tools.benchmarks import small_programs
from cuplug.tools.benchmarks.small_programs import PLACES, PROGRAMS, beside_torch
from cuplug.tools.benchmarks.timing import Timing

TRAINED = [name for name in PROGRAMS if name not in ("generate", "400 small operations")]


class Library:
    """cuplug in PyTorch's place."""

    threads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(cuplug, name)

    def set_num_threads(self, count: int) -> None:
        self.threads = count


@pytest.fixture(scope="module")
def running() -> Iterator[None]:
    """A default runtime on the simulator."""
    cuplug.init(driver="sim")
    yield
    cuplug.shutdown()


@pytest.fixture(params=PLACES.values(), scope="module")
def device(request: pytest.FixtureRequest, running: None) -> str:
    """The CPU, and a simulated device."""
    del running
    return str(request.param)


@pytest.mark.parametrize("program", TRAINED)
def test_a_training_lowers_its_loss(program: str, device: str) -> None:
    step = PROGRAMS[program](cuplug, device)
    losses = [step() for _ in range(6)]
    assert losses[-1] < losses[0]


def test_the_text_that_is_generated_is_made_of_characters(device: str) -> None:
    assert PROGRAMS["generate"](cuplug, device)() in range(65)


def test_the_small_operations_are_the_same_in_each_step(device: str) -> None:
    step = PROGRAMS["400 small operations"](cuplug, device)
    first = step()
    assert math.isfinite(first)
    assert step() == first


def test_a_program_is_timed_in_pytorch_on_one_thread_and_in_every_place(running: None) -> None:
    library = Library()
    found = beside_torch("400 small operations", library, rounds=1)
    assert library.threads == 1
    assert found.torch_ms > 0
    assert list(found.times) == list(PLACES)


def test_a_ratio_is_that_of_the_medians(running: None, monkeypatch: pytest.MonkeyPatch) -> None:
    timings = {"torch": Timing(2e6, 1e6, 9e6), "cpu": Timing(3e6, 3e6, 3e6), "sim": Timing(5e6, 1e6, 6e6)}
    monkeypatch.setattr(small_programs, "time_in_turn", lambda *_, **__: dict(timings))
    found = beside_torch("400 small operations", Library(), rounds=3)
    assert found.torch_ms == 2.0
    assert found.times == {"cpu": 1.5, "sim": 2.5}
