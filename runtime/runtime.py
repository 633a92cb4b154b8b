"""The default runtime, which ``cuplug.cuda`` uses, and allocation from it at its quickest."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ..allocators.errors import CuplugError
from .buffer import Buffer
from .drivers.forking import in_forked_child
from .machine import Runtime
from .settings import AllocatorChoice, DriverChoice, Path, Settings

if TYPE_CHECKING:
    from ..plugins.manager import PluginManager

__all__ = ["Runtime", "alloc", "default_runtime", "init", "runtime_or_default", "shutdown"]

_default: Runtime | None = None
_default_lock = threading.RLock()


def alloc(nbytes: int, *, stream: Any = None) -> Buffer:
    """``nbytes`` bytes of device memory for use on ``stream``, uninitialised: see ``Runtime.alloc``."""
    return default_runtime().alloc(nbytes, stream=stream)


def init(
    allocator: AllocatorChoice | None = None,
    driver: DriverChoice | None = None,
    trace: Path | None = None,
    launch_blocking: bool | None = None,
    plugins: PluginManager | None = None,
) -> Runtime:
    """Start the default runtime, which ``cuplug.cuda`` uses, with the arguments of ``Runtime``.

    Without this, the first use starts it from the environment and the defaults. Called again, it returns the one that
    runs, if what is said agrees with it; one that no device of was touched yet is replaced.

    Raises:
        CuplugError: the runtime in use has other settings. Or any error of ``Runtime``.
    """
    global _default
    asked = Settings(allocator, driver, trace, launch_blocking, plugins)
    with _default_lock:
        running = _default
        if running is not None and running.abandoned is not None:
            raise CuplugError(running.abandoned)
        if running is not None and running.usable:
            other = asked.contradicts(running.settings)
            if not other:
                return running
            if running.in_use:
                differences = ", ".join(
                    f"{name}={getattr(asked, name)!r} instead of {getattr(running.settings, name)!r}" for name in other
                )
                raise CuplugError(f"cuplug is in use and cannot go on with {differences}; call shutdown() first")
            running.close()
        _default = Runtime(allocator, driver, trace, launch_blocking, plugins)
        return _default


def default_runtime() -> Runtime:
    """The default runtime, started now if there is none that was not closed.

    Raises:
        CuplugError: the process was forked after it had started. Or any error of ``Runtime``.
    """
    running = _default
    return running if running is not None and running.usable else init()


def runtime_or_default(runtime: Runtime | None) -> Runtime:
    """``runtime``, or the default one where none is named.

    Raises:
        TypeError: it is not a runtime.
        CuplugError: as ``default_runtime``.
    """
    if runtime is None:
        return default_runtime()
    if not isinstance(runtime, Runtime):
        raise TypeError(f"runtime must be a cuplug.Runtime or None, not {runtime!r}")
    return runtime


def shutdown() -> None:
    """Close the default runtime (``Runtime.close``). A later use starts a new one. Without one it does nothing.

    Raises:
        DriverError: the device was in a sticky error state. The rest was closed all the same.
    """
    global _default
    with _default_lock:
        running, _default = _default, None
        if running is not None:
            running.close()


@in_forked_child
def _renew_lock() -> None:
    global _default_lock
    _default_lock = threading.RLock()  # another thread may have held it
