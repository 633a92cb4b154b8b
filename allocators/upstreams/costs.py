"""What calls of the CUDA driver cost, measured once, for estimates where no driver is called.

Median microseconds a call, measured on an NVIDIA H200 (driver 580.159.04) with 2 MiB granularity. Where a cost depends
on the size, it was measured at the sizes given and is interpolated linearly between them.
"""

from __future__ import annotations

from bisect import bisect_right

_MIB = 1 << 20

CALL_US: dict[str, tuple[tuple[int, float], ...]] = {
    "cuMemAlloc": ((2 * _MIB, 33.0), (20 * _MIB, 39.0), (256 * _MIB, 55.0), (1024 * _MIB, 75.0)),
    "cuMemFree": ((2 * _MIB, 30.0), (20 * _MIB, 37.0), (256 * _MIB, 100.0), (1024 * _MIB, 322.0)),
    "cuMemAddressReserve": ((0, 24.0),),
    "cuMemAddressFree": ((0, 0.0),),  # not measured
    "cuMemCreate": ((2 * _MIB, 8.0), (256 * _MIB, 10.0)),
    "cuMemCreate (host)": ((2 * _MIB, 600.0), (2048 * _MIB, 630_000.0)),
    "cuMemMap": ((0, 1.3),),
    "cuMemSetAccess": ((2 * _MIB, 22.0), (256 * _MIB, 37.0)),
    "cuMemUnmap": ((2 * _MIB, 15.0), (256 * _MIB, 17.0)),
    "cuMemRelease": ((2 * _MIB, 10.0), (20 * _MIB, 14.0), (256 * _MIB, 82.0)),
}
"""Each call's measured costs: pairs of bytes and microseconds. ``cuMemSetAccess`` and ``cuMemUnmap`` over a range of
several pages cost about as much as one call for each (21 and 14 µs a page). Pages of the host: of 2 GiB on an H100, and
in proportion."""


def call_us(name: str, nbytes: int) -> float:
    """The estimated microseconds of one call of ``name`` (a key of ``CALL_US``) for ``nbytes`` bytes.

    Below the smallest measured size the cost is that size's; above the largest it grows as between the last two.
    """
    points = CALL_US[name]
    if len(points) == 1 or nbytes <= points[0][0]:
        return points[0][1]
    index = min(bisect_right(points, (nbytes, 0.0)), len(points) - 1)
    (low, low_us), (high, high_us) = points[index - 1], points[index]
    return low_us + (high_us - low_us) * (nbytes - low) / (high - low)
