"""The errors that cuplug raises. Every message says what was asked, what was found and what to do."""

from __future__ import annotations

__all__ = [
    "CompileError",
    "CuplugError",
    "DeviceMismatchError",
    "DriverError",
    "InvalidFreeError",
    "OutOfMemoryError",
    "PluginError",
    "TraceError",
    "UnknownAllocatorError",
]


class CuplugError(RuntimeError):
    """Base of every error that cuplug raises on purpose."""


class DriverError(CuplugError):
    """A call of the CUDA driver API, or of its simulator, failed.

    ``code`` is the CUresult number and ``name`` its CUDA name, for example ``700`` and
    ``CUDA_ERROR_ILLEGAL_ADDRESS`` (CUDA driver API, "Data types used by CUDA driver", ``CUresult``).
    """

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(f"CUDA error: {name} ({code}): {message}")
        self.code = code
        self.name = name
        self.message = message

    def __reduce__(self) -> tuple[type[DriverError], tuple[int, str, str]]:
        return type(self), (self.code, self.name, self.message)


class OutOfMemoryError(CuplugError, MemoryError):
    """Memory could not be had, also after every attempt to free some. A failed allocation loses nothing.

    Its text has the words ``out of memory``, which programs written for torch look for.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message if "out of memory" in message else f"out of memory: {message}")


class InvalidFreeError(CuplugError):
    """A block was freed twice, or given to an allocator that it does not belong to."""


class DeviceMismatchError(CuplugError):
    """Operands live on different devices and no peer access was enabled between them."""


class PluginError(CuplugError):
    """A plugin, or the string that selects and configures one, is at fault. The message names it."""


class UnknownAllocatorError(PluginError):
    """No installed plugin contributes an allocator of this name. The message lists the known ones."""


class CompileError(CuplugError):
    """CUDA C source did not compile. ``log`` is the compiler's output."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(f"{message}\n{log}" if log else message)
        self.message = message
        self.log = log

    def __reduce__(self) -> tuple[type[CompileError], tuple[str, str]]:
        return type(self), (self.message, self.log)


class TraceError(CuplugError):
    """A file is not a trace that this version reads, or it is damaged beyond its last whole record."""
