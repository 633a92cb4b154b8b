"""Random numbers that are the same on every device and driver: Philox4x64-10, a generator made of a counter.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a seed and the number of a block
into four 64-bit words. Element ``i`` of a fill takes its bits from a fixed place: any device can make it alone.
NumPy's own Philox makes the same words. What follows uses correctly rounded operations only (no fused multiply-add),
so that the numbers are the same to the bit.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..places.normal_distribution import normal_of_words
from .device_name import CPU, device
from .dtypes import bfloat16, dtype, float16, float64
from .tensor_errors import ArgumentError

__all__ = ["DISTRIBUTIONS", "Distribution", "Generator", "default_generator", "initial_seed", "manual_seed", "seed"]

_CHUNK = 1 << 15  # words at a time, to stay in the processor's cache
_BLOCK = 4  # 64-bit words of one counter
Words = npt.NDArray[Any]
_LITTLE_64, _LITTLE_32 = np.dtype("<u8"), np.dtype("<u4")


class Generator:
    """A stream of random bits: a seed, and how many blocks were used. Each device has a default one.

    ``manual_seed(s)`` starts every default generator at the same place, so that the same calls give the same numbers
    wherever they run.
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = _device(device)
        self._seed = 67280421310721  # torch's default seed (``c10::detail::getNonDeterministicRandom`` aside)
        self._counter = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``, any integer of 64 bits; negative ones count from 2**64."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ArgumentError(f"a seed has 64 bits; {seed} does not fit")
        self._seed = seed % 2**64
        self._counter = 0
        return self

    def seed(self) -> int:
        """Start from a seed that nobody can foretell, and return it."""
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that the generator started from."""
        return self._seed

    def get_state(self) -> tuple[int, int]:
        """Seed and position, for ``set_state``."""
        return self._seed, self._counter

    def set_state(self, state: tuple[int, int]) -> Generator:
        """Go to where ``get_state`` was called."""
        self._seed, self._counter = state
        return self

    def take(self, distribution: str, kind: dtype, count: int) -> tuple[int, int]:
        """Seed and counter for ``count`` elements, which the generator then has used."""
        words = count if wide(distribution, kind) else (count + 1) // 2
        counter = self._counter
        self._counter = counter + (words + _BLOCK - 1) // _BLOCK
        return self._seed, counter

    def __repr__(self) -> str:
        return f"<cuplug.Generator on {self.device}, seed {self._seed}, {self._counter} blocks used>"


def _device(given: Any) -> device:
    return device(given)


_defaults: dict[device, Generator] = {}
_seeded: list[int] = []


def default_generator(of: device = CPU) -> Generator:
    """The generator of a device that is used when none is named."""
    found = _defaults.get(of)
    if found is None:
        found = Generator(of)
        if _seeded:
            found.manual_seed(_seeded[0])
        found = _defaults.setdefault(of, found)
    return found


def manual_seed(seed: int) -> Generator:
    """Start the default generators of all devices from ``seed``. Returns the CPU's."""
    generator = default_generator().manual_seed(seed)
    _seeded[:] = [seed]
    for each in tuple(_defaults.values()):
        each.manual_seed(seed)
    return generator


def seed() -> int:
    """Start the default generators of all devices from a seed that nobody can foretell, and return it."""
    found = secrets.randbits(63)
    manual_seed(found)
    return found


def initial_seed() -> int:
    """The seed that the CPU's default generator started from."""
    return default_generator().initial_seed()


def _of_cuda(given: Any = "cuda") -> Generator:
    from ..places.registry import place_of

    return default_generator(place_of(given).device)


def _cuda_manual_seed(seed: int) -> None:
    """Start the current device's generator from ``seed``."""
    _of_cuda().manual_seed(seed)


def _cuda_manual_seed_all(seed: int) -> None:
    """Start the generators of all CUDA devices from ``seed``."""
    from ...device import device_count

    for ordinal in range(device_count()):
        default_generator(_device(ordinal)).manual_seed(seed)


def _cuda_seed() -> None:
    """Start the current device's generator from a seed that nobody can foretell."""
    _of_cuda().seed()


def _cuda_initial_seed() -> int:
    """The seed that the current device's generator started from."""
    return _of_cuda().initial_seed()


CUDA_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "manual_seed": _cuda_manual_seed,
    "manual_seed_all": _cuda_manual_seed_all,
    "seed": _cuda_seed,
    "initial_seed": _cuda_initial_seed,
}
"""What ``cuplug.cuda`` has of this module. Without a CUDA device ``manual_seed_all`` does nothing, as in torch."""


@dataclass(frozen=True)
class Distribution:
    """How words become numbers."""

    draw: Callable[[npt.NDArray[Any], dtype, Words, Any, Any], None]
    """Fills an array of one dimension and of a type from as many words and two parameters."""
    wide: bool | None = None
    """Whether one element takes a word of 64 bits instead of 32; None: if it is a float64."""


def wide(distribution: str, kind: dtype) -> bool:
    """Whether an element takes 64 bits instead of 32."""
    found = DISTRIBUTIONS[distribution].wide
    return kind is float64 if found is None else found


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
    words >>= words.dtype.type(total - bits)
    whole = words.view(f"i{words.itemsize}")  # which NumPy converts faster
    if low == 0 and high == 1:
        made = out if not kind.is_half else np.empty(len(out), np.float32)
        np.copyto(made, whole, casting="unsafe")
        made *= made.dtype.type(2.0**-bits)
        if made is not out:
            np.copyto(out, made, casting="unsafe")
        return
    step = (high - low) * 2.0**-bits
    _store(out, kind, whole.astype(np.float64) * step + low)
    most = np.empty(1, out.dtype)
    _store(most, kind, np.array([(2**bits - 1) * step + low]))
    if most.astype(np.float64)[0] >= high:  # rounded up to it
        out[out.astype(np.float64) >= high] = low


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
