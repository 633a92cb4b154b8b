"""What is said once, when blocks begin to lie in the host's memory for want of the device's (``expandable:host=``)."""

from __future__ import annotations

import sys
import warnings

from ...allocators.sizes import format_size


def warn_of_host(ordinal: int, nbytes: int, stream: int) -> None:  # noqa: ARG001 - as the hook has it
    """Warn, as of the line of the program that asked for ``nbytes``, that they lie on the host.

    ``stream`` is the stream for which they were asked.
    """
    warnings.warn(
        f"device {ordinal} has no room for {format_size(nbytes)}: from here on, blocks for which it has none lie in "
        "the host's memory (expandable:host=). Kernels reach them at the speed of the bus, some 50 GB/s over PCIe 5: "
        "right for what is used in passing, slow for the operands of products. How much lies there say "
        "cuplug.cuda.memory_stats()['host_bytes.all.current'] and memory_summary()",
        RuntimeWarning,
        stacklevel=_level_of_program(),
    )


def _level_of_program() -> int:
    """How many frames above the caller the innermost one is that belongs neither to cuplug nor to PyTorch."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("cuplug", "torch"):
            return level
        frame, level = frame.f_back, level + 1
    return level
