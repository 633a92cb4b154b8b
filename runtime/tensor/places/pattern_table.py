"""Tensors that are functions of the position: the table of what ``arange``, ``linspace``, ``eye`` and masks fill in.

They compute in float64 or int64, without fused multiply-adds, so that every place gives the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Pattern:
    """``numpy(out, *parameters)`` fills an array of one dimension, of any type; in CUDA C ``cuda`` is a function of the
    position ``i`` and the parameters ``p0``, ``p1``...

    ``floating`` patterns take float64 parameters and give float64, others int64.
    """

    numpy: Callable[..., None]
    cuda: str
    parameters: int
    floating: bool


_CHUNK = 1 << 14  # elements at a time, to stay in the processor's cache
Array = npt.NDArray[Any]


def _arange_int(out: Array, start: np.int64, step: np.int64) -> None:
    first = np.arange(min(len(out), _CHUNK)) * step + start
    before = np.int64(0)
    for at in range(0, len(out), _CHUNK):
        part = out[at : at + _CHUNK]
        np.add(first[: len(part)], before, out=part, casting="unsafe")
        before += step * np.int64(_CHUNK)


def _linspace(out: Array, start: float, end: float, step: float, count: float) -> None:
    """The second half counts from the end, so that it is met."""
    half = -int(-count // 2)
    _line(out[:half], start, step, 0, 1)
    _line(out[half:], end, -step, int(count) - 1 - half, -1)


def _line(out: Array, start: float, step: float, first: int, by: int) -> None:
    """``start + i * step`` for ``i`` from ``first`` on, up or down."""
    i = np.arange(min(len(out), _CHUNK), dtype=np.float64) * by + first
    values = np.empty_like(i)
    for at in range(0, len(out), _CHUNK):
        part = out[at : at + _CHUNK]
        np.multiply(i, step, out=values)
        if start:
            values += start
        part[...] = values[: len(part)]
        i += by * _CHUNK
    if first == 0:
        out[:1] = start  # and not -0.0


def _eye(out: Array, columns: np.int64) -> None:
    width = int(columns)
    out.fill(0)
    out[: width * width : width + 1] = 1


def _lower(out: Array, columns: np.int64, diagonal: np.int64) -> None:
    width = int(columns)
    out.reshape(-1, width)[...] = np.tri(len(out) // width, width, int(diagonal), bool)


def _upper(out: Array, columns: np.int64, diagonal: np.int64) -> None:
    _lower(out, columns, diagonal - 1)
    np.equal(out, 0, out=out)


# fmt: off
PATTERNS = {
    "arange_int":   Pattern(_arange_int, "p0 + i * p1", 2, False),
    "arange_float": Pattern(lambda out, start, step: _line(out, start, step, 0, 1),
                            "__dadd_rn(p0, __dmul_rn((double)i, p1))", 2, True),
    "linspace": Pattern(_linspace,
                        "i < p3 / 2 ? __dadd_rn(p0, __dmul_rn((double)i, p2))"
                        " : __dsub_rn(p1, __dmul_rn(p3 - 1 - i, p2))", 4, True),
    "eye": Pattern(_eye, "i / p0 == i % p0", 1, False),
    "lower": Pattern(_lower, "i % p0 <= i / p0 + p1", 2, False),
    "upper": Pattern(_upper, "i % p0 >= i / p0 + p1", 2, False),
}
# fmt: on
