"""Numbers as people read them in tables."""

from __future__ import annotations

__all__ = ["duration", "share", "size"]


def size(nbytes: float) -> str:
    """Bytes, short: ``5.62 GiB``."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(nbytes) >= unit:
            return f"{nbytes / unit:.2f} {name}"
    return f"{nbytes:.0f} B"


def duration(microseconds: float) -> str:
    """Microseconds, in the fitting unit: ``2.51 ms``."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if abs(microseconds) >= unit:
            return f"{microseconds / unit:.2f} {name}"
    return f"{microseconds:.1f} µs"


def share(fraction: float) -> str:
    """A fraction as per cent: ``43.8 %``."""
    return f"{fraction * 100:.1f} %"
