"""The default runtime, which ``cuplug.cuda`` uses, and allocation from it at its quickest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...allocators.errors import CuplugError
from ...allocators.lock import Lock
from ..drivers.forking import in_forked_child
from .buffer import Buffer
from .owner import are_quick, quickly
from .process import is_left_open
from .runtime import Runtime
from .settings import AllocatorChoice, DriverChoice, Path, Settings

if TYPE_CHECKING:
    from ...plugins.manager import PluginManager

__all__ = [
    "Runtime",
    "alloc",
    "default_runtime",
    "init",
    "is_initialized",
    "runtime_or_default",
    "shutdown",
]

T = TypeVar("T")
_default: Runtime | None = None
_lock = Lock()


@quickly(Buffer)
def alloc(nbytes: int, *, stream: Any = None) -> Buffer:
    """``nbytes`` bytes of device memory for use on ``stream``, uninitialised: see ``Runtime.alloc``."""
    runtime = default_runtime()
    buffer = runtime.alloc(nbytes, stream=stream)
    if stream is None and are_quick:
        runtime.take_shortcut()  # the next calls in this thread come to the native allocator at once
    return buffer


def init(
    allocator: AllocatorChoice | None = None,
    driver: DriverChoice | None = None,
    trace: Path | None = None,
    launch_blocking: bool | None = None,
    plugins: PluginManager | None = None,
) -> Runtime:
    """Start the default runtime, which ``cuplug.cuda`` uses, with the arguments of ``Runtime``.

    Without this, the first use starts it from the environment and the defaults. Called again, it returns the one that
    runs, if what is said agrees with it. One that no device of was touched yet is replaced by another that differs in
    what is said: so ``interop.install(allocator=...)`` keeps the driver.

    Raises:
        CuplugError: the runtime in use has other settings. Or any error of ``Runtime``.
    """
    return _exclusively(_init, Settings(allocator, driver, trace, launch_blocking, plugins))


def _init(asked: Settings) -> Runtime:
    global _default
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
        asked = asked.over(running.settings)
    if running is not None:
        running.close()  # also one whose end an interrupt has broken off
    _default = Runtime(asked.allocator, asked.driver, asked.trace, asked.launch_blocking, asked.plugins)
    return _default


def default_runtime() -> Runtime:
    """The default runtime, started now if there is none that was not closed.

    Raises:
        CuplugError: the process was forked after it had started. Or any error of ``Runtime``.
    """
    running = _default
    return running if running is not None and running.usable else init()


def is_initialized() -> bool:
    """Whether the default runtime was started, by ``init`` or the first use, and not closed."""
    return _default is not None and _default.usable


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
        CuplugError: PyTorch allocates from it, and does so until the process ends.
    """
    _exclusively(_shutdown)


def _shutdown() -> None:
    global _default
    if _default is not None:
        if _default.usable and is_left_open(_default):
            raise CuplugError(
                "PyTorch allocates from cuplug's runtime, and does so until the process ends: it cannot be shut down"
            )
        if _default.abandoned is None:
            _default.close()
        _default = None


def _exclusively(work: Callable[..., T], *args: Any) -> T:
    """The result of ``work(*args)``, while no other thread starts or closes the default runtime."""
    return work(*args) if _lock.is_mine() else _lock.run(work, *args)


@in_forked_child
def _renew_lock() -> None:
    global _lock
    _lock = Lock()  # another thread may have held it
