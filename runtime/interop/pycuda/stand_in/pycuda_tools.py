"""``pycuda.tools``."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from . import c_types, memory_pools
from .c_types import *  # noqa: F403
from .device_contexts import Context, Device, current_ordinal, init
from .driver_errors import LogicError
from .memory_pools import *  # noqa: F403
from .occupancy import DeviceData, OccupancyRecord

__all__ = [
    "DeviceData",
    "OccupancyRecord",
    "bitlog2",
    "chosen_device",
    "clear_context_caches",
    "context_dependent_memoize",
    "get_default_device",
    "init_cuda_context_fixture",
    "make_default_context",
    "mark_cuda_test",
]
__all__ += c_types.__all__
__all__ += memory_pools.__all__

F = TypeVar("F", bound=Callable[..., Any])
_caches: list[dict[Any, Any]] = []


def chosen_device() -> int | None:
    """The device that ``CUDA_DEVICE`` names, else the file ``.cuda-device`` in the home directory, else None.

    Raises:
        LogicError: what it says is no number.
    """
    text = os.environ.get("CUDA_DEVICE")
    if text is None:
        file = Path.home() / ".cuda-device"
        text = file.read_text() if file.is_file() else None
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise LogicError(
            f"CUDA_DEVICE, or the file .cuda-device in the home directory, is {text.strip()!r}; it must be "
            "a device's number"
        ) from None


def make_default_context(ctx_maker: Callable[[Device], Context] | None = None) -> Context:
    """A context of the device that ``chosen_device`` says, else of the first one, which becomes current.

    Raises:
        LogicError: there is no such device.
    """
    if not Device.count():
        raise LogicError("there is no device")
    make = ctx_maker or Device.make_context
    return make(Device(chosen_device() or 0))


def leave_at_exit(context: Context) -> None:
    """When the program ends, leave a context that is current still, and forget what was kept for it."""

    @atexit.register
    def leave() -> None:
        if context.get_current() is context:
            context.pop()
        clear_context_caches()


def get_default_device(default: int = 0) -> Device:
    """The device that ``chosen_device`` says, else that of a number. Raises LogicError if there is no such device."""
    chosen = chosen_device()
    return Device(default if chosen is None else chosen)


def context_dependent_memoize(func: F) -> F:
    """The function, computed once for each device and arguments."""
    kept: dict[Any, Any] = {}
    _caches.append(kept)

    @wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        key = (current_ordinal(), args, tuple(sorted(keywords.items())))
        if key not in kept:
            kept[key] = func(*args, **keywords)
        return kept[key]

    return call  # type: ignore[return-value]


def clear_context_caches() -> None:
    """Forget what ``context_dependent_memoize`` keeps."""
    for kept in _caches:
        kept.clear()


def mark_cuda_test(func: Callable[..., Any]) -> Any:
    """A test for pytest that has a context while it runs, marked ``cuda``."""
    import pytest

    @wraps(func)
    def test(*args: Any, **keywords: Any) -> Any:
        with_context = init_cuda_context_fixture()
        next(with_context)
        try:
            return func(*args, **keywords)
        finally:
            next(with_context, None)

    return pytest.mark.cuda(test)


def init_cuda_context_fixture() -> Iterator[str]:
    """What a fixture of pytest yields from, so that tests have a context."""
    init()
    context = make_default_context()
    try:
        yield "cuda_context"
    finally:
        context.pop()
        clear_context_caches()


def bitlog2(n: int) -> int:
    """The largest power of two that is not above ``n``, as its exponent."""
    return n.bit_length() - 1
