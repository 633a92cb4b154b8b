"""A few of the expressions of ``beside_torch.py``, where PyTorch is installed."""

from __future__ import annotations

from pathlib import Path

import cuplug
import numpy as np
import pytest

from . import beside_torch as fuzzer

ROOT = Path(__file__).parents[3]


@pytest.mark.one_schedule
@pytest.mark.needs_torch
def test_random_expressions_give_what_torch_makes_of_them(device: str, running: str) -> None:
    import torch

    count = 60 if device != "cpu" and running.startswith("cuda") else 600  # each compiles kernels there
    assert list(fuzzer.differences(torch, cuplug, count, 1, device)) == []


def test_a_difference_is_found() -> None:
    case = fuzzer.Case("torch.cumsum(x, 0)", {"x": fuzzer.operand(fuzzer.Drawn(1), (3,), "int64")})
    mine = fuzzer.outcome(cuplug, case, "cpu")
    assert fuzzer.alike(mine, mine)
    assert not fuzzer.alike(mine, (*mine[:2], mine[2] + 1))
    assert not fuzzer.alike(mine, ("float32", *mine[1:]))
    assert not fuzzer.alike(mine, ValueError("refused"))


def test_the_page_of_differences_names_those_of_the_expressions() -> None:
    page = " ".join((ROOT / "docs" / "differences-from-torch.md").read_text().split())
    for known in fuzzer.KNOWN:
        assert known.why in page, known.why


@pytest.mark.needs_torch
def test_a_known_difference_is_one_only_where_its_values_are_right() -> None:
    import torch

    x = (np.array([3.0, -4.0]), "int64", "plain")
    rounded = fuzzer.Case("torch.round(x, decimals=0)", {"x": x})
    theirs, mine = fuzzer.outcome(torch, rounded, "cpu"), fuzzer.outcome(cuplug, rounded, "cpu")
    assert fuzzer.known(fuzzer.Difference(torch, "cpu", rounded, theirs, mine))
    assert not fuzzer.known(fuzzer.Difference(torch, "cpu", rounded, theirs, (*mine[:2], mine[2] + 1)))
    divided = fuzzer.Case("torch.fmod(x, y)", {"x": x, "y": (np.array([2.0, 0.0]), "int64", "plain")})
    theirs = fuzzer.outcome(torch, divided, "cpu")
    assert isinstance(theirs, Exception)
    assert fuzzer.known(fuzzer.Difference(torch, "cpu", divided, theirs, ("int64", (2,), np.array([1, 0]))))
    assert not fuzzer.known(fuzzer.Difference(torch, "cpu", divided, theirs, ("int64", (2,), np.array([0, 0]))))
