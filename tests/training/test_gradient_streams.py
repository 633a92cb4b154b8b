"""On which streams gradients are added up, and that streams wait for each other where they have to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cuplug
import pytest
from cuplug.runtime.autograd.gradient_streams import hand_over

pytestmark = pytest.mark.needs_sim


@pytest.fixture(params=["lazy", "random,seed=1", "random,seed=2"])
def late(request: pytest.FixtureRequest) -> Iterator[None]:
    """A simulator that runs queued work late, so that a missing wait shows."""
    cuplug.shutdown()
    cuplug.init(driver=f"sim:schedule={request.param}")
    yield
    cuplug.shutdown()


@pytest.mark.usefixtures("late")
@pytest.mark.parametrize("first_at_home", [True, False])
@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("returned", [True, False])
def test_gradients_of_a_leaf_that_two_streams_use_wait_for_each_other(
    first_at_home: bool, times: int, returned: bool
) -> None:
    home, one, other, ready = *(cuplug.cuda.Stream() for _ in range(3)), cuplug.cuda.Event()
    seen: list[Any] = []
    with cuplug.cuda.stream(home):
        x = cuplug.randn(5, 5, device="cuda", requires_grad=True)
        x.register_hook(lambda _: seen.append(cuplug.cuda.current_stream()))
        for _ in range(times):
            copy = x.clone() if first_at_home else None
            one.wait_stream(home)
            other.wait_stream(home)
            with cuplug.cuda.stream(one):
                doubled = (x.clone() if copy is None else copy) * 2
                ready.record()
            with cuplug.cuda.stream(other):
                tripled = x * 3
                other.wait_event(ready)
                total = (doubled + tripled).sum()
            if returned:
                (found,) = cuplug.autograd.grad(total, x)
            else:
                total.backward()
                found = x.grad
    cuplug.cuda.current_stream().wait_stream(home)
    assert (found == 5 * (1 if returned else times)).all()
    assert set(seen) == {home if first_at_home else one}  # as in torch: where it was used first


@pytest.mark.usefixtures("late")
def test_gradients_made_on_a_side_stream_are_added_up_before_they_are_read_elsewhere() -> None:
    side = cuplug.cuda.Stream()
    weight = cuplug.ones(1000, device="cuda", requires_grad=True)
    side.wait_stream(cuplug.cuda.current_stream())
    for _ in range(3):
        with cuplug.cuda.stream(side):
            loss = (weight * 2).sum()
        loss.backward()
    assert (weight.grad == 6).all()


@pytest.mark.usefixtures("late")
def test_a_gradient_that_another_stream_uses_keeps_its_memory_until_then() -> None:
    source, target = cuplug.cuda.Stream(), cuplug.cuda.Stream()
    with cuplug.cuda.stream(source):
        gradient = cuplug.ones(1000, device="cuda")
    hand_over(gradient, source, target)
    with cuplug.cuda.stream(target):
        doubled = gradient * 2
    del gradient
    with cuplug.cuda.stream(source):
        later = [cuplug.zeros(1000, device="cuda") for _ in range(3)]
    source.synchronize()
    target.synchronize()
    assert (doubled == 2).all()
    assert all((each == 0).all() for each in later)
