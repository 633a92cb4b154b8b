"""The place where kernels for the host plug into the simulator."""

from __future__ import annotations

from typing import Protocol

from ..base import Dim3, FunctionAttributes

__all__ = ["ModuleLoader"]


class ModuleLoader(Protocol):
    """Loads and launches kernels compiled for the host.

    The methods are those of ``Driver``; ``SimDriver`` has checked that the calling thread has a current device, and
    holds no lock. ``launch`` queues the work with ``SimDriver.launch_host``.
    """

    def module_load(self, image: bytes) -> int:
        """See ``Driver.module_load``."""
        ...

    def module_unload(self, module: int) -> None:
        """See ``Driver.module_unload``."""
        ...

    def module_function(self, module: int, name: str) -> int:
        """See ``Driver.module_function``."""
        ...

    def module_global(self, module: int, name: str) -> tuple[int, int]:
        """See ``Driver.module_global``."""
        ...

    def function_attributes(self, function: int) -> FunctionAttributes:
        """See ``Driver.function_attributes``."""
        ...

    def function_parameters(self, function: int) -> list[tuple[int, int]]:
        """See ``Driver.function_parameters``."""
        ...

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared: int,
        stream: int,
        parameters: bytes,
        device: int,
        cooperative: bool = False,
    ) -> None:
        """See ``Driver.launch``; ``device`` is the ordinal of the current device."""
        ...

    def fail_at_exit(self) -> None:
        """Let the process end with status 1 where it would end with 0."""
        ...

    def watch(self, address: int, nbytes: int, *, closed: bool) -> int:
        """Close whole pages to the program, or open them: an address that it touched meanwhile, or 0."""
        ...
