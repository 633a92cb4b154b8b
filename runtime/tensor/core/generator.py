"""``Generator``: where a stream of random bits stands. What makes numbers of them is in ``places/distributions.py``."""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from ...machine.device_name import CPU
from ...machine.device_name import device as device_named
from .tensor_errors import ArgumentError

__all__ = ["Generator", "initial_seed", "manual_seed", "seed"]

_BLOCK = 4  # 64-bit words of one counter


class Generator:
    """A stream of random bits: a seed, and how many blocks were used. Each device has a default one.

    ``manual_seed(s)`` starts every default generator at the same place, so that the same calls give the same numbers
    wherever they run.
    """

    written: ClassVar[Any]
    """Seed and counter as a tensor; ``random_states`` says how, since this stands below the class of tensors."""
    read: ClassVar[Any]
    """A tensor as seed and counter."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = device_named(device)
        self._seed = 67280421310721  # torch's default seed (``c10::detail::getNonDeterministicRandom`` aside)
        self._counter = 0

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``, any integer of 64 bits; negative ones count from 2**64.

        Raises:
            ArgumentError: the seed has more than 64 bits.
        """
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

    def get_state(self) -> Any:
        """Where the generator stands, as a CPU tensor of bytes, for ``set_state``."""
        return type(self).written((self._seed, self._counter))

    def set_state(self, new_state: Any) -> Generator:
        """Go to where ``get_state`` was called.

        Raises:
            ValueError: ``new_state`` is no such state.
        """
        self._seed, self._counter = self.read(new_state)
        return self

    def take(self, words: int) -> tuple[int, int]:
        """Seed and counter of the next ``words`` words of 64 bits, which the generator then has used."""
        counter = self._counter
        self._counter = counter + (words + _BLOCK - 1) // _BLOCK
        return self._seed, counter

    def __repr__(self) -> str:
        return f"<cuplug.Generator on {self.device}, seed {self._seed}, {self._counter} blocks used>"


_defaults: dict[device_named, Generator] = {}
_seeded: list[int] = []


def default_generator(of: device_named = CPU) -> Generator:
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
    seed = int(seed)  # a tensor would keep its device's memory, and devices that come later would read it
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
