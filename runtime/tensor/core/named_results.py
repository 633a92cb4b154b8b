"""Results of several tensors, by name."""

from __future__ import annotations

from typing import NamedTuple

from .tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """Elements, and where they were: of ``max(dim)``, ``sort``, ``topk`` and their kin."""

    values: Tensor
    indices: Tensor


class Extremes(NamedTuple):
    """What ``aminmax`` returns."""

    min: Tensor
    max: Tensor
