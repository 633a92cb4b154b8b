"""``cuplug.cuda.profiler``: when NVIDIA's profilers look, if they were started to look at a part of the program only
(``nsys profile --capture-range=cudaProfilerApi``); and ``cudart()`` with ``check_error``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...allocators.errors import DriverError
from ..drivers.base import driver_error
from ..machine.checks import whole_number
from ..machine.default_runtime import default_runtime
from ..memory.memory_stats import mem_get_info

__all__ = ["CudaError", "check_error", "cudart", "profile", "start", "stop"]


def start() -> None:
    """Let a profiler that is attached begin to look. Nothing where none is, and on simulated devices.

    Raises:
        CuplugError: there is no device.
    """
    _of_current_device(enable=True)


def stop() -> None:
    """Let a profiler that is attached stop to look.

    Raises:
        CuplugError: there is no device.
    """
    _of_current_device(enable=False)


@contextmanager
def profile() -> Iterator[None]:
    """``with profile():`` lets a profiler look at what runs inside."""
    start()
    try:
        yield
    finally:
        stop()


class _Runtime:
    """Functions of CUDA's runtime library that ``torch.cuda.cudart()`` has, as far as they are here.

    Each returns 0, as CUDA's do, or raises ``DriverError``.
    """

    def cudaProfilerStart(self) -> int:  # noqa: N802 - CUDA's name
        """Let an attached profiler begin to look."""
        start()
        return 0

    def cudaProfilerStop(self) -> int:  # noqa: N802 - CUDA's name
        """Let an attached profiler stop to look."""
        stop()
        return 0

    def cudaMemGetInfo(self, device: Any = None) -> tuple[int, int]:  # noqa: N802 - CUDA's name
        """Free and total bytes of the device's memory."""
        return mem_get_info(device)

    def cudaGetErrorString(self, error: int) -> str:  # noqa: N802 - CUDA's name
        """A CUDA error's name, by its code; of 0 ``no error``."""
        if not error:
            return "no error"
        found = driver_error(int(error), "")
        return found.name if isinstance(found, DriverError) else "CUDA_ERROR_OUT_OF_MEMORY"

    def __getattr__(self, name: str) -> Any:
        there = ", ".join(_FUNCTIONS)
        raise AttributeError(
            f"cudart().{name} is not part of cuplug, but {there}; use cuda.bindings.runtime", name=name
        )


_FUNCTIONS = [name for name in vars(_Runtime) if name.startswith("cuda")]


def cudart() -> _Runtime:
    """Functions of CUDA's runtime library by their names there, for example ``cudart().cudaProfilerStart()``."""
    default_runtime()
    return _Runtime()


CudaError = DriverError
"""torch's name for what ``check_error`` raises."""


def check_error(res: int) -> None:
    """Raise the error that a code of CUDA's runtime library says; of 0 nothing.

    Raises:
        CudaError: it is not 0.
        TypeError: it is no whole number.
    """
    code = whole_number(res, "the code of an error")
    if code:
        name = cudart().cudaGetErrorString(code)
        raise CudaError(code, name, "out of memory" if code == _OUT_OF_MEMORY else "a function of cudart() says so")


_OUT_OF_MEMORY = 2


def _of_current_device(*, enable: bool) -> None:
    runtime = default_runtime()
    with runtime.on_device(runtime.current.device):
        runtime.driver.enable_profiler(enable)
