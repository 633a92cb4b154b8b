"""``cuplug.multiprocessing``: tensors of the CPU that several processes see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cuplug
import pytest

pytestmark = pytest.mark.one_schedule
mp = cuplug.multiprocessing


def add_one(number: int, layer: Any, results: Any, done: Any) -> None:
    with cuplug.no_grad():
        layer.weight.add_(1)
    results.put((number, layer.bias.detach() * 2, layer.weight.requires_grad))
    done.wait()  # who sends a tensor stays until it is received


def fail(number: int) -> None:
    raise SystemExit(3 if number else 0)


def test_a_module_in_shared_memory_is_changed_by_other_processes() -> None:
    layer = cuplug.nn.Linear(3, 2)
    assert not layer.weight.is_shared()
    assert layer.share_memory() is layer
    assert layer.weight.is_shared()
    before = layer.weight.detach().clone()
    context: Any = mp.get_context("fork")
    results, done = context.SimpleQueue(), context.Event()
    others = mp.start_processes(add_one, (layer, results, done), nprocs=2, join=False, start_method="fork")
    found = sorted((results.get() for _ in range(2)), key=lambda each: each[0])
    done.set()
    assert others.join()
    assert [each[0] for each in found] == [0, 1]
    assert all(cuplug.equal(each[1], layer.bias.detach() * 2) and each[2] for each in found)
    assert (layer.weight.detach() - before).sum().item() == pytest.approx(12, abs=1e-5)


def test_a_process_that_fails_ends_the_others_and_is_told() -> None:
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 3"):
        mp.start_processes(fail, nprocs=2, start_method="fork")


def test_views_of_one_storage_keep_their_place_when_one_is_shared() -> None:
    whole = cuplug.arange(6).view(2, 3)
    part = whole[1].share_memory_()
    assert part.tolist() == [3, 4, 5]
    assert part.is_shared()
    part[0] = 7
    assert whole.tolist() == [[0, 1, 2], [3, 4, 5]]  # what was made before stays where it is


PROGRAM = """
import cuplug.multiprocessing as mp
from cuplug import nn, no_grad

def add_one(number, layer, results, done):
    with no_grad():
        layer.weight.add_(1)
    results.put(layer.weight.detach() * 2)
    done.wait()

if __name__ == "__main__":
    layer = nn.Linear(2, 2)
    layer.share_memory()
    before = layer.weight.detach().clone()
    context = mp.get_context("spawn")
    results, done = context.SimpleQueue(), context.Event()
    others = mp.spawn(add_one, (layer, results, done), nprocs=1, join=False)
    twice = results.get()
    done.set()
    others.join()
    print((layer.weight.detach() - before).round().tolist(), (twice / 2 - before).round().tolist())
"""


def test_a_spawned_process_sees_the_same_memory(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=300)
    ones = "[[1.0, 1.0], [1.0, 1.0]]"
    assert (done.stdout, done.stderr) == (f"{ones} {ones}\n", "")
