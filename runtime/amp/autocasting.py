"""``autocast``: products of matrices and convolutions in a half type, sums and losses in float32.

What runs in which type is said where it runs, in networks' functions: see ``nn/casting.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..machine.callers import warn_program
from ..machine.device import is_available
from ..nn import casting as _casting  # noqa: F401 - it registers itself at the seam
from ..tensor.core.casting_seam import autocasting, casting_as
from ..tensor.core.dtypes import bfloat16, dtype, dtype_of, float16
from ..tensor.core.tensor_errors import ArgumentError


class autocast:  # noqa: N801 - torch's name
    """``with autocast("cuda"):`` or ``@autocast("cuda")``: layers compute in a half type where that does no harm.

    It warns and does nothing, as torch's, where the type is no half type, and for ``cuda`` where there is no device.

    Raises:
        ValueError: there is no such kind of device.
    """

    def __init__(
        self, device_type: Any = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if isinstance(device_type, bool):  # autocast(enabled) of cuda.amp, as in old programs
            device_type, enabled = "cuda", device_type
        _check_kind("autocast", device_type)
        kind = dtype_of(dtype) if dtype is not None else _FAST[device_type]
        if not kind.is_half:
            warn_program(
                f"autocast: dtype is float16 or bfloat16, not {kind!r}: this one does nothing",
            )
            enabled = False
        self.device_type, self.fast_dtype = device_type, kind
        enabled = enabled and not (device_type == "cuda" and without_cuda("autocast"))
        self._enabled, self._caches = enabled, cache_enabled is not False
        self._entered: list[Any] = []

    def __enter__(self) -> None:
        fast = {**autocasting.fast, self.device_type: self.fast_dtype if self._enabled else None}
        # The outermost context lets the converted weights go.
        cache = {} if autocasting.cache is None and self._caches else autocasting.cache if self._caches else None
        self._entered.append(casting_as(fast, cache))
        self._entered[-1].__enter__()

    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__(None, None, None)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.device_type, self.fast_dtype, self._enabled, self._caches):
                return function(*args, **kwargs)

        return within


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is within ``autocast`` of this kind of device.

    Raises:
        ValueError: there is no such kind of device.
    """
    _check_kind("is_autocast_enabled", device_type)
    return autocasting.fast.get(device_type) is not None


def get_autocast_dtype(device_type: str = "cuda") -> dtype:
    """The half type in which ``autocast`` of this kind of device computes: where it is off, that it would take.

    Raises:
        ValueError: there is no such kind of device.
    """
    _check_kind("get_autocast_dtype", device_type)
    return autocasting.fast.get(device_type) or _FAST[device_type]


_FAST = {"cuda": float16, "cpu": bfloat16}


def _check_kind(name: str, device_type: Any) -> None:
    if device_type not in _FAST:
        raise ArgumentError(f"{name}: device_type is 'cuda' or 'cpu', not {device_type!r}")


def without_cuda(what: str) -> bool:
    """Whether there is no CUDA device; then it also warns that ``what`` does nothing."""
    if is_available():
        return False
    warn_program(f"{what} is for CUDA devices, and CUDA is not available: it does nothing")
    return True
