"""The fused kernels of networks, as generated for CUDA, beside NumPy: the same functions on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.ops.elementwise.elementwise import apply
from cuplug.runtime.tensor.ops.reductions.along import run_fused
from cuplug.runtime.tensor.places.tables_with_gradients.network_table import NETWORK_LINES

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
            apply(NETWORK_LINES["gelu_tanh"], x),
            apply(NETWORK_LINES["gelu_tanh_gradient"], g, x),
            apply(NETWORK_LINES["dropped"], x, chances, 0.75),
        ]

    both(all_of_them, kernels, numbers(5, 70), numbers(5, 70, seed=1), abs(numbers(5, 70, seed=2)) % 1)


def test_layer_norm_of_short_and_long_rows(kernels: str) -> None:
    for length in (70, 1300):
        shape = (40, length)

        def both_ways(g: Any, x: Any, w: Any, b: Any) -> Any:
            f32 = cuplug.float32
            kinds = [(f32, shape), (f32, (40, 1)), (f32, (40, 1))]  # noqa: B023 - called at once
            y, middle, scale = run_fused("layer_norm", kinds, [x, w, b], 1e-5)
            (back,) = run_fused("layer_norm_gradient", [(f32, shape)], [g, x, middle, scale, w])  # noqa: B023
            sums = run_fused("layer_norm_sums", [(f32, (3, 2 * x.shape[1]))], [g, x, middle, scale], 3)[0]
            return y, middle, scale, back, sums.sum(0)

        both(both_ways, kernels, numbers(*shape), numbers(*shape, seed=1), numbers(length), numbers(length, seed=2))


def test_batch_norm_by_channels(kernels: str) -> None:
    def both_ways(g: Any, x: Any, w: Any, b: Any) -> Any:
        f32 = cuplug.float32
        running = [cuplug.zeros(3, device=x.device), cuplug.ones(3, device=x.device)]
        moments = run_fused("channel_moments", [(f32, (3, 2, 2))], [x], 2)[0]
        kinds = [(f32, (3,)), (f32, (3,))]
        given = [moments, x, *running]
        mean, scale, *_ = run_fused("channel_statistics", [*kinds, *running], given, 1e-5, 0.1)
        (y,) = run_fused("channel_norm", [(f32, x.shape)], [x, mean, scale, w, b])
        (sums,) = run_fused("channel_sums", [(f32, (3, 2, 2))], [g, x, mean, scale], 2)
        total, by_w, by_b = run_fused("channel_totals", [(f32, (3, 2)), (f32, (3,)), (f32, (3,))], [sums])
        (back,) = run_fused("channel_gradient", [(f32, x.shape)], [g, x, mean, scale, total, w])
        return mean, scale, *running, y, total, by_w, by_b, back

    both(both_ways, kernels, numbers(17, 3, 45), numbers(17, 3, 45, seed=1) + 3, numbers(3), numbers(3, seed=2))


def test_softmax_with_its_mask_and_cross_entropy(kernels: str) -> None:
    def both_ways(g: Any, x: Any) -> Any:
        f32, shape = cuplug.float32, tuple(x.shape)
        target = cuplug.tensor([k % 9 if k % 4 else -100 for k in range(shape[0])], device=x.device)
        (y,) = run_fused("attention", [(f32, shape)], [x], 0.3, 1, 5)
        (back,) = run_fused("softmax_gradient", [(f32, shape)], [g, y], 0.3)
        losses, sums = run_fused("cross_entropy", [(f32, (2, shape[0])), (f32, (shape[0], 1))], [x, target], -100, 0.1)
        (grown,) = run_fused(
            "cross_entropy_gradient", [(f32, shape)], [x, target, sums, g[:, 0].contiguous()], -100, 0.1, 1
        )
        return y, back, losses, sums, grown

    both(both_ways, kernels, numbers(20, 9), numbers(20, 9, seed=1))


WINDOWS: dict[str, dict[str, Any]] = {
    "apart": {"kernel_size": 2},
    "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
    "beyond the image": {"kernel_size": (3, 2), "stride": 2, "ceil_mode": True},
    "with gaps": {"kernel_size": 2, "stride": (1, 2), "dilation": (2, 3), "padding": (1, 0)},
}


@pytest.mark.parametrize("window", WINDOWS)
def test_the_largest_of_windows_and_its_gradient(kernels: str, window: str) -> None:
    def both_ways(x: Any) -> Any:
        x.requires_grad_()
        y = cuplug.nn.functional.max_pool2d(x, **WINDOWS[window])
        (y * cuplug.arange(float(y.numel()), device=x.device).view(y.shape)).sum().backward()
        return y.detach(), x.grad

    given = numbers(2, 3, 9, 8)
    given[0, 0, 4, 4], given[0, 1] = np.nan, -np.inf
    given[1, 2, :4] = given[1, 2, :4].round()  # several are the largest: the first counts
    both(both_ways, kernels, given)


def test_the_largest_of_windows_is_pytorchs(kernels: str) -> None:
    torch = pytest.importorskip("torch")
    given = numbers(2, 3, 9, 8)
    given[0, 0, 4, 4], given[0, 1] = np.nan, -np.inf
    given[1, 2, :4] = given[1, 2, :4].round()
    for settings in WINDOWS.values():
        found = []
        for lib, device in ((torch, "cpu"), (cuplug, kernels)):
            x = lib.tensor(given, device=device).requires_grad_()
            y = lib.nn.functional.max_pool2d(x, **settings)
            (y * y.detach()).sum().backward()
            found.append((y.detach().cpu().numpy(), x.grad.cpu().numpy()))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6)
