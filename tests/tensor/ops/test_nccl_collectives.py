"""``cuda.nccl``: what it refuses without a GPU, and on two GPUs what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cuplug
import pytest
from cuplug.cuda import nccl


@pytest.fixture
def two(request: pytest.FixtureRequest) -> Iterator[str]:
    """A runtime with two devices: of the simulator, or what ``--driver`` says."""
    selection = request.config.getoption("--driver")
    cuplug.init(driver="sim:devices=2" if selection == "sim" else selection)
    try:
        if cuplug.cuda.device_count() < 2:
            pytest.skip("needs two devices")
        yield selection
    finally:
        cuplug.shutdown()


def on_both(make: Callable[[int], Any]) -> list[Any]:
    return [make(device).to(f"cuda:{device}") for device in (0, 1)]


def values(tensors: list[Any]) -> list[Any]:
    return [each.tolist() for each in tensors]


def test_simulated_devices_have_no_nccl(two: str) -> None:
    if two != "sim":
        pytest.skip("there are GPUs")
    tensors = on_both(lambda device: cuplug.ones(3))
    assert not nccl.is_available(tensors)
    with pytest.raises(ValueError, match=r"cuplug\.cuda\.comm also on simulated ones"):
        nccl.all_reduce(tensors)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([(0, 3), (0, 3)], "two of the tensors are on one device|simulated"),
        ([(0, 3), (1, 4)], "a tensor of 3 elements of cuplug.float32 is needed on cuda:1"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(two: str, tensors: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nccl.all_reduce([cuplug.ones(length, device=f"cuda:{device}") for device, length in tensors])
    with pytest.raises(ValueError, match="root is 2, and there are 1 tensors"):
        nccl.broadcast([cuplug.ones(1, device="cuda")], 2)


def test_the_devices_compute_together(two: str) -> None:
    if two == "sim" or not nccl.is_available():
        pytest.skip("needs two GPUs and NCCL")
    assert nccl.version() >= (2, 10, 0)
    assert len(nccl.unique_id()) == 128
    for kind in (cuplug.float32, cuplug.float16, cuplug.bfloat16, cuplug.float64, cuplug.int64, cuplug.uint8):
        tensors = on_both(lambda device, kind=kind: cuplug.full((5,), device + 1, dtype=kind))
        nccl.all_reduce(tensors)
        assert values(tensors) == [[3] * 5] * 2
    tensors = on_both(lambda device: cuplug.tensor([True, device == 0]))
    nccl.broadcast(tensors, 1)
    assert values(tensors) == [[True, False]] * 2
    tensors = on_both(lambda device: cuplug.full((3,), float(device + 1)))
    nccl.reduce(tensors, root=1)
    assert tensors[1].tolist() == [3.0] * 3
    outputs = on_both(lambda device: cuplug.empty(4))
    nccl.all_gather(on_both(lambda device: cuplug.full((2,), float(device))), outputs)
    assert values(outputs) == [[0, 0, 1, 1]] * 2
    outputs = on_both(lambda device: cuplug.empty(2))
    nccl.reduce_scatter(on_both(lambda device: cuplug.arange(4.0)), outputs)
    assert values(outputs) == [[0, 2], [4, 6]]
