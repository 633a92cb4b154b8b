"""``cuplug.multiprocessing``: tensors of the CPU that several processes see."""

from __future__ import annotations

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


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_module_in_shared_memory_is_changed_by_other_processes(method: str) -> None:
    layer = cuplug.nn.Linear(3, 2)
    assert not layer.weight.is_shared()
    assert layer.share_memory() is layer
    assert layer.weight.is_shared()
    before = layer.weight.detach().clone()
    context: Any = mp.get_context(method)
    results, done = context.SimpleQueue(), context.Event()
    others = mp.start_processes(add_one, (layer, results, done), nprocs=2, join=False, start_method=method)
    found = sorted((results.get() for _ in range(2)), key=lambda each: each[0])
    done.set()
    assert others.join()
    assert [each[0] for each in found] == [0, 1]
    assert all(cuplug.equal(each[1], layer.bias.detach() * 2) and each[2] for each in found)
    assert (layer.weight.detach() - before).sum().item() == pytest.approx(12, abs=1e-5)


def test_a_process_that_fails_ends_the_others_and_is_told() -> None:
    with pytest.raises(mp.ProcessExitedException, match="process 1 terminated with exit code 3"):
        mp.spawn(fail, nprocs=2)


def test_views_of_one_storage_keep_their_place_when_one_is_shared() -> None:
    whole = cuplug.arange(6).view(2, 3)
    part = whole[1].share_memory_()
    assert part.tolist() == [3, 4, 5]
    assert part.is_shared()
    part[0] = 7
    assert whole.tolist() == [[0, 1, 2], [3, 4, 5]]  # what was made before stays where it is
