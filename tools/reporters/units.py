"""Numbers as people read them in tables."""

from __future__ import annotations

from ...allocators.sizes import short_size as size

__all__ = ["duration", "share", "size"]


def duration(microseconds: float) -> str:
    """Microseconds, in the fitting unit: ``2.51 ms``."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if abs(microseconds) >= unit:
            return f"{microseconds / unit:.2f} {name}"
    return f"{microseconds:.1f} µs"


def share(fraction: float) -> str:
    """A fraction as per cent: ``43.8 %``."""
    return f"{fraction * 100:.1f} %"
