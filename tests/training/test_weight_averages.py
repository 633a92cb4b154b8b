"""Averages of a network's weights: ``optim.swa_utils``."""

from __future__ import annotations

import pickle
from typing import Any

import cuplug
import pytest
from cuplug.optim import swa_utils


def network(device: str) -> Any:
    return cuplug.nn.Sequential(cuplug.nn.Linear(2, 1, bias=False), cuplug.nn.BatchNorm1d(1)).to(device)


def steps(model: Any, averaged: Any) -> list[float]:
    """The weight at each of three updates is 1, 2 and 6, and a buffer follows it. Returns the averages."""
    found = []
    for value in (1.0, 2.0, 6.0):
        model[0].weight.detach().fill_(value)
        model[1].running_mean.fill_(value)
        averaged.update_parameters(model)
        found.append(averaged.module[0].weight[0, 1].item())
    return found


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, [1, 1.5, 3]),
        ({"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()}, [1, 1.5, 3]),
        ({"avg_fn": swa_utils.get_swa_avg_fn()}, [1, 1.5, 3]),
        ({"avg_fn": swa_utils.get_ema_avg_fn(0.75)}, [1, 1.25, 2.4375]),
        ({"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}, [1, 1.25, 2.4375]),
        ({"avg_fn": lambda averaged, current, count: averaged + current * count}, [1, 3, 15]),
    ],
)
def test_parameters_are_averaged_and_buffers_are_the_last(
    given: dict[str, Any], wanted: list[float], device: str
) -> None:
    model = network(device)
    averaged = swa_utils.AveragedModel(model, **given)
    assert steps(model, averaged) == pytest.approx(wanted)
    assert averaged.n_averaged.item() == 3
    assert averaged.module[1].running_mean.item() == 6
    assert averaged(cuplug.ones(3, 2, device=device)).shape == (3, 1)


def test_buffers_are_averaged_if_asked_for() -> None:
    model = network("cpu")
    averaged = swa_utils.AveragedModel(model, use_buffers=True)
    steps(model, averaged)
    assert averaged.module[1].running_mean.item() == 3


def test_averages_may_be_elsewhere_than_the_network(running: str) -> None:
    del running
    model = network("cuda")
    averaged = swa_utils.AveragedModel(model, device="cpu")
    assert steps(model, averaged) == [1, 1.5, 3]
    assert {each.device.type for each in averaged.state_dict().values()} == {"cpu"}
    assert model[0].weight.is_cuda


def test_averages_are_saved_and_read() -> None:
    model = network("cpu")
    averaged = swa_utils.AveragedModel(model)
    steps(model, averaged)
    other = swa_utils.AveragedModel(network("cpu"))
    other.load_state_dict(averaged.state_dict())
    assert (other.n_averaged.item(), other.module[0].weight[0, 0].item()) == (3, 3)
    assert pickle.loads(pickle.dumps(averaged)).module[0].weight.tolist() == [[3, 3]]


def test_what_means_nothing_is_refused() -> None:
    average = swa_utils.get_swa_avg_fn()
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa_utils.AveragedModel(network("cpu"), avg_fn=average, multi_avg_fn=swa_utils.get_swa_multi_avg_fn())
    for made in (swa_utils.get_ema_avg_fn, swa_utils.get_ema_multi_avg_fn):
        with pytest.raises(ValueError, match="Invalid decay value"):
            made(1.5)


def test_batch_norms_take_their_statistics_anew_of_all_batches(device: str) -> None:
    layer = cuplug.nn.BatchNorm1d(2, momentum=0.3)
    model = cuplug.nn.Sequential(layer, cuplug.nn.InstanceNorm1d(2, track_running_stats=True)).to(device).eval()
    batches = cuplug.arange(24.0).view(3, 4, 2)
    layer.running_mean.fill_(100)
    swa_utils.update_bn([(each, "a label") for each in batches.unsqueeze(-1).expand(3, 4, 2, 5)], model, device)
    assert layer.running_mean.tolist() == pytest.approx(batches.mean((0, 1)).tolist())
    within = batches.unsqueeze(-1).expand(3, 4, 2, 5).transpose(1, 2).reshape(3, 2, 20).var(-1).mean(0)
    assert layer.running_var.tolist() == pytest.approx(within.tolist())
    assert (layer.momentum, layer.num_batches_tracked.item(), model.training) == (0.3, 3, False)
    assert model[1].momentum == 0.1


def test_a_layer_begins_anew() -> None:
    layer = cuplug.nn.BatchNorm2d(3)
    for each in (layer.weight.detach(), layer.bias.detach(), layer.running_mean, layer.running_var):
        each.fill_(7)
    layer.num_batches_tracked.fill_(7)
    layer.reset_parameters()
    state = {name: each.unique().tolist() for name, each in layer.state_dict().items()}
    assert state == {
        "weight": [1],
        "bias": [0],
        "running_mean": [0],
        "running_var": [1],
        "num_batches_tracked": [0],
    }


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [("linear", [1.0, 0.8, 0.6, 0.4, 0.2, 0.2]), ("cos", [1.0, 0.882843, 0.6, 0.317157, 0.2, 0.2])],
)
def test_rates_go_to_that_of_averaging(strategy: str, wanted: list[float]) -> None:
    optimiser = cuplug.optim.SGD([cuplug.nn.Parameter(cuplug.ones(1))], lr=1.0)
    scheduler = swa_utils.SWALR(optimiser, 0.2, 4, strategy)
    found = []
    for _ in wanted:
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    assert found == pytest.approx(wanted, abs=1e-6)


def test_rates_go_to_that_of_averaging_at_once_or_not_at_all() -> None:
    optimiser = cuplug.optim.SGD([cuplug.nn.Parameter(cuplug.ones(1))], lr=1.0)
    swa_utils.SWALR(optimiser, 0.2, 0)
    assert optimiser.param_groups[0]["lr"] == pytest.approx(0.2)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear'"):
        swa_utils.SWALR(optimiser, 0.2, 4, "none")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
        swa_utils.SWALR(optimiser, 0.2, -1)
