"""Windows that are put together: by whole rows, and one row after the other, are the same sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.nn import functional as F
from cuplug.runtime.nn import windows

CASES = {
    "plain": ((5, 6), (3, 3), (1, 1), (0, 0), (1, 1)),
    "stride": ((4, 5), (4, 4), (2, 2), (1, 1), (1, 1)),
    "stride beyond the window": ((3, 4), (2, 2), (3, 3), (0, 0), (1, 1)),
    "dilation": ((4, 3), (3, 2), (1, 2), (2, 1), (2, 3)),
    "one row": ((1, 7), (1, 3), (1, 2), (0, 1), (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("more", [0, 1])
def test_rows_that_are_put_together_at_once_are_those_one_by_one(
    case: str, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, size, stride, padding, dilation = CASES[case]
    reach = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + more * (s > 1)
        for n, k, s, p, d in zip(steps, size, stride, padding, dilation, strict=True)
    ]
    window, found = windows.Window(size, stride, padding, dilation), []
    parts, weights = cuplug.randn(2, 6, *steps).double(), cuplug.randn(1, 2, 3, 4 * size[0] * size[1]).double()
    for most in (1 << 30, -1):
        monkeypatch.setattr(windows, "_MOST_MORE", most)
        given = [each.clone().requires_grad_() for each in (parts, weights)]
        made = windows.spread_windows(given[1], given[0], window, (reach[0], reach[1]))
        made.sin().sum().backward()
        found.append([made.detach().numpy(), *[each.grad.numpy() for each in given]])
    assert found[0][0].shape == (2, 8, *reach)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_infinite_weights_reach_no_further_than_their_windows() -> None:
    images, filters = cuplug.ones(1, 1, 3, 3), cuplug.full((1, 1, 2, 2), float("inf"))
    assert F.conv_transpose2d(images, filters).isinf().all().item()


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("function", [F.conv2d, F.conv_transpose2d])
def test_images_in_one_product_with_the_filters_are_those_one_by_one(
    function: Callable[..., Any], groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, filters, found = cuplug.randn(3, 4, 6, 5).double(), cuplug.randn(4, 4 // groups, 3, 3).double(), []
    for most in (-1, 1 << 30):
        monkeypatch.setattr(windows, "_FEW_POSITIONS", most)
        given = [each.clone().requires_grad_() for each in (images, filters)]
        made = function(*given, stride=2, padding=1, groups=groups)
        # Twice, for what a gradient is made of has gradients, too.
        first = cuplug.autograd.grad(made.sin().sum(), given, create_graph=True)
        (first[0].square().sum() + first[1].square().sum()).backward()
        found.append([each.detach().numpy() for each in (made, *first, *[each.grad for each in given])])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
