"""The race of allocators under PyTorch: what is made of the processes' figures. The processes need a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from cuplug.tools.benchmarks import torch_training
from cuplug.tools.benchmarks.torch_training import CONTENDERS, race


def _figures(seconds: float) -> dict[str, Any]:
    return {"cold": 2 * seconds, "warm": [seconds, 3 * seconds, seconds], "requested": 10, "reserved": 20, "taken": 1.0}


def test_a_machine_that_becomes_slower_from_round_to_round_changes_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def run(workload: str, contender: str, passes: int, *, busy: bool) -> dict[str, Any]:
        runs.append(contender)
        pace = 1 + (len(runs) - 1) // len(CONTENDERS)
        return _figures(pace * (2.0 if contender == "cuplug caching" else 1.0))

    monkeypatch.setattr(torch_training, "_run", run)
    (outcomes,) = race(["resnet"], passes=3, processes=3, busy=False)
    assert runs == [*CONTENDERS] * 3
    assert [(each.warm_ratio, each.cold_ratio) for each in outcomes] == [(1.0, 1.0), (1.0, 1.0), (2.0, 2.0), (1.0, 1.0)]
    assert [each.warm for each in outcomes] == [3.0, 3.0, 6.0, 3.0]
    assert outcomes[0].rounds == 3


def test_an_interrupt_gives_the_rounds_that_were_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    def run(workload: str, contender: str, passes: int, *, busy: bool) -> dict[str, Any]:
        runs.append(contender)
        if len(runs) == len(CONTENDERS) + 2:
            raise KeyboardInterrupt
        return _figures(1.0)

    monkeypatch.setattr(torch_training, "_run", run)
    outcomes = race(["resnet", "gpt2"], passes=3, processes=3, busy=False)
    assert [each.rounds for each in next(outcomes)] == [1] * len(CONTENDERS)
    with pytest.raises(KeyboardInterrupt):
        next(outcomes)
