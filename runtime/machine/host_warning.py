"""What is said once, when blocks begin to lie in the host's memory for want of the device's (``expandable:host=``)."""

from __future__ import annotations

from ...allocators.sizes import format_size
from .callers import warn_program


def warn_of_host(ordinal: int, nbytes: int, stream: int) -> None:  # noqa: ARG001 - as the hook has it
    """Warn, as of the line of the program that asked for ``nbytes``, that they lie on the host.

    ``stream`` is the stream for which they were asked.
    """
    warn_program(
        f"device {ordinal} has no room for {format_size(nbytes)}: from here on, blocks for which it has none lie in "
        "the host's memory (expandable:host=). Kernels reach them at the speed of the bus, some 50 GB/s over PCIe 5: "
        "right for what is used in passing, slow for the operands of products. How much lies there say "
        "cuplug.cuda.memory_stats()['host_bytes.all.current'] and memory_summary()",
        RuntimeWarning,
        "torch",
    )
