"""Numbers as people read them in tables."""

from __future__ import annotations

from math import floor, log10

from ...allocators.sizes import short_size as size

__all__ = ["NO_SHARE", "driver_time", "duration", "events", "share", "size"]


NO_SHARE = "-"
"""In place of a share that is not known, or would be more than all of the recorded time."""


def duration(microseconds: float) -> str:
    """Microseconds, in the fitting unit: ``2.51 ms``."""
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if abs(microseconds) >= unit:
            return f"{microseconds / unit:.2f} {name}"
    return f"{microseconds:.1f} µs"


def events(count: int) -> str:
    """So many events: ``1 event``, ``5803 events``."""
    return f"{count} event{'s' * (count != 1)}"


def driver_time(microseconds: float, run_seconds: float) -> tuple[str, str]:
    """Time in the driver's memory calls, and the same as a share of the run's time, where that is known
    and long enough for them."""
    part = microseconds / 1e6 / run_seconds if run_seconds else None
    return duration(microseconds), NO_SHARE if part is None or part > 1 else share(part)


def share(fraction: float) -> str:
    """A fraction as per cent, with two digits that say something: ``43.8 %``, ``0.24 %``."""
    part = fraction * 100
    decimals = 1 if not 0 < abs(part) < 1 else 1 - floor(log10(abs(part)))
    return f"{part:.{min(decimals, _MOST_DECIMALS)}f} %"


_MOST_DECIMALS = 4
