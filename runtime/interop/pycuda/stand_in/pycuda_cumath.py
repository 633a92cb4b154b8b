"""``pycuda.cumath``: functions of each element. Without ``out`` they give a new array of the same type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .device_arithmetic import queue
from .driver_errors import translated
from .gpu_array import GPUArray, elementwise, empty_like
from .queues import Stream

__all__ = [
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "exp",
    "fabs",
    "floor",
    "fmod",
    "frexp",
    "ldexp",
    "log",
    "log10",
    "modf",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def _unary(name: str, function: Any, what: str) -> Callable[..., GPUArray]:
    def call(
        array: GPUArray, stream_or_out: Any = None, *, out: GPUArray | None = None, stream: Any = None
    ) -> GPUArray:
        if isinstance(stream_or_out, GPUArray):
            out = stream_or_out
        elif stream_or_out is not None:
            stream = stream_or_out
        if stream is not None and not isinstance(stream, Stream):
            raise TypeError(f"{name} takes an array, out= and stream=; {type(stream).__name__} is none of them")
        return elementwise(name, function, (array,), array.dtype, out, stream)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{what} of each element. ``out`` is where to write it, ``stream`` where to queue it."
    return call


fabs = _unary("fabs", np.abs, "The absolute value")
ceil = _unary("ceil", np.ceil, "The smallest whole number that is not below that")
floor = _unary("floor", np.floor, "The largest whole number that is not above that")
exp = _unary("exp", np.exp, "The exponential")
log = _unary("log", np.log, "The natural logarithm")
log10 = _unary("log10", np.log10, "The logarithm to base 10")
sqrt = _unary("sqrt", np.sqrt, "The square root")
sin = _unary("sin", np.sin, "The sine")
cos = _unary("cos", np.cos, "The cosine")
tan = _unary("tan", np.tan, "The tangent")
asin = _unary("asin", np.arcsin, "The inverse sine")
acos = _unary("acos", np.arccos, "The inverse cosine")
atan = _unary("atan", np.arctan, "The inverse tangent")
sinh = _unary("sinh", np.sinh, "The hyperbolic sine")
cosh = _unary("cosh", np.cosh, "The hyperbolic cosine")
tanh = _unary("tanh", np.tanh, "The hyperbolic tangent")


def fmod(arg: GPUArray, mod: GPUArray, stream: Any = None) -> GPUArray:
    """The rest of ``arg / mod``, with the sign of ``arg``."""
    return elementwise("fmod", np.fmod, (arg, mod), arg.dtype, None, stream)


def ldexp(significand: GPUArray, exponent: GPUArray, stream: Any = None) -> GPUArray:
    """``significand * 2**exponent``, of which the whole part counts."""
    work = lambda x, y: np.ldexp(x, y.astype(np.int32))  # noqa: E731
    return elementwise("ldexp", work, (significand, exponent), significand.dtype, None, stream)


def frexp(arg: GPUArray, stream: Any = None) -> tuple[GPUArray, GPUArray]:
    """Significands from 0.5 to 1 and exponents of 2, of which the elements are the products; both of their type."""
    return _two("frexp", np.frexp, arg, stream)


def modf(arg: GPUArray, stream: Any = None) -> tuple[GPUArray, GPUArray]:
    """The fractional and the whole parts."""
    return _two("modf", np.modf, arg, stream)


@translated
def _two(name: str, function: Any, arg: GPUArray, stream: Any) -> tuple[GPUArray, GPUArray]:
    first, second = empty_like(arg), empty_like(arg)

    def work(one: Any, other: Any, values: Any) -> None:
        one[...], other[...] = function(values)

    queue(name, work, (first.region, second.region), (arg.region,), stream)
    return first, second
