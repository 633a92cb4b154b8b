"""The normal distribution: its quantile function, and tables by which words become its numbers on any device.

A random word gives a sign and a magnitude ``u`` in (0, 2**bits), of which ``-quantile(u / 2**(bits + 1))`` is the
number. The quantile is a polynomial on each of 32 equal parts of each power of two: its coefficients stand in a table,
under the first bits of ``u`` as a float64, and the remaining bits are its variable. So a number takes one look-up and
a few multiplications. All of it is correctly rounded: no library function, no fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .choice import constant

REST_BITS = 47
"""How many of the 52 bits of a significand are the polynomial's variable. The others name the part."""
_REST = np.int64((1 << REST_BITS) - 1)
FIRST_PART = 1022 << (52 - REST_BITS)
"""The first bits of 0.5, the least ``u``."""
Words = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class NormalTable:
    """The polynomials for words of one width."""

    bits: int
    """How many of a word's low bits are its magnitude. The highest one is its sign."""
    magnitude: np.signedinteger[Any]
    """These bits, in the signed type of the words' width."""
    coefficients: list[npt.NDArray[np.float64]]
    """Highest power last; of every part."""


@cache
def normal_table(wide: bool) -> NormalTable:
    """The table for words of 64 bits (``wide``; the error is less than 1e-14) or of 32 (less than 1e-9)."""
    bits, degree = (52, 6) if wide else (31, 3)
    parts = 1 << (52 - REST_BITS)
    start = np.concatenate([2.0**power * (1 + np.arange(parts) / parts) for power in range(-1, bits)])
    length = np.repeat([2.0**power / parts for power in range(-1, bits)], parts)
    nodes = _NODES[degree]
    # Newton's interpolation: divided differences, then powers of the position within the part.
    values = [-normal_quantile((start + length * node) * 2.0 ** -(bits + 1)) for node in nodes]
    for order in range(1, degree + 1):
        for k in range(degree, order - 1, -1):
            values[k] = (values[k] - values[k - 1]) / (nodes[k] - nodes[k - order])
    powers = [values[degree]]
    for k in range(degree - 1, -1, -1):
        shifted = [values[k] - powers[0] * nodes[k]]
        shifted += [low - high * nodes[k] for low, high in pairwise(powers)]
        powers = [*shifted, powers[-1]]
    magnitude = (np.int64 if wide else np.int32)((1 << bits) - 1)
    return NormalTable(bits, magnitude, [each * 2.0 ** (-REST_BITS * power) for power, each in enumerate(powers)])


_NODES = {
    3: (0.03806, 0.308658, 0.691342, 0.96194),
    6: (0.012536, 0.109084, 0.283058, 0.5, 0.716942, 0.890916, 0.987464),
}
"""By degree: where the polynomial is the quantile. Chebyshev's nodes, which keep the error small everywhere."""


def normal_of_words(words: Words) -> npt.NDArray[np.float64]:
    """The normally distributed numbers that words of 32 or 64 bits stand for."""
    table = normal_table(words.itemsize == 8)
    signed = words.view(table.magnitude.dtype)  # which NumPy converts faster
    u = (signed & constant(table.magnitude, signed.dtype)).astype(np.float64)
    u += constant(0.5, u.dtype)
    place = u.view(np.int64)
    part = place >> constant(REST_BITS, place.dtype)
    part -= constant(FIRST_PART, place.dtype)
    x = (place & constant(_REST, place.dtype)).astype(np.float64)
    *lower, highest = table.coefficients
    total = highest.take(part)
    for each in reversed(lower):
        total *= x
        total += each.take(part)
    made: npt.NDArray[np.float64] = np.copysign(total, signed, out=total)
    return made


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
