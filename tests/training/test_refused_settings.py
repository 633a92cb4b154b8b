"""What PyTorch's database of modules (module_db) holds to be wrong is refused; and NaN is not hidden."""

from __future__ import annotations

import math
import warnings
from typing import Any

import cuplug
import pytest


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("nn.BatchNorm2d(2, eps=0.0)(torch.ones(2, 2, 3, 3))", ValueError, "eps must be positive during training"),
        ("nn.BatchNorm2d(2, eps=-1.0).eval()(torch.ones(2, 2, 3, 3))", ValueError, "eps must be non-negative"),
        ("nn.Parameter([1.0])", TypeError, "a tensor is needed, not list"),
        ("nn.GroupNorm(3, 10)", ValueError, r"num_channels \(10\) must be divisible by num_groups \(3\)"),
        ("nn.LSTM(3, 5, 1, 0)", TypeError, "bias should be of type bool, got: int"),
        ("nn.GRU(3, 5, 1, True, 0.5)", TypeError, "batch_first should be of type bool, got: float"),
        ("nn.MultiheadAttention(3, 1)(x, x, x, is_causal=True)", RuntimeError, "Need attn_mask"),
        ("F.cross_entropy(x, c, label_smoothing=1.5)", RuntimeError, r"between 0.0 and 1.0. Got: 1.5"),
        ("F.cross_entropy(x, c, label_smoothing=-0.1)", RuntimeError, r"between 0.0 and 1.0. Got: -0.1"),
        ("F.cross_entropy(x, x, ignore_index=1)", RuntimeError, "ignore_index is not supported for floating point"),
    ],
)
def test_settings_that_have_no_meaning_are_refused(
    text: str, error: type[Exception], message: str, running: str
) -> None:
    names = {"torch": cuplug, "nn": cuplug.nn, "F": cuplug.nn.functional}
    names |= {"x": cuplug.ones(2, 3), "c": cuplug.tensor([0, 2])}
    with pytest.raises(error, match=message):
        eval(text, names)


def test_instances_may_be_normalised_without_an_epsilon(device: str) -> None:
    row = cuplug.tensor([[[1.0, 3.0]]], device=device)
    assert cuplug.nn.InstanceNorm1d(1, eps=0.0)(row).tolist() == [[[-1.0, 1.0]]]


def test_a_threshold_keeps_the_element_type(device: str) -> None:
    made = cuplug.nn.functional.threshold(cuplug.arange(-2, 3, device=device), 0, 0.5)
    assert (made.dtype, made.tolist()) == (cuplug.int64, [0, 0, 0, 1, 2])


def test_thresholds_let_nan_pass(device: str) -> None:
    functional, x = cuplug.nn.functional, cuplug.tensor([math.nan, 0.1, 2.0], device=device)
    for made, rest in ((functional.threshold(x, 0.5, -9), [-9.0, 2.0]), (functional.hardshrink(x), [0.0, 2.0])):
        assert made.isnan().tolist() == [True, False, False]
        assert made[1:].tolist() == rest


def test_a_divergence_from_what_is_no_probability_is_nan(device: str) -> None:
    target = cuplug.tensor([-0.5, 0.0, 1.0], device=device)
    made = cuplug.nn.functional.kl_div(cuplug.zeros(3, device=device), target, reduction="none")
    assert made.isnan().tolist() == [True, False, False]
    assert made[1:].tolist() == [0.0, 0.0]
    assert cuplug.nn.KLDivLoss(reduction="batchmean")(cuplug.tensor(2.0), cuplug.tensor(1.0)).item() == -2.0


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_of_sizes_that_broadcast_warns(loss: str) -> None:
    function = getattr(cuplug.nn.functional, loss)
    with pytest.warns(UserWarning, match=r"a target size \(.*\[3\]\)\) that is different to the input size"):
        assert function(cuplug.zeros(3, 1), cuplug.zeros(3), reduction="none").shape == (3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(cuplug.zeros(3, 1), cuplug.zeros(3, 1))


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_a_loss_warns_of_the_programs_line_however_it_was_called(loss: str) -> None:
    function = getattr(cuplug.nn.functional, loss)
    layer = getattr(cuplug.nn, {"mse_loss": "MSELoss"}.get(loss, loss.title().replace("_", "")))()
    for call in (function, layer):
        with pytest.warns(UserWarning, match="different to the input size") as found:
            call(cuplug.zeros(3, 1), cuplug.zeros(3))
        assert [each.filename for each in found] == [__file__]


@pytest.mark.parametrize("names", [{}, {"__name__": None}], ids=["absent", "None"])
def test_code_that_is_run_without_a_name_of_its_module_is_warned_too(names: dict[str, Any]) -> None:
    given = {"loss": cuplug.nn.functional.mse_loss, "a": cuplug.zeros(3, 1), "b": cuplug.zeros(3)}
    with pytest.warns(UserWarning, match="different to the input size") as found:
        exec("loss(a, b)", {**names, **given})
    assert [each.filename for each in found] == ["<string>"]
