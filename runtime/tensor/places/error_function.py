"""The error function of arrays, which NumPy does not have: by rational functions, in a few passes over an array.

Of float32 and narrower: one quotient in the element's own arithmetic, within 4e-7 (fitted for this file to the relative
error of ``erf(x) / x``). Of float64: the quotients of Cephes (S. Moshier, *Methods and Programs for Mathematical
Functions*, 1989), within a few units of the last place.

A few elements are computed by Python's ``math``, whose calls take less time than the passes: the last digit of an
element can depend on how many there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .choice import constant

_FEW = 16
"""Up to how many elements are computed one by one."""
_LARGEST = 3.85
"""Where the error function of float32 is 1."""
_SINGLE_ABOVE = (
    *(1.1283791689078753, 0.18500761618291506, 0.05415454243611761, 0.0038242033516267303, 0.0003734819678667448),
    *(4.522459546709573e-06, -1.2327744686180253e-08),
)
_SINGLE_BELOW = (
    *(1.0, 0.49729212953697116, 0.11375682283416239, 0.015389497346018018, 0.0012942369907701595),
    6.158676613259462e-05,
)
# Of Cephes, in its order: the highest power first.
_INNER_ABOVE = (
    *(9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3, 7.00332514112805075473e3),
    5.55923013010394962768e4,
)
_INNER_BELOW = (
    *(1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3, 2.26290000613890934246e4),
    4.92673942608635921086e4,
)
_OUTER_ABOVE = (
    *(2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0, 4.86371970985681366614e1),
    *(1.96520832956077098242e2, 5.26445194995477358631e2, 9.34528527171957607540e2, 1.02755188689515710272e3),
    5.57535335369399327526e2,
)
_OUTER_BELOW = (
    *(1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2, 9.75708501743205489753e2),
    *(1.82390916687909736289e3, 2.24633760818710981792e3, 1.65666309194161350182e3, 5.57535340817727675546e2),
)
_FAR_ABOVE = (
    *(5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0, 6.16021097993053585195e0),
    *(7.40974269950448939160e0, 2.97886665372100240670e0),
)
_FAR_BELOW = (
    *(1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1, 1.70814450747565897222e1),
    *(9.60896809063285878198e0, 3.36907645100081516050e0),
)


def erf(a: Any) -> Any:
    """The error function of an array of floats, in their type."""
    if a.size <= _FEW:
        return _one_by_one(math.erf, a)
    flat = np.atleast_1d(a)
    made = _of_single(flat) if a.dtype == np.float32 else _of_double(flat.astype(np.float64, copy=False))
    return made.astype(a.dtype, copy=False).reshape(a.shape)


def erfc(a: Any) -> Any:
    """1 less the error function, exact also where that is near 1; computed in float64."""
    if a.size <= _FEW:
        return _one_by_one(math.erfc, a)
    made = _complement(np.atleast_1d(a).astype(np.float64, copy=False))
    return made.astype(a.dtype, copy=False).reshape(a.shape)


def _one_by_one(function: Callable[[float], float], a: Any) -> Any:
    made = np.array([function(each) for each in a.ravel().tolist()], a.dtype)
    return made.reshape(a.shape)


def _of_single(a: Any) -> Any:
    limit = constant(_LARGEST, a.dtype)
    x = np.minimum(np.maximum(a, constant(-_LARGEST, a.dtype)), limit)
    square = x * x
    made = _polynomial(square, _SINGLE_ABOVE[::-1])
    made *= x
    made /= _polynomial(square, _SINGLE_BELOW[::-1])
    far = np.abs(x) == limit
    if far.any():
        np.copyto(made, np.sign(x), where=far)
    return made


def _of_double(a: Any) -> Any:
    made = _inner(a)
    outer = np.abs(a) >= 1
    if outer.any():
        x = a[outer]
        made[outer] = np.copysign(1 - _tail(np.abs(x)), x)
    return made


def _complement(a: Any) -> Any:
    made = 1 - _inner(a)
    outer = np.abs(a) >= 1
    if outer.any():
        x = a[outer]
        tail = _tail(np.abs(x))
        made[outer] = np.where(x > 0, tail, 2 - tail)
    return made


def _inner(a: Any) -> Any:
    """``erf`` where it is meant, below 1; elsewhere any number. NaN stays NaN."""
    x = np.clip(a, -1.0, 1.0)
    square = x * x
    return _polynomial(square, _INNER_ABOVE) * x / _polynomial(square, _INNER_BELOW)


def _tail(x: Any) -> Any:
    """``erfc`` from 1 on."""
    x = np.minimum(x, 30.0)
    near = np.where(x < 8, x, 8.0)
    made = _polynomial(near, _OUTER_ABOVE) / _polynomial(near, _OUTER_BELOW)
    far = x >= 8
    if far.any():
        made[far] = _polynomial(x[far], _FAR_ABOVE) / _polynomial(x[far], _FAR_BELOW)
    rounded = np.trunc(x * 16) / 16  # its square is exact, so that the exponential of a large number is, too
    return made * np.exp(-rounded * rounded) * np.exp(-(x - rounded) * (x + rounded))


def _polynomial(x: Any, factors: Sequence[float]) -> Any:
    """By Horner's rule, the highest power's factor first, in the array's own type."""
    first, *middle, last = [constant(factor, x.dtype) for factor in factors]
    made = x * first
    for factor in middle:
        made += factor
        made *= x
    made += last
    return made
