"""``detect_anomaly``: a backward pass that stops where a gradient becomes NaN, and shows what was computed there."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from ...allocators.errors import CuplugError
from ..kernels.launch.quick_calls import python_form
from ..tensor.core.tensor import Tensor
from ..tensor.ops.reductions.reductions import any as any_of
from .graph import Node, make_node, numbering


class _Mode:
    """Of the process, as torch's."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        """Whether nodes remember the calls that made them."""
        self.check_nan = True
        """Whether gradients are looked at, which waits for a device."""

    def change(self, enabled: bool, check_nan: bool) -> None:
        """Look for anomalies, or not. Nodes are made in another way meanwhile, so that at all other times an operation
        does not even ask."""
        self.enabled, self.check_nan = enabled, check_nan
        Node.__init__ = _begin_with_calls if enabled else _begin  # type: ignore[method-assign]
        numbering.make_node = python_form(make_node) if enabled else make_node


_begin = Node.__init__


def _begin_with_calls(self: Node, *args: Any, **kwargs: Any) -> None:
    _begin(self, *args, **kwargs)
    self.metadata = {"traceback_": traceback.format_stack()[:-1]}


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
        _STATE.change(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _STATE.change(*self._before)


class detect_anomaly(set_detect_anomaly):  # noqa: N801 - torch's name
    """Look for anomalies until the end of the context: see ``set_detect_anomaly``."""

    def __init__(self, check_nan: bool = True) -> None:
        self._wanted = check_nan

    def __enter__(self) -> None:
        super().__init__(True, self._wanted)


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
