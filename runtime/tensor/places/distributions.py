"""Random numbers that are the same on every device and driver: Philox4x64-10, a generator made of a counter.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a seed and the number of a block
into four 64-bit words. Element ``i`` of a fill takes its bits from a fixed place: any device can make it alone.
NumPy's own Philox makes the same words. What follows uses correctly rounded operations only (no fused multiply-add),
so that the numbers are the same to the bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import bfloat16, dtype, float16, float64
from .choice import constant
from .normal_distribution import normal_of_words

_CHUNK = 1 << 15  # words at a time, to stay in the processor's cache
Words = npt.NDArray[Any]
_LITTLE_64, _LITTLE_32 = np.dtype("<u8"), np.dtype("<u4")


@dataclass(frozen=True)
class Distribution:
    """How words become numbers."""

    draw: Callable[[npt.NDArray[Any], dtype, Words, Any, Any], None]
    """Fills an array of one dimension and of a type from as many words and two parameters."""
    wide: bool | None = None
    """Whether one element takes a word of 64 bits instead of 32; None: if it is a float64."""


@cache
def wide(distribution: str, kind: dtype) -> bool:
    """Whether an element takes 64 bits instead of 32."""
    found = DISTRIBUTIONS[distribution].wide
    return kind is float64 if found is None else found


def words_for(distribution: str, kind: dtype, count: int) -> int:
    """How many words of 64 bits ``count`` elements take."""
    return count if wide(distribution, kind) else (count + 1) // 2


class _Philox(threading.local):
    """NumPy's generator of words, one for each thread: making one takes longer than many fills."""

    def __init__(self) -> None:
        self._philox = np.random.Philox(0)
        self._state: Any = self._philox.state

    def at(self, seed: int, counter: int) -> Callable[[int], Words]:
        """A function that gives the next words of 64 bits from block ``counter`` on."""
        before = (counter - 1) % 2**256  # NumPy counts before it makes a block
        inner = self._state["state"]
        rest = before >> 64
        inner["counter"][:] = before % 2**64, rest % 2**64, rest >> 64 & 2**64 - 1, rest >> 128
        inner["key"][:] = seed, 0
        self._philox.state = self._state
        return self._philox.random_raw


_philox = _Philox()


def words(seed: int, counter: int, count: int, *, wide: bool) -> Words:
    """The first ``count`` words of 64 bits (``wide``) or of 32 (low half first) from block ``counter`` on."""
    return _next_words(_philox.at(seed, counter), count, wide)


def _next_words(raw: Callable[[int], Words], count: int, wide: bool) -> Words:
    if wide:
        return raw(count)
    halves: Words = raw((count + 1) // 2).astype(_LITTLE_64, copy=False).view(_LITTLE_32)
    return halves[:count]


def fill(
    distribution: str, kind: dtype, out: npt.NDArray[Any], seed: int, counter: int, first: Any, second: Any
) -> None:
    """Fill an array of one dimension with random numbers: the same on every device."""
    draw, is_wide = DISTRIBUTIONS[distribution].draw, wide(distribution, kind)
    raw = _philox.at(seed, counter)
    for start in range(0, len(out), _CHUNK):
        part = out[start : start + _CHUNK]
        draw(part, kind, _next_words(raw, len(part), is_wide), first, second)


UNIFORM_BITS = {float16: 11, bfloat16: 8}
"""Bits of a uniform number, so that all of them are exact: those of the significand. float32: 24, float64: 53."""


def _uniform(out: npt.NDArray[Any], kind: dtype, words: Words, low: float, high: float) -> None:
    total = 8 * words.itemsize
    bits = UNIFORM_BITS.get(kind, 53 if total == 64 else 24)
    words >>= constant(total - bits, words.dtype)
    whole = words.view(f"i{words.itemsize}")  # which NumPy converts faster
    if low == 0 and high == 1:
        made = out if not kind.is_half else np.empty(len(out), np.float32)
        np.copyto(made, whole, casting="unsafe")
        made *= constant(2.0**-bits, made.dtype)
        if made is not out:
            np.copyto(out, made, casting="unsafe")
        return
    step = (high - low) * 2.0**-bits
    _store(out, kind, whole.astype(np.float64) * step + low)
    if _is_rounded_up(kind, (2**bits - 1) * step + low, high):
        out[out.astype(np.float64) >= high] = low


@lru_cache(maxsize=256)
def _is_rounded_up(kind: dtype, number: float, limit: float) -> bool:
    """Whether a number that is less than ``limit`` is not in this type."""
    made = np.empty(1, kind.numpy)
    _store(made, kind, np.array([number]))
    return bool(made.astype(np.float64)[0] >= limit)


def _normal(out: npt.NDArray[Any], kind: dtype, words: Words, mean: float, deviation: float) -> None:
    made = normal_of_words(words)
    if deviation != 1 or mean != 0:
        made *= deviation
        made += mean
    _store(out, kind, made)


def _store(out: npt.NDArray[Any], kind: dtype, values: npt.NDArray[np.float64]) -> None:
    """Convert to float32 and only then to a half type, on every device alike."""
    np.copyto(out, values.astype(np.float32) if kind.is_half else values, casting="unsafe")


def _integers(out: npt.NDArray[Any], kind: dtype, words: Words, low: int, count: int) -> None:  # noqa: ARG001
    scaled = words.astype(np.uint64)
    scaled *= np.uint64(count)
    scaled >>= np.uint64(32)
    np.copyto(out, scaled.view(np.int64) + low if low else scaled, casting="unsafe")


def _long_integers(out: npt.NDArray[Any], kind: dtype, words: Words, low: int, count: int) -> None:  # noqa: ARG001
    np.copyto(out, (words % np.uint64(count)).view(np.int64) + np.int64(low), casting="unsafe")


def integers_of(count: int) -> str:
    """The distribution that gives integers of a range of ``count``.

    Short ranges take words of 32 bits, of which each integer stands for the same number but for one: no count of
    fewer than 2**32 numbers shows the difference.
    """
    return "integers" if count <= 1 << 16 else "long_integers"


DISTRIBUTIONS = {
    "uniform": Distribution(_uniform),
    "normal": Distribution(_normal),
    "integers": Distribution(_integers, wide=False),
    "long_integers": Distribution(_long_integers, wide=True),
}
