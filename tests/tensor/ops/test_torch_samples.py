"""A few of PyTorch's own sample inputs, by ``torch_samples.py``, where PyTorch is installed with what its tests need.

``CUPLUG_TORCH_SAMPLES=all`` tries all operations; that takes many minutes.
"""

from __future__ import annotations

import os
from pathlib import Path

import cuplug
import pytest

from . import torch_samples as samples

ROOT = Path(__file__).parents[3]


@pytest.mark.one_schedule
@pytest.mark.needs_torch
@pytest.mark.needs_sim
@pytest.mark.filterwarnings("ignore")
def test_operations_give_what_torch_makes_of_its_own_samples(device: str) -> None:
    pytest.importorskip("expecttest")
    count = 200 if os.environ.get("CUPLUG_TORCH_SAMPLES") == "all" else 5
    tally = samples.some(cuplug, device, 1, count)
    assert tally.tried.total() > 100
    assert [f"{what}: {case}: {text}" for case, what, text in tally.unknown] == []


@pytest.mark.needs_torch
@pytest.mark.needs_sim
def test_every_kind_of_difference_is_found(running: str) -> None:
    del running
    import torch

    x = torch.arange(6.0).reshape(2, 3)
    case = samples.Case("add", "add", "function", "sample", "float32", (x, 1), {})
    theirs = samples.Library(torch, "cpu").outcome(case)

    def found(result: object, arguments: object = None) -> str | None:
        given = samples.Library(cuplug, "cpu").of((case.arguments, case.keywords)) if arguments is None else arguments
        different = samples.compare(case, theirs, (given, result, False), list)
        return None if different is None else str(different[0])

    right = cuplug.arange(6.0).reshape(2, 3) + 1
    assert found(right) is None
    assert found(right + 1) == "values"
    assert found(right.reshape(3, 2)) == "shape"
    assert found(right.double()) == "dtype"
    assert found(right.t().contiguous().t()) == "strides"
    assert found((right, right)) == "structure"
    own = right.clone()
    assert found(own, ((own, 1), {})) is not None
    assert samples.compare(case, theirs, ValueError("refused"), list)[0] == "refused"
    assert samples.compare(case, TypeError("no"), ((), right, False), list)[0] == "accepted"
    assert samples.compare(case, TypeError("no"), ValueError("refused"), list)[0] == "error type"


def test_the_page_of_differences_names_those_of_the_samples() -> None:
    page = " ".join((ROOT / "docs" / "differences-from-torch.md").read_text().split())
    for known in samples.KNOWN:
        assert known.why in page, known.why
