"""What programs choose between speed and exactness: results that repeat, and products of matrices in fewer bits."""

from __future__ import annotations

from .tensor_errors import ArgumentError

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_float32_matmul_precision",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_float32_matmul_precision",
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
    """Let operations give the same bits in every run, more slowly, where they would not.

    On the CPU and the simulator all do in any case. On CUDA what several threads write to one place (``scatter``,
    ``scatter_add``, ``index_add``, ``index_put`` with ``accumulate``, gradients of what was taken by index) is then
    written in order; nothing else depends on who comes first.

    Args:
        mode: whether to.
        warn_only: as torch's: what to do about operations that have no such form, of which there are none.
    """
    switches.deterministic, switches.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` is in force."""
    return switches.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``use_deterministic_algorithms`` was told."""
    return switches.deterministic and switches.warn_only


def set_float32_matmul_precision(precision: str) -> None:
    """How products of float32 matrices are computed on CUDA: ``highest`` in float32; ``high`` and ``medium`` with
    operands rounded to TF32 (10 bits of mantissa), which is several times as fast. Small products, of matrices of up to
    16,384 results of 128 products each and of a small matrix and a vector, are computed in float32 all the same.

    Raises:
        ValueError: it is none of these.
    """
    if precision not in _PRECISIONS:
        raise ArgumentError(f"set_float32_matmul_precision: write {', '.join(_PRECISIONS)}, not {precision!r}")
    switches.precision = precision


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` chose."""
    return switches.precision
