"""A loader's batches copied on a stream of their own: a missing ``wait_stream`` is found by a random schedule."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest
from cuplug.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.needs_sim


def weights(seed: int, waits: bool) -> list[float]:
    """What a layer learns from batches that were copied ahead on a side stream."""
    cuplug.shutdown()
    cuplug.init(driver=f"sim:schedule=random,seed={seed}")
    cuplug.manual_seed(0)
    data = TensorDataset(cuplug.arange(24.0).reshape(12, 2) / 24, cuplug.arange(12.0).reshape(12, 1) / 12)
    loader = DataLoader(data, batch_size=3, pin_memory=True)
    layer = cuplug.nn.Linear(2, 1)
    with cuplug.no_grad():
        layer.weight.fill_(0.5)
        layer.bias.zero_()
    layer.cuda()
    optimiser = cuplug.optim.SGD(layer.parameters(), lr=0.1)
    side = cuplug.cuda.Stream()
    for batch in loader:
        with cuplug.cuda.stream(side):
            x, y = (each.cuda(non_blocking=True) for each in batch)
        if waits:
            cuplug.cuda.current_stream().wait_stream(side)
        for each in (x, y):
            each.record_stream(cuplug.cuda.current_stream())
        optimiser.zero_grad()
        cuplug.nn.functional.mse_loss(layer(x), y).backward()
        optimiser.step()
    found: list[float] = layer.weight.flatten().tolist()
    cuplug.shutdown()
    return found


SEEDS = range(4)


@pytest.fixture(scope="module")
def right() -> list[float]:
    return weights(0, waits=True)


def test_training_that_waits_for_its_loader_learns_the_same_under_every_schedule(right: list[float]) -> None:
    assert all(weights(seed, waits=True) == right for seed in SEEDS)


def test_a_missing_wait_stream_is_found_and_found_again_from_its_seed(right: list[float]) -> None:
    wrong: dict[int, Any] = {seed: repr(weights(seed, waits=False)) for seed in SEEDS}
    seen = [seed for seed, found in wrong.items() if found != repr(right)]
    assert seen
    assert repr(weights(seen[0], waits=False)) == wrong[seen[0]]
