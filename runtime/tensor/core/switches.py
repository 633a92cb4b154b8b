"""What programs choose between speed and exactness: results that repeat, and products of matrices in fewer bits."""

from __future__ import annotations

import warnings

from ....allocators.errors import CuplugError
from .tensor_errors import ArgumentError

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "not_deterministic",
    "set_float32_matmul_precision",
    "switches",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")


class _Switches:
    deterministic = False
    warn_only = False
    precision = "highest"
    """Of products of float32 matrices on CUDA: all but ``highest`` let cuBLAS round operands to TF32."""


switches = _Switches()
"""Of the process, as in torch."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Let operations give the same bits in every run, more slowly, where they would not; or raise an error.

    On the CPU and the simulator all do in any case. On CUDA what is added to one place by several threads
    (``scatter_add``, ``index_add``, ``index_put`` with ``accumulate``, gradients of what was taken by index) is then
    added in order; products and extremes that are scattered have no such form.

    Args:
        mode: whether to.
        warn_only: whether an operation without such a form warns, instead of raising an error.
    """
    switches.deterministic, switches.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` is in force."""
    return switches.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operations that have no deterministic form only warn."""
    return switches.deterministic and switches.warn_only


def not_deterministic(operation: str) -> None:
    """Say that an operation, about to run, may give other bits in another run, if programs asked to be told.

    Raises:
        CuplugError: they did.
    """
    if not switches.deterministic:
        return
    said = (
        f"{operation} has no deterministic form on CUDA, and use_deterministic_algorithms(True) was called; compute it "
        "on the CPU, or say warn_only=True there"
    )
    if not switches.warn_only:
        raise CuplugError(said)
    warnings.warn(said, stacklevel=3)


def set_float32_matmul_precision(precision: str) -> None:
    """How products of float32 matrices are computed on CUDA: ``highest`` in float32; ``high`` and ``medium`` with
    operands rounded to TF32 (10 bits of mantissa), which is several times as fast.

    Raises:
        ValueError: it is none of these.
    """
    if precision not in _PRECISIONS:
        raise ArgumentError(f"set_float32_matmul_precision: write {', '.join(_PRECISIONS)}, not {precision!r}")
    switches.precision = precision


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` chose."""
    return switches.precision
