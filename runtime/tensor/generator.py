"""Random numbers that are the same on every device and driver: Philox4x64-10, a generator made of a counter.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a seed and the number of a block
into four 64-bit words. Element ``i`` of a fill takes its bits from a fixed place: any device can make it alone.
NumPy's own Philox makes the same words. What follows uses correctly rounded operations only (no fused multiply-add,
no library logarithm), so that the numbers are the same to the bit.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from .devices import CPU, device
from .dtypes import bfloat16, dtype, float16, float64

__all__ = ["DISTRIBUTIONS", "Distribution", "Generator", "default_generator", "initial_seed", "manual_seed", "seed"]

_CHUNK = 1 << 15  # words at a time, to stay in the processor's cache
_BLOCK = 4  # 64-bit words of one counter
Words = npt.NDArray[Any]


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
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"a seed has 64 bits; {seed} does not fit")
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
    from .located import place_of

    return default_generator(place_of(given).device)


def _cuda_manual_seed(seed: int) -> None:
    """Start the current device's generator from ``seed``."""
    _of_cuda().manual_seed(seed)


def _cuda_manual_seed_all(seed: int) -> None:
    """Start the generators of all CUDA devices from ``seed``."""
    from ..device import device_count

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
    """How words become numbers. ``wide``: one element takes a word of 64 bits, whatever its type."""

    numpy: Callable[[dtype, int, int, int, Any, Any], npt.NDArray[Any]]
    """Makes ``count`` elements of a type from seed, counter and two parameters."""
    wide: bool = False


def wide(distribution: str, kind: dtype) -> bool:
    """Whether an element takes 64 bits instead of 32."""
    return kind is float64 or DISTRIBUTIONS[distribution].wide


