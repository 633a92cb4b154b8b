"""``pycuda.curandom``: random numbers of the right distributions. They are NumPy's, not those that cuRAND draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .device_arithmetic import queue
from .driver_errors import lacking, translated
from .gpu_array import GPUArray
from .new_arrays import to_gpu

__all__ = [
    "MRG32k3aRandomNumberGenerator",
    "ScrambledSobol32RandomNumberGenerator",
    "ScrambledSobol64RandomNumberGenerator",
    "Sobol32RandomNumberGenerator",
    "Sobol64RandomNumberGenerator",
    "XORWOWRandomNumberGenerator",
    "get_curand_version",
    "rand",
    "seed_getter_uniform",
    "seed_getter_unique",
]

_KERNELS = 2048
"""How many seeds a generator asks for: one for each of so many threads."""


def get_curand_version() -> tuple[int, int, int]:
    """The version of cuRAND whose generators are named here."""
    return 10, 3, 9


def rand(shape: Any, dtype: Any = np.float32, stream: Any = None) -> GPUArray:
    """Random numbers from 0 to below 1; of integers all bits are random. Raises TypeError for other types."""
    return _shared.gen_uniform(shape, dtype, stream)


def seed_getter_uniform(N: int) -> GPUArray:  # noqa: N803 - PyCUDA's name
    """``N`` times the same random seed."""
    return to_gpu(np.full(N, np.random.default_rng().integers(2**31), np.int32))


def seed_getter_unique(N: int) -> GPUArray:  # noqa: N803
    """``N`` random seeds."""
    return to_gpu(np.random.default_rng().integers(2**31, size=N, dtype=np.int32))


class _Generator:
    """Draws numbers. Work on one generator runs in the order in which it was queued."""

    generators_per_block = 256
    block_count = _KERNELS // 256

    def __init__(self, seed_getter: Callable[[int], Any] | None = None, offset: int = 0) -> None:
        seeds = None if seed_getter is None else seed_getter(_KERNELS)
        values = seeds.get() if isinstance(seeds, GPUArray) else seeds
        self._random = np.random.Generator(np.random.Philox(None if values is None else list(map(int, values))))
        if offset:
            self.call_skip_ahead(offset)

    def fill_uniform(self, data: GPUArray, stream: Any = None) -> None:
        """Fill an array with numbers from 0 to below 1; integers with random bits. Raises TypeError for other types."""
        dtype = data.dtype
        if dtype.kind in "iu":
            self._fill("uniform", data, lambda out: np.frombuffer(self._random.bytes(out.nbytes), dtype), stream)
        elif dtype in (np.float32, np.float64):
            self._fill("uniform", data, lambda out: self._random.random(out.size, dtype), stream)
        else:
            raise TypeError(f"uniform numbers are integers, float32 or float64, not {dtype}")

    def fill_normal(self, data: GPUArray, stream: Any = None) -> None:
        """Fill an array with normally distributed numbers. Raises TypeError for other types than float32, float64."""
        self._check_float(data)
        self._fill("normal", data, lambda out: self._random.standard_normal(out.size, data.dtype), stream)

    def fill_log_normal(self, data: GPUArray, mean: float, stddev: float, stream: Any = None) -> None:
        """Fill an array with numbers whose logarithms are normally distributed. Raises TypeError as ``fill_normal``."""
        self._check_float(data)
        self._fill("log_normal", data, lambda out: self._random.lognormal(mean, stddev, out.size), stream)

    def fill_poisson(self, data: GPUArray, lambda_value: float | None = None, stream: Any = None) -> None:
        """Fill an array with numbers of a Poisson distribution, whose mean is given, or is each element up to now."""
        if lambda_value is None:
            self._fill("poisson", data, lambda out: self._random.poisson(out.reshape(-1)), stream)
        else:
            self._fill("poisson", data, lambda out: self._random.poisson(lambda_value, out.size), stream)

    def gen_uniform(self, shape: Any, dtype: Any, stream: Any = None) -> GPUArray:
        """A new array, filled by ``fill_uniform``. Raises as that."""
        made = GPUArray(shape, dtype)
        self.fill_uniform(made, stream)
        return made

    def gen_normal(self, shape: Any, dtype: Any, stream: Any = None) -> GPUArray:
        """A new array, filled by ``fill_normal``. Raises as that."""
        made = GPUArray(shape, dtype)
        self.fill_normal(made, stream)
        return made

    def gen_log_normal(self, shape: Any, dtype: Any, mean: float, stddev: float, stream: Any = None) -> GPUArray:
        """A new array, filled by ``fill_log_normal``. Raises as that."""
        made = GPUArray(shape, dtype)
        self.fill_log_normal(made, mean, stddev, stream)
        return made

    def gen_poisson(self, shape: Any, dtype: Any, lambda_value: float, stream: Any = None) -> GPUArray:
        """A new array, filled by ``fill_poisson``."""
        made = GPUArray(shape, dtype)
        self.fill_poisson(made, lambda_value, stream)
        return made

    def call_skip_ahead(self, i: int, stream: Any = None) -> None:
        """Leave out ``i`` values of each thread's."""
        queue("skip_ahead", lambda: self._random.bit_generator.advance(int(i)), (), (), stream)  # type: ignore[attr-defined]

    @translated
    def _fill(self, name: str, data: GPUArray, draw: Callable[[Any], Any], stream: Any) -> None:
        def work(out: Any) -> None:
            np.copyto(out, draw(out).reshape(out.shape), casting="unsafe")

        queue(f"curand {name}", work, (data.region,), (), stream)

    @staticmethod
    def _check_float(data: GPUArray) -> None:
        if data.dtype not in (np.float32, np.float64):
            raise TypeError(f"normally distributed numbers are float32 or float64, not {data.dtype}")


class XORWOWRandomNumberGenerator(_Generator):
    """Pseudorandom numbers, the same for the same seeds."""


class MRG32k3aRandomNumberGenerator(_Generator):
    """Pseudorandom numbers, the same for the same seeds."""


class Sobol32RandomNumberGenerator:
    """Refused: the simulator has no quasirandom sequences."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Refused. Raises NotImplementedError."""
        lacking(type(self).__name__, "XORWOWRandomNumberGenerator draws pseudorandom numbers")


class Sobol64RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """Refused: the simulator has no quasirandom sequences."""


class ScrambledSobol32RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """Refused: the simulator has no quasirandom sequences."""


class ScrambledSobol64RandomNumberGenerator(Sobol32RandomNumberGenerator):
    """Refused: the simulator has no quasirandom sequences."""


_shared = XORWOWRandomNumberGenerator()
