"""Operations that write to one of their operands: how few steps lead to their kernels, and what they leave alone."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cuplug
import pytest
from cuplug.runtime.tensor.core.storage import Storage

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[None]:
    cuplug.init(driver="sim:devices=1")
    yield
    cuplug.shutdown()


def _add(x: Any, y: Any) -> None:
    x += y


@pytest.mark.parametrize("place", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("run", "most"),
    [
        (lambda x, _: x.relu_(), 3),
        (lambda x, _: x.round_(), 3),
        (_add, 2),
        (lambda x, y: x.add_(y), 3),
        (lambda x, _: x.mul_(2.0), 4),
        (lambda x, _: x.mul_(x), 4),
        (lambda x, y: x.lerp_(y, y), 3),
    ],
    ids=["relu_", "round_", "+=", "add_", "by a number", "by itself", "lerp_"],
)
def test_few_functions_are_called_for_what_was_done_before(place: str, run: Callable[..., Any], most: int) -> None:
    x, y = cuplug.ones(8, device=place), cuplug.ones(8, device=place)
    run(x, y)
    assert _calls(run, x, y) <= most


def test_the_memory_of_a_device_has_quick_attributes() -> None:
    assert type(cuplug.ones(2, device="cuda")._storage) is Storage
    assert not hasattr(Storage, "__getattr__")


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_a_plan_is_not_taken_for_operands_that_overlap(place: str) -> None:
    x = cuplug.arange(5.0, device=place)
    other = cuplug.arange(4.0, device=place)
    x[1:].add_(other)
    assert x.tolist() == [0, 1, 3, 5, 7]
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].add_(x[:-1])


def _calls(run: Callable[..., Any], *operands: Any) -> int:
    """How many functions of tensors' operations and of their methods ``run`` calls."""
    found = 0
    rooms = Path("runtime/tensor/ops"), Path("runtime/tensor/methods.py")

    def count(frame: Any, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and any(str(room) in frame.f_code.co_filename for room in rooms)

    gc.disable()  # finalisers are not what is asked about
    sys.setprofile(count)
    try:
        run(*operands)
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


def test_an_element_can_be_written_to_the_row_that_it_stands_in(device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3)
    x[0] = x[0][1]
    assert x.tolist() == [[1, 1, 1], [3, 4, 5]]
    x[:, 1:] = x[1, 2:]
    assert x.tolist() == [[1, 5, 5], [3, 5, 5]]
    y = cuplug.ones(3, device=device, requires_grad=True) * cuplug.arange(3.0, device=device)
    y[:] = y[2]
    y.sum().backward()
