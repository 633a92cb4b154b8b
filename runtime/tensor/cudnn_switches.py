"""``cuplug.backends.cudnn``: torch's switches of cuDNN, which is not used.

Convolutions are products of matrices with windows of the input. There is one algorithm, so ``benchmark`` has nothing to
choose from; and it gives the same bits in every run, so ``deterministic`` has nothing to change. They compute in
float32 whatever ``allow_tf32`` says here; ``backends.cuda.matmul.allow_tf32`` holds for them as for all products.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version"]

allow_tf32: bool = True
benchmark: bool = False
deterministic: bool = False
enabled: bool = True


def is_available() -> bool:
    """Whether cuDNN is used: it is not."""
    return False


def version() -> int | None:
    """The version of cuDNN: there is none."""
    return None


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """A context within which the switches have these values."""
    own = globals()
    wanted = {"enabled": enabled, "benchmark": benchmark, "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: own[name] for name in wanted}
    own.update(wanted)
    try:
        yield
    finally:
        own.update(before)
