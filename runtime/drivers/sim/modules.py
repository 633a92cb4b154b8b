"""The place where kernels for the host plug into the simulator."""

from __future__ import annotations

from typing import Protocol

from ..base import Dim3, Modules


class ModuleLoader(Modules, Protocol):
    """Loads and launches kernels compiled for the host.

    ``SimDriver`` has checked that the calling thread has a current device, and holds no lock. ``launch`` queues the
    work with ``SimDriver.launch_host``.
    """

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

    def fail_at_exit(self) -> None:
        """Let the process end with status 1 where it would end with 0."""

    def watch(self, address: int, nbytes: int, *, closed: bool) -> int:
        """Close whole pages to the program, or open them: an address that it touched meanwhile, or 0."""
