"""``cuplug.random``: where the generators of random numbers stand, as torch's module of that name has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ....machine.device import device_count
from ....machine.device_name import device
from ...core.generator import Generator, initial_seed, manual_seed, seed
from ...core.generator import default_generator as _generator_of
from ...core.tensor_errors import ArgumentError
from .random_numbers import get_rng_state, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]

default_generator: Generator = _generator_of()
"""The generator that the CPU uses when none is named."""


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, *, device_type: str = "cuda"
) -> Iterator[None]:
    """Let the default generators go on from here afterwards, whatever is drawn or seeded within ``with``.

    Args:
        devices: the CUDA devices whose generators are meant, beside the CPU's; by default all.
        enabled: False for nothing at all.
        device_type: ``cuda``; or ``cpu``, for the CPU's alone.

    Raises:
        ValueError: there are no devices of such a type.
    """
    if device_type not in ("cuda", "cpu"):
        raise ArgumentError(f"fork_rng: device_type is 'cuda' or 'cpu', not {device_type!r}")
    if not enabled:
        yield
        return
    if device_type == "cpu":
        devices = ()
    chosen = [device(each) for each in (range(device_count()) if devices is None else devices)]
    kept = [(each, get_rng_state(each)) for each in (device("cpu"), *chosen)]
    try:
        yield
    finally:
        for each, state in kept:
            set_rng_state(state, each)
