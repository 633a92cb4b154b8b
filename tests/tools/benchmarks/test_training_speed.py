"""The race of training: small networks on the CPU, and what is made of the processes' figures."""

from __future__ import annotations

from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.tools.benchmarks import training_speed, training_steps
from cuplug.tools.benchmarks.training_speed import NETWORKS, race


def test_every_network_trains_and_each_step_is_timed() -> None:
    for (outcome,) in race(NETWORKS, ["cuplug"], devices="cpu", rounds=2, steps=2, small=True):
        assert (outcome.contender, outcome.ratio, outcome.reserved) == ("cuplug", 1.0, 0)
        assert 0 < outcome.queued < 3 * outcome.most
        assert outcome.least <= outcome.step <= outcome.most


def test_the_networks_that_can_be_chosen_are_those_that_can_be_trained() -> None:
    assert tuple(training_steps.NETWORKS) == NETWORKS


def test_a_machine_that_becomes_slower_from_round_to_round_changes_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    class Trainer:
        def __init__(self, network: str, contender: str, devices: str, *, small: bool) -> None:
            self.seconds = 2.0 if contender == "cuplug" else 1.0

        def wait_until_ready(self) -> None:
            pass

        def train(self, steps: int) -> dict[str, Any]:
            self.seconds *= 3
            return {"step": self.seconds, "queued": 1.0, "reserved": 10}

        def end(self) -> None:
            self.seconds = 0

    monkeypatch.setattr(training_speed, "_Trainer", Trainer)
    (outcomes,) = race(["mlp"], ["torch", "cuplug"], devices="1", rounds=3, steps=5)
    assert [each.ratio for each in outcomes] == [1.0, 2.0]
    assert [each.step for each in outcomes] == [9.0, 18.0]


def test_a_process_that_fails_is_named_with_the_end_of_what_it_said() -> None:
    with pytest.raises(CuplugError, match=r"(?s)nothing by cuplug ended with 1: .*KeyError: 'nothing'"):
        list(race(["nothing"], ["cuplug"], devices="cpu", rounds=1, steps=1))
