"""``cuplug.random``: where the generators of random numbers stand, as torch's module of that name has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....machine.device import device_count
from ....machine.device_name import device
from ...core.dtypes import uint8
from ...core.generator import Generator, initial_seed, manual_seed, seed
from ...core.generator import default_generator as _generator_of
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError
from ...places.registry import place_of
from ..arguments.numpy_arrays import adopt_array
from ..arguments.scalars import tolist

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


def _at(given: Any = "cuda") -> Generator:
    return _generator_of(place_of(given).device)


def _cuda_manual_seed(seed: int) -> None:
    """Start the current device's generator from ``seed``; without a device do nothing, as torch's."""
    if device_count():
        _at().manual_seed(seed)


def _cuda_manual_seed_all(seed: int) -> None:
    """Start the generators of all CUDA devices from ``seed``."""
    for ordinal in range(device_count()):
        _generator_of(device(ordinal)).manual_seed(seed)


def _cuda_seed() -> None:
    """Start the current device's generator from a seed that nobody can foretell."""
    _at().seed()


def _cuda_initial_seed() -> int:
    """The seed that the current device's generator started from."""
    return _at().initial_seed()


def get_rng_state(device: Any = "cpu") -> Tensor:
    """Where a device's default generator stands, as a CPU tensor of bytes, for ``set_rng_state``."""
    return _at(device).get_state()  # type: ignore[no-any-return]


def set_rng_state(new_state: Tensor, device: Any = "cpu") -> None:
    """Let a device's default generator go to where ``get_rng_state`` was called.

    Raises:
        ValueError: ``new_state`` is no such state.
    """
    _at(device).set_state(new_state)


def _written(state: tuple[int, int]) -> Tensor:
    return adopt_array(np.array(state, np.uint64).view(np.uint8))


def _read(state: Tensor) -> tuple[int, int]:
    if not isinstance(state, Tensor) or state.dtype is not uint8 or state.numel() != 16 or not state.is_cpu:
        raise ArgumentError("the state of a generator is a CPU tensor of 16 bytes, from get_state or get_rng_state")
    seed, counter = np.array(tolist(state), np.uint8).view(np.uint64).tolist()
    return seed, counter


Generator.written, Generator.read = staticmethod(_written), staticmethod(_read)


def _cuda_get_rng_state(device: Any = "cuda") -> Tensor:
    """Where a CUDA device's generator stands, as a CPU tensor of bytes."""
    return get_rng_state(device)


def _cuda_set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Let a CUDA device's generator go to where ``get_rng_state`` was called."""
    set_rng_state(new_state, device)


def _cuda_get_rng_state_all() -> list[Tensor]:
    """Where the generators of all CUDA devices stand."""
    return [get_rng_state(ordinal) for ordinal in range(device_count())]


def _cuda_set_rng_state_all(new_states: Sequence[Tensor]) -> None:
    """Let the generators of all CUDA devices go to where ``get_rng_state_all`` was called."""
    for ordinal, state in enumerate(new_states):
        set_rng_state(state, ordinal)


CUDA_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_rng_state": _cuda_get_rng_state,
    "get_rng_state_all": _cuda_get_rng_state_all,
    "set_rng_state": _cuda_set_rng_state,
    "set_rng_state_all": _cuda_set_rng_state_all,
    "manual_seed": _cuda_manual_seed,
    "manual_seed_all": _cuda_manual_seed_all,
    "seed": _cuda_seed,
    "initial_seed": _cuda_initial_seed,
}
"""What ``cuplug.cuda`` has of this module. Without a CUDA device ``manual_seed`` and its kin do nothing, as torch's."""
