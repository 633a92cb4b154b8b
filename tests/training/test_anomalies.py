"""``detect_anomaly``: where a gradient becomes NaN."""

from __future__ import annotations

import cuplug
import pytest


def test_a_gradient_that_becomes_nan_is_told_with_the_calls_that_made_it(running: str) -> None:
    def made_here(x: cuplug.Tensor) -> cuplug.Tensor:
        return (x * 0).sqrt() * 0

    x = cuplug.ones(2, requires_grad=True)
    with (
        cuplug.autograd.detect_anomaly(),
        pytest.warns(UserWarning, match="made_here"),
        pytest.raises(RuntimeError, match=r"'SqrtBackward.*' returned nan values in its 0th output"),
    ):
        made_here(x).sum().backward()
    assert not cuplug.is_anomaly_enabled()
    made_here(x).sum().backward()
    assert x.grad.isnan().all()


def test_an_operation_of_before_is_told_without_its_calls(running: str) -> None:
    loss = (cuplug.zeros(2, requires_grad=True).sqrt() * 0).sum()
    with (
        cuplug.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward pass information"),
        pytest.raises(RuntimeError, match="nan"),
    ):
        loss.backward()


def test_a_gradient_without_nan_passes(running: str) -> None:
    x = cuplug.ones(2, requires_grad=True)
    with cuplug.autograd.detect_anomaly():
        cuplug.nn.Linear(2, 1)(x).sum().backward()
    assert x.grad.isfinite().all()
