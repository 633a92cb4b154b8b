"""The fused kernels of networks, as generated for CUDA, beside NumPy: the same functions on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.ops import network_functions

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]


def both(function: Callable[..., Any], kernels: str, *arrays: Any) -> None:
    """The function's results on the CPU and by generated kernels agree."""
    found = []
    for device in ("cpu", kernels):
        made = function(*[cuplug.tensor(each, device=device) for each in arrays])
        found.append([each.cpu().numpy() for each in (made if isinstance(made, (tuple, list)) else (made,))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=2e-6)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_functions_between_layers(kernels: str) -> None:
    def all_of_them(g: Any, x: Any, chances: Any) -> Any:
        return [
            network_functions.gelu_tanh(x),
            network_functions.gelu_tanh_gradient(g, x),
            network_functions.dropped(x, chances, 0.75),
        ]

    both(all_of_them, kernels, numbers(5, 70), numbers(5, 70, seed=1), abs(numbers(5, 70, seed=2)) % 1)
