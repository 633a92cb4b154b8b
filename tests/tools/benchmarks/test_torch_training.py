"""The race of allocators under PyTorch: what is made of the processes' figures. The processes need a GPU."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.tools.benchmarks import torch_training, torch_workloads
from cuplug.tools.benchmarks.torch_training import CONTENDERS, race


def _figures(seconds: float) -> dict[str, Any]:
    return {"cold": 2 * seconds, "warm": [seconds, 3 * seconds, seconds], "requested": 10, "reserved": 20, "taken": 1.0}


def test_a_machine_that_becomes_slower_from_round_to_round_changes_no_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(_: str, contenders: list[str], passes: int, count: int, **how: Any) -> Iterator[list[dict[str, Any]]]:
        for i in range(count):
            yield [_figures((i + 1) * (2.0 if each == "cuplug caching" else 1.0)) for each in contenders]

    monkeypatch.setattr(torch_training, "_rounds", rounds)
    (outcomes,) = race(["resnet"], passes=3, processes=3, busy=False)
    assert [each.contender for each in outcomes] == [*CONTENDERS]
    assert [(each.warm_ratio, each.cold_ratio) for each in outcomes] == [(1.0, 1.0), (1.0, 1.0), (2.0, 2.0), (1.0, 1.0)]
    assert [each.warm for each in outcomes] == [3.0, 3.0, 6.0, 3.0]
    assert outcomes[0].rounds == 3


def test_an_interrupt_gives_the_rounds_that_were_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(_: str, contenders: list[str], passes: int, count: int, **how: Any) -> Iterator[list[dict[str, Any]]]:
        yield [_figures(1.0) for _ in contenders]
        raise KeyboardInterrupt

    monkeypatch.setattr(torch_training, "_rounds", rounds)
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
limit = sys.stdin.readline().strip()
with open({log!r}, "a") as log:
    log.write("begins ")
    log.flush()
    found = sum(range(1000))
    log.write("ends ")
figures = {{"cold": found, "warm": [1.0], "taken": 0, "reserved": int(limit or 1000), "requested": 800}}
print(json.dumps(None if limit and "PYTORCH_CUDA_ALLOC_CONF" in os.environ else figures))
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A workload that writes down when it works; the folder that it stands in."""
    path = tmp_path / "workload.py"
    path.write_text(_PROGRAM.format(log=str(tmp_path / "log"), fault=str(tmp_path / "fault")))
    monkeypatch.setattr(torch_training, "_PROGRAM", path)
    return tmp_path


def _rounds_of(contenders: list[str], count: int, held: float | None = None) -> list[list[Any]]:
    return list(torch_training._rounds("resnet", contenders, 1, count, busy=False, held=held))


def test_processes_work_in_turn(program: Path) -> None:
    found = _rounds_of(["PyTorch", "PyTorch expandable", "PyTorch"], 2)
    assert [each["cold"] for one in found for each in one] == [499500] * 6
    assert (program / "log").read_text() == "begins ends " * 6


def test_a_process_that_fails_is_named_and_none_is_left_running(program: Path) -> None:
    (program / "fault").touch()
    with pytest.raises(CuplugError, match="resnet under PyTorch expandable ended with 1: no such network"):
        _rounds_of(["PyTorch", "PyTorch expandable", "PyTorch"], 1)
    assert not (program / "log").exists()


def test_who_is_held_gets_a_part_of_what_the_first_asked_for_and_may_run_out(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_training, "CONTENDERS", ("PyTorch", "PyTorch expandable"))
    (outcomes,) = race(["resnet"], passes=1, processes=2, busy=False, held=1.5)
    assert [each.contender for each in outcomes] == ["PyTorch", "PyTorch, held", "PyTorch expandable, held"]
    assert [each.reserved for each in outcomes] == [1000, 1200, 0]
    assert [each.warm_ratio for each in outcomes] == [1.0, 1.0, inf]


def test_memory_that_runs_out_without_a_limit_is_an_error(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (program / "workload.py").read_text()
    (program / "workload.py").write_text(text.replace("None if limit and", "None if"))
    with pytest.raises(CuplugError, match="resnet under PyTorch expandable ran out of memory"):
        _rounds_of(["PyTorch", "PyTorch expandable"], 1)


@pytest.mark.parametrize(("limit", "fractions"), [("", []), ("500", [0.5]), ("1500", [1.0])])
def test_a_limit_beyond_the_devices_memory_is_all_of_it(
    limit: str, fractions: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    torch: Any = SimpleNamespace(manual_seed=int, zeros=lambda *_, **__: None, OutOfMemoryError=MemoryError)
    device = SimpleNamespace(total_memory=1000)
    torch.cuda = SimpleNamespace(get_device_properties=lambda _: device, set_per_process_memory_fraction=given.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{limit}\n"))
    monkeypatch.setattr(torch_workloads, "_measure", lambda *_, **__: {})
    torch_workloads.main("gaussian", 1, busy=False)
    assert given == fractions
