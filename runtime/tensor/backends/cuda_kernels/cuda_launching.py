"""What kernels need of the place that compiles and launches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ....drivers.base import Dim3
from ....machine.runtime import Runtime
from ...core.layout import Layout
from ...core.storage import Storage
from ...core.tensor import Tensor


class Launching(Protocol):
    """A part of ``CudaPlace``."""

    runtime: Runtime
    ordinal: int

    def function(self, source: str, name: str = "kernel") -> int:
        """The handle of a kernel."""

    def bound(self, function: int, grid: Dim3, block: Dim3, letters: str, before: bytes = b"") -> Callable[..., None]:
        """What launches it."""

    def allocate(self, nbytes: int) -> Storage:
        """Memory for use on the current stream."""

    def empty(self, layout: Layout) -> Tensor:
        """A tensor, uninitialised."""

    def copy_bytes(self, target: int, source: int, nbytes: int) -> None:
        """A copy on the current stream, by addresses."""

    def clear_bytes(self, target: int, nbytes: int) -> None:
        """Write zeros on the current stream, by address."""
