"""Remainders and rounded quotients of arrays, of float32 by way of float64: NumPy asks C for each element's remainder,
which takes four to thirteen times as long as all passes here.

Both numbers have 24 bits. While their quotient has no more than 27, its whole part is that of the quotient in float64,
and what that part times the divisor leaves of the dividend is exact there. Where it has more, and where an infinity, a
NaN or a division by zero is involved, NumPy does it; where that is so of most elements, it does all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .choice import constant

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_LARGEST_PART = 2.0**27
_LARGEST_QUOTIENT = 2.0**21
"""Up to which NumPy's quotient, which it computes in float32, is the exact one."""
_SIGN = np.uint32(1 << 31)
_FEW = 2048
"""Up to so many elements NumPy takes no longer."""


def fmod(a: Any, b: Any, out: Any = None) -> Any:
    """The remainder of the quotient rounded towards 0, with the sign of ``a``."""
    quotient, usual = _quotient(a, b, _LARGEST_PART)
    if usual is None:
        return np.fmod(a, b, out=out)
    if quotient.max() < 1 and quotient.min() > -1:
        # What is smaller than its divisor is itself the remainder. C sees so at once, before the passes below would.
        made = np.empty(quotient.shape, _SINGLE) if out is None else out
        made[...] = a
        return made
    return _completed(np.fmod, _rest(a, b, quotient), usual, a, b, out)


def remainder(a: Any, b: Any, out: Any = None) -> Any:
    """The remainder of the quotient rounded down, with the sign of ``b``."""
    quotient, usual = _quotient(a, b, _LARGEST_PART)
    if usual is None:
        return np.remainder(a, b, out=out)
    made = _rest(a, b, quotient)
    zero = constant(0, _SINGLE)
    made += b * ((made != zero) & ((made < zero) != (b < zero)))
    return _completed(np.remainder, np.copysign(made, b, out=made), usual, a, b, out)


def floor_divide(a: Any, b: Any, out: Any = None) -> Any:
    """The quotient rounded down."""
    quotient, usual = _quotient(a, b, _LARGEST_QUOTIENT)
    if usual is None:
        return np.floor_divide(a, b, out=out)
    return _completed(np.floor_divide, np.floor(quotient, out=quotient).astype(_SINGLE), usual, a, b, out)


def _quotient(a: Any, b: Any, largest: float) -> tuple[Any, Any]:
    """The quotient in float64, and where it is below ``largest`` and of a finite divisor; None for that if NumPy is the
    quicker one, or there are no elements."""
    if a.dtype != _SINGLE or max(a.size, b.size) <= _FEW:
        return None, None
    quotient = np.true_divide(a, b, dtype=_DOUBLE)
    usual = quotient < largest
    usual &= quotient > -largest
    finite = np.isfinite(b)
    if not finite.all():
        usual &= finite
    return quotient, usual if 2 * np.count_nonzero(usual) >= max(usual.size, 1) else None


def _rest(a: Any, b: Any, quotient: Any) -> Any:
    """The remainder of ``fmod``, where it is usual. The quotient is written over."""
    part = np.trunc(quotient, out=quotient)
    part *= b
    np.subtract(a, part, out=part)
    made = part.astype(_SINGLE)
    # A remainder of 0 has a's sign, too. A pass that sets bits takes a quarter of copysign's time.
    bits = made.view(np.uint32)
    bits |= a.view(np.uint32) & _SIGN
    return made


def _completed(operation: np.ufunc, made: Any, usual: Any, a: Any, b: Any, out: Any) -> Any:
    """``made``, and what the operation makes of the operands where that is unusual; written to ``out``, if given."""
    if not usual.all():
        unusual = ~usual
        made[unusual] = operation(*[np.broadcast_to(each, made.shape)[unusual] for each in (a, b)])
    if out is None:
        return made
    out[...] = made
    return out
