"""``cuplug.backends.cudnn``: torch's switches of cuDNN, which computes convolutions, attention and recurrent
layers on CUDA.

They hold for what runs after they are set. On the CPU, on the simulator and where cuDNN is missing, all these are
products of matrices, by one algorithm that gives the same bits in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

from .backends.libraries.cudnn import cudnn
from .core.switches import switches
from .places.tables_with_gradients.library_table import Choosing

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version"]

allow_tf32: bool = True
"""Whether convolutions of float32 may round to TF32, 10 bits of mantissa; as in torch they may by default."""
benchmark: bool = False
"""Whether the algorithm of a convolution is chosen by the clock on first use, instead of by an estimate."""
deterministic: bool = False
"""Whether only algorithms are taken that give the same bits in every run; ``use_deterministic_algorithms`` asks for
them, too."""
enabled: bool = True
"""Whether cuDNN is used at all."""


def is_available() -> bool:
    """Whether cuDNN's library is installed, version 9 or later."""
    return cudnn() is not None


def version() -> int | None:
    """The library's version, as 91900 for 9.19.0, or None without it."""
    library = cudnn()
    return None if library is None else int(library.cudnnGetVersion())


def choosing() -> Choosing:
    """What the switches say now."""
    return _CHOOSING[bool(benchmark), bool(deterministic) or switches.deterministic, bool(allow_tf32)]


_CHOOSING = {each: Choosing(*each) for each in product((False, True), repeat=3)}
"""Made once: they are asked for at each convolution."""


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """A context within which the switches have these values."""
    own = globals()
    wanted = {"enabled": enabled, "benchmark": benchmark, "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: own[name] for name in wanted}
    try:
        own.update(wanted)
        yield
    finally:
        own.update(before)
