"""Switches between speed and exactness: what they change, and that they keep what they are told."""

from __future__ import annotations

from collections.abc import Iterator

import cuplug
import pytest
from cuplug.backends import cudnn


@pytest.fixture
def _in_order() -> Iterator[None]:
    cuplug.use_deterministic_algorithms(True)
    yield
    cuplug.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("_in_order")
def test_what_goes_to_one_place_is_added_in_order(device: str) -> None:
    assert cuplug.are_deterministic_algorithms_enabled()
    index = cuplug.tensor([[0, 2, 0, 0], [1, 1, 1, 0]], device=device)
    # In another order the small ones would not be lost.
    values = cuplug.tensor([[1e8, 5.0, 1.0, -1e8], [1.0, 2.0, 3.0, 4.0]], device=device)
    found = cuplug.zeros(2, 3, device=device).scatter_add_(1, index, values)
    assert found.tolist() == [[0.0, 0.0, 5.0], [4.0, 6.0, 0.0]]
    assert cuplug.zeros(2, 3, device=device).scatter_(1, index, values).tolist()[1] == [4.0, 3.0, 0.0]
    many = cuplug.zeros(3, device=device)
    many.index_put_((cuplug.tensor([1, 1, 2], device=device),), cuplug.ones(3, device=device), accumulate=True)
    assert many.tolist() == [0.0, 2.0, 1.0]


@pytest.mark.usefixtures("_in_order")
def test_gradients_of_words_that_come_again_are_the_same(device: str) -> None:
    layer = cuplug.nn.Embedding(5, 3).to(device)
    words = cuplug.tensor([[0, 1, 0], [4, 0, 1]], device=device)
    (layer(words) * cuplug.arange(6.0, device=device).view(2, 3, 1)).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [6.0, 6.0, 0.0, 0.0, 3.0]
    values = cuplug.ones(3, device=device, requires_grad=True)
    place = cuplug.tensor([0, 0, 1], device=device)
    (cuplug.zeros(2, device=device).scatter_add(0, place, values * 2) ** 2).sum().backward()
    assert values.grad.tolist() == [16.0, 16.0, 8.0]


def test_the_precision_of_products_has_two_names(running: str) -> None:
    assert cuplug.get_float32_matmul_precision() == "highest"
    try:
        cuplug.backends.cuda.matmul.allow_tf32 = True
        assert cuplug.get_float32_matmul_precision() == "high"
        cuplug.set_float32_matmul_precision("medium")
        assert cuplug.backends.cuda.matmul.allow_tf32
    finally:
        cuplug.backends.cuda.matmul.allow_tf32 = False
    assert cuplug.get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match="write highest, high, medium, not 'low'"):
        cuplug.set_float32_matmul_precision("low")


def test_tf32_changes_products_on_cuda_only_where_it_is_allowed(request: pytest.FixtureRequest, running: str) -> None:
    x = cuplug.full((256, 256), 1.0 + 2.0**-12, device="cuda")  # TF32 rounds it to 1
    exact = (x @ x)[0, 0].item()
    cuplug.set_float32_matmul_precision("high")
    try:
        rounded = (x @ x)[0, 0].item()
    finally:
        cuplug.set_float32_matmul_precision("highest")
    assert exact > 256.1
    on_gpu = request.config.getoption("--driver") != "sim"
    assert rounded == (256.0 if on_gpu and cuplug.cuda.get_device_capability()[0] >= 8 else exact)
    assert (x @ x)[0, 0].item() == exact


def test_switches_of_cudnn_are_kept_and_put_back(running: str) -> None:
    before = cudnn.benchmark, cudnn.deterministic
    for chosen in (True, False):
        with cudnn.flags(benchmark=chosen, deterministic=not chosen):
            assert cuplug.backends.cudnn.benchmark is chosen
            assert cudnn.deterministic is not chosen
        assert (cudnn.benchmark, cudnn.deterministic) == before
    assert cudnn.is_available() is (cudnn.version() is not None)