def words(seed: int, counter: int, count: int, *, wide: bool) -> Words:
    """The first ``count`` words of 64 bits (``wide``) or of 32 (low half first) from block ``counter`` on."""
    # NumPy counts before it makes a block.
    generator = np.random.Philox(key=seed, counter=(counter - 1) % 2**256)
    if wide:
        return generator.random_raw(count)
    raw: Words = generator.random_raw((count + 1) // 2)
    return raw.astype("<u8", copy=False).view("<u4")[:count]


def _in_chunks(transform: Callable[..., Any]) -> Callable[..., npt.NDArray[Any]]:
    def draw(kind: dtype, count: int, seed: int, counter: int, first: Any, second: Any) -> npt.NDArray[Any]:
        result = np.empty(count, kind.numpy)
        is_wide = kind is float64 or transform is _integers
        step = _CHUNK
        for start in range(0, count, step):
            stop = min(start + step, count)
            block = counter + start // (_BLOCK if is_wide else 2 * _BLOCK)
            chunk = words(seed, block, stop - start, wide=is_wide)
            np.copyto(result[start:stop], transform(kind, chunk, first, second), casting="unsafe")
        return result

    return draw


UNIFORM_BITS = {float16: 11, bfloat16: 8}
"""Bits of a uniform number, so that all of them are exact: those of the significand. float32: 24, float64: 53."""


def _uniform(kind: dtype, chunk: Words, low: float, high: float) -> Any:
    total = 8 * chunk.itemsize
    bits = UNIFORM_BITS.get(kind, 53 if total == 64 else 24)
    unit = (chunk >> np.uint32(total - bits)).astype(np.float64) * 2.0**-bits
    if low == 0 and high == 1:
        return unit
    scaled = _narrow(unit * (high - low) + low, kind)
    return np.where(scaled.astype(np.float64) >= high, np.float64(low), scaled.astype(np.float64))


def _normal(kind: dtype, chunk: Words, mean: float, deviation: float) -> Any:
    if chunk.itemsize == 8:
        unit = ((chunk >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    else:
        unit = (chunk.astype(np.float64) + 0.5) * 2.0**-32
    return _narrow(normal_quantile(unit) * deviation + mean, kind)


def _narrow(values: Any, kind: dtype) -> Any:
    """To float32 and only then to a half type, on every device alike."""
    return values if kind is float64 else values.astype(np.float32).astype(kind.numpy)


def _integers(kind: dtype, chunk: Words, low: int, count: int) -> Any:  # noqa: ARG001 - as the others
    return (chunk % np.uint64(count)).astype(np.int64) + np.int64(low)


# The quantile of the normal distribution: M. J. Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), PPND16,
# as the standard library's statistics.NormalDist.inv_cdf. Highest power first; relative error about 1e-16.
CENTRE = (
    (2.50908_09287_30122_6727e3, 3.34305_75583_58812_8105e4, 6.72657_70927_00870_0853e4, 4.59219_53931_54987_1457e4,
     1.37316_93765_50946_1125e4, 1.97159_09503_06551_4427e3, 1.33141_66789_17843_7745e2, 3.38713_28727_96366_6080e0),
    (5.22649_52788_52854_5610e3, 2.87290_85735_72194_2674e4, 3.93078_95800_09271_0610e4, 2.12137_94301_58659_5867e4,
     5.39419_60214_24751_1077e3, 6.87187_00749_20579_0830e2, 4.23133_30701_60091_1252e1, 1.0),
)  # fmt: skip
TAIL = (
    (7.74545_01427_83414_07640e-4, 2.27238_44989_26918_45833e-2, 2.41780_72517_74506_11770e-1,
     1.27045_82524_52368_38258e0, 3.64784_83247_63204_60504e0, 5.76949_72214_60691_40550e0,
     4.63033_78461_56545_29590e0, 1.42343_71107_49683_57734e0),
    (1.05075_00716_44416_84324e-9, 5.47593_80849_95344_94600e-4, 1.51986_66563_61645_71966e-2,
     1.48103_97642_74800_74590e-1, 6.89767_33498_51000_04550e-1, 1.67638_48301_83803_84940e0,
     2.05319_16266_37758_82187e0, 1.0),
)  # fmt: skip
FAR_TAIL = (
    (2.01033_43992_92288_13265e-7, 2.71155_55687_43487_57815e-5, 1.24266_09473_88078_43860e-3,
     2.65321_89526_57612_30930e-2, 2.96560_57182_85048_91230e-1, 1.78482_65399_17291_33580e0,
     5.46378_49111_64114_36990e0, 6.65790_46435_01103_77720e0),
    (2.04426_31033_89939_78564e-15, 1.42151_17583_16445_88870e-7, 1.84631_83175_10054_68180e-5,
     7.86869_13114_56132_59100e-4, 1.48753_61290_85061_48525e-2, 1.36929_88092_27358_05310e-1,
     5.99832_20655_58879_37690e-1, 1.0),
)  # fmt: skip
LOG_SERIES = tuple(1.0 / (2 * n + 1) for n in range(10, -1, -1))
"""2 atanh(s) / 2s as a series in s**2, highest power first: enough for s up to 0.172."""
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10


def normal_quantile(p: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """The standard normal quantile of each ``p`` in (0, 1), by correctly rounded operations only.

    Numerators and denominators are evaluated side by side, in two rows.
    """
    q = p - 0.5
    result: npt.NDArray[Any] = q * _ratio(CENTRE, 0.180625 - q * q)
    outside = np.flatnonzero(np.abs(q) > 0.425)
    if outside.size:
        far, centre = p[outside], q[outside]
        r = np.sqrt(-_log(np.where(centre < 0, far, 1.0 - far)))
        values = _ratio(TAIL, r - 1.6)
        further = np.flatnonzero(r > 5.0)  # beyond what words of 32 bits reach
        if further.size:
            values[further] = _ratio(FAR_TAIL, r[further] - 5.0)
        result[outside] = np.where(centre < 0, -values, values)
    return result


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    above, below = _horner(_in_rows(coefficients), x)
    return above / below


@cache
def _in_rows(coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> list[npt.NDArray[Any]]:
    return [np.array(pair)[:, None] for pair in zip(*coefficients, strict=True)]


def _horner(coefficients: Sequence[Any], x: Any) -> Any:
    total = coefficients[0] * x
    for each in coefficients[1:-1]:
        total += each
        total *= x
    total += coefficients[-1]
    return total


def _log(x: Any) -> Any:
    fraction, exponent = np.frexp(x)
    low = fraction < 0.70710678118654752
    fraction = np.where(low, fraction * 2.0, fraction)
    exponent = (exponent - low).astype(np.float64)
    s = (fraction - 1.0) / (fraction + 1.0)
    return exponent * LN2_HIGH + (exponent * LN2_LOW + (s * 2.0) * _horner(LOG_SERIES, s * s))


DISTRIBUTIONS = {
    "uniform": Distribution(_in_chunks(_uniform)),
    "normal": Distribution(_in_chunks(_normal)),
    "integers": Distribution(_in_chunks(_integers), wide=True),
}
