"""Tensors that are functions of the position: the table of what ``arange``, ``linspace`` and ``eye`` fill in.

They compute in float64 or int64, without fused multiply-adds, so that every place gives the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PATTERNS", "Pattern"]


@dataclass(frozen=True, eq=False)
class Pattern:
    """``numpy(i, *parameters)`` for positions ``i`` in row-major order; in CUDA C ``cuda`` of ``i``, ``p0``, ``p1``...

    ``floating`` patterns take float64 parameters and give float64, others int64.
    """

    numpy: Callable[..., npt.NDArray[Any]]
    cuda: str
    parameters: int
    floating: bool


def _linspace(i: Any, start: float, end: float, step: float, count: float) -> Any:
    return np.where(i < count / 2, start + i * step, end - (count - 1 - i) * step)


# fmt: off
PATTERNS = {
    "arange_int":   Pattern(lambda i, start, step: start + i * step, "p0 + i * p1", 2, False),
    "arange_float": Pattern(lambda i, start, step: start + i * step,
                            "__dadd_rn(p0, __dmul_rn((double)i, p1))", 2, True),
    "linspace": Pattern(_linspace,
                        "i < p3 / 2 ? __dadd_rn(p0, __dmul_rn((double)i, p2))"
                        " : __dsub_rn(p1, __dmul_rn(p3 - 1 - i, p2))", 4, True),
    "eye": Pattern(lambda i, columns: i // columns == i % columns, "i / p0 == i % p0", 1, False),
}
# fmt: on
