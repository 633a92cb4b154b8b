"""``detect_anomaly``: a backward pass that stops where a gradient becomes NaN, and shows what was computed there."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..tensor.core.tensor import Tensor
from ..tensor.ops.reductions.reductions import any as any_of

__all__ = [
    "calls_so_far",
    "check_gradients",
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "mode",
    "set_detect_anomaly",
    "warn_of",
]


class _Mode:
    """Of the process, as torch's."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        """Whether nodes remember the calls that made them."""
        self.check_nan = True
        """Whether gradients are looked at, which waits for a device."""


_STATE = mode = _Mode()


def is_anomaly_enabled() -> bool:
    """Whether anomalies are looked for."""
    return mode.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether gradients are looked at while anomalies are looked for."""
    return mode.check_nan


class set_detect_anomaly:  # noqa: N801 - torch's name
    """Look for anomalies, or not: at once, and as a context until its end.

    While they are looked for, operations remember the calls that made them, which takes time; a backward pass warns
    with these calls when an operation's gradient fails or has a NaN, and raises.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (_STATE.enabled, _STATE.check_nan)
        _STATE.enabled, _STATE.check_nan = mode, check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _STATE.enabled, _STATE.check_nan = self._before


class detect_anomaly(set_detect_anomaly):  # noqa: N801 - torch's name
    """Look for anomalies until the end of the context: see ``set_detect_anomaly``."""

    def __init__(self, check_nan: bool = True) -> None:
        self._wanted = check_nan

    def __enter__(self) -> None:
        super().__init__(True, self._wanted)


def calls_so_far() -> list[str]:
    """The calls that led here, innermost last, without those of this package's graph."""
    return traceback.format_stack()[:-2]


def check_gradients(title: str, metadata: dict[Any, Any] | None, made: Sequence[Any]) -> None:
    """Look at the gradients that an operation made.

    Raises:
        CuplugError: one of them has a NaN; before, the calls that made the operation are warned of.
    """
    for number, gradient in enumerate(made):
        if isinstance(gradient, Tensor) and gradient.is_floating_point() and bool(any_of(gradient.isnan())):
            warn_of(title, metadata)
            raise CuplugError(f"Function {title!r} returned nan values in its {number}th output.")


def warn_of(title: str, metadata: dict[Any, Any] | None) -> None:
    """Warn of an operation whose gradient is wrong, with the calls that made it."""
    calls = (metadata or {}).get("traceback_")
    told = "".join(calls) if calls else "No forward pass information available: anomalies were not looked for then."
    warnings.warn(f"Error detected in {title}. Traceback of forward call that caused the error:\n{told}", stacklevel=6)
