"""Streams: the example that the pages call incorrect is found wrong, and right once it waits; memory across streams."""

from __future__ import annotations

from typing import Any

import cuplug
import pytest


def _sum_on_another_stream(torch: Any, *, wait: bool) -> tuple[float, float]:
    """The pages' incorrect example, with ``Stream()`` for the page's ``stream()``, which makes none. With ``wait``: put
    right. Returns what it found, and the true sum."""
    cuda = torch.device("cuda")
    s = torch.cuda.Stream()  # Create a new stream.
    A = torch.empty((100, 100), device=cuda).normal_(0.0, 1.0)
    if wait:
        s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        # sum() may start execution before normal_() finishes!
        B = torch.sum(A)
        found = B.item()
    torch.cuda.synchronize()
    return found, A.sum().item()


def _on_a_random_schedule(seed: int, *, wait: bool) -> tuple[float, float]:
    with_seed = cuplug.init(driver=f"sim:schedule=random,seed={seed}")
    try:
        cuplug.manual_seed(seed)
        return _sum_on_another_stream(cuplug, wait=wait)
    finally:
        with_seed.close()


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_the_incorrect_example_is_found_wrong_by_some_random_schedule() -> None:
    outcomes = [_on_a_random_schedule(seed, wait=False) for seed in range(12)]
    wrong = [seed for seed, (found, true) in enumerate(outcomes) if found != true]
    assert wrong
    assert len(wrong) < len(outcomes), "a race has two outcomes"
    again = _on_a_random_schedule(wrong[0], wait=False)
    assert again == outcomes[wrong[0]], "the seed finds it again"


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_the_incorrect_example_is_right_under_every_schedule_once_it_waits() -> None:
    for seed in range(12):
        found, true = _on_a_random_schedule(seed, wait=True)
        assert found == true, seed


def test_the_corrected_example_gives_the_sum_of_the_cpu(torch: Any) -> None:
    torch.manual_seed(3)
    found, true = _sum_on_another_stream(torch, wait=True)
    assert found == true
    torch.manual_seed(3)
    assert found == pytest.approx(torch.randn(100, 100).sum().item(), abs=1e-2)


def test_work_goes_to_the_current_stream_of_the_operands_device(torch: Any) -> None:
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = torch.ones(1000, device="cuda")
        y = (x * 3).sum()
    s.synchronize()
    torch.cuda.current_stream().wait_stream(s)
    assert y.item() == 3000


@pytest.mark.needs_sim
def test_memory_used_on_another_stream_is_reused_too_early_unless_recorded(make_driver: Any) -> None:
    """Without ``record_stream`` some schedule sees the memory of a dropped tensor overwritten; with it none does."""

    def run(seed: int, *, record: bool) -> bool:
        cuplug.init(driver=f"sim:schedule=random,seed={seed}", allocator="caching")
        try:
            side = cuplug.cuda.Stream()
            x = cuplug.full((5000,), 7.0, device="cuda")
            side.wait_stream(cuplug.cuda.current_stream())
            with cuplug.cuda.stream(side):
                for _ in range(3):
                    y = x + 1
            if record:
                x.record_stream(side)
            del x
            z = cuplug.full((5000,), -1.0, device="cuda")
            cuplug.cuda.synchronize()
            del z
            return bool((y.cpu() == 8).all())
        finally:
            cuplug.shutdown()

    assert not all(run(seed, record=False) for seed in range(8))
    assert all(run(seed, record=True) for seed in range(8))


def test_a_result_allocated_on_a_stream_belongs_to_that_stream(torch: Any) -> None:
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        x = torch.ones(10, device="cuda") + 1
    assert x.untyped_storage().owner.stream == s.cuda_stream


def test_copies_to_the_host_wait_and_pinned_non_blocking_ones_do_not(torch: Any, make_driver: Any) -> None:
    x = torch.arange(1000, device="cuda")
    assert x.cpu().tolist() == list(range(1000))
    target = torch.zeros(1000, dtype=torch.int64).pin_memory()
    target.copy_(x)
    assert target.tolist() == list(range(1000))
    target.zero_()
    target.copy_(x + 1, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    assert target.tolist() == list(range(1, 1001))


@pytest.mark.needs_sim
@pytest.mark.one_schedule
def test_a_non_blocking_copy_from_pinned_memory_has_not_happened_when_it_returns() -> None:
    cuplug.init(driver="sim:schedule=lazy")
    try:
        pinned = cuplug.ones(10).pin_memory()
        there = pinned.to("cuda", non_blocking=True)
        pinned.fill_(5)  # too early: the copy is only queued
        assert there.tolist() == [5] * 10
        blocking = pinned.to("cuda")
        pinned.fill_(6)
        assert blocking.tolist() == [5] * 10
        pageable = cuplug.ones(10)
        there = pageable.to("cuda", non_blocking=True)
        pageable.fill_(5)
        assert there.tolist() == [1] * 10
    finally:
        cuplug.shutdown()


def test_pinned_memory_lives_until_the_copy_has_run(torch: Any) -> None:
    for value in range(20):
        pinned = torch.full((1000,), float(value)).pin_memory()
        there = pinned.cuda(non_blocking=True)
        del pinned
        torch.full((1000,), -1.0).pin_memory()
        assert bool((there == value).all().item())
