"""The race of allocators under PyTorch: what is made of the processes' figures. The processes need a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.tools.benchmarks import torch_training
from cuplug.tools.benchmarks.torch_training import CONTENDERS, race


def _figures(seconds: float) -> dict[str, Any]:
    return {"cold": 2 * seconds, "warm": [seconds, 3 * seconds, seconds], "requested": 10, "reserved": 20, "taken": 1.0}


def test_a_machine_that_becomes_slower_from_round_to_round_changes_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[list[str]] = []

    def round_(workload: str, contenders: list[str], passes: int, *, busy: bool) -> list[dict[str, Any]]:
        rounds.append(contenders)
        return [_figures(len(rounds) * (2.0 if each == "cuplug caching" else 1.0)) for each in contenders]

    monkeypatch.setattr(torch_training, "_round", round_)
    (outcomes,) = race(["resnet"], passes=3, processes=3, busy=False)
    assert rounds == [[*CONTENDERS]] * 3
    assert [(each.warm_ratio, each.cold_ratio) for each in outcomes] == [(1.0, 1.0), (1.0, 1.0), (2.0, 2.0), (1.0, 1.0)]
    assert [each.warm for each in outcomes] == [3.0, 3.0, 6.0, 3.0]
    assert outcomes[0].rounds == 3


def test_an_interrupt_gives_the_rounds_that_were_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[str] = []

    def round_(workload: str, contenders: list[str], passes: int, *, busy: bool) -> list[dict[str, Any]]:
        rounds.append(workload)
        if len(rounds) == 2:
            raise KeyboardInterrupt
        return [_figures(1.0) for _ in contenders]

    monkeypatch.setattr(torch_training, "_round", round_)
    outcomes = race(["resnet", "gpt2"], passes=3, processes=3, busy=False)
    assert [each.rounds for each in next(outcomes)] == [1] * len(CONTENDERS)
    with pytest.raises(KeyboardInterrupt):
        next(outcomes)


_PROGRAM = """
import json, os, sys

print("imported loudly")
if os.path.exists({fault!r}) and "PYTORCH_CUDA_ALLOC_CONF" in os.environ:
    sys.exit("no such network")
print("ready", flush=True)
sys.stdin.readline()
with open({log!r}, "a") as log:
    log.write("begins ")
    log.flush()
    found = sum(range(1000))
    log.write("ends ")
print(json.dumps({{"cold": found, "warm": [1.0]}}))
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A workload that writes down when it works; the folder that it stands in."""
    path = tmp_path / "workload.py"
    path.write_text(_PROGRAM.format(log=str(tmp_path / "log"), fault=str(tmp_path / "fault")))
    monkeypatch.setattr(torch_training, "_PROGRAM", path)
    return tmp_path


def test_processes_of_a_round_work_in_turn(program: Path) -> None:
    found = torch_training._round("resnet", ["PyTorch", "PyTorch expandable", "PyTorch"], 1, busy=False)
    assert [each["cold"] for each in found] == [499500] * 3
    assert (program / "log").read_text() == "begins ends " * 3


def test_a_process_that_fails_is_named_and_none_is_left_running(program: Path) -> None:
    (program / "fault").touch()
    with pytest.raises(CuplugError, match="resnet under PyTorch expandable ended with 1: no such network"):
        torch_training._round("resnet", ["PyTorch", "PyTorch expandable", "PyTorch"], 1, busy=False)
    assert not (program / "log").exists()
