"""Upstreams: one without a device (``null.py``), and adaptors, which stand before another one and limit or time what
passes. They compose.

For example ``TimedUpstream(LimitedUpstream(DeviceUpstream(driver, 0), 1 << 30))`` is a device of 1 GiB, made of one
that has more, whose calls are timed.
"""

from .adaptor import UpstreamAdaptor, VirtualMemoryAdaptor
from .limited import LimitedUpstream
from .timed import TimedUpstream

__all__ = ["LimitedUpstream", "TimedUpstream", "UpstreamAdaptor", "VirtualMemoryAdaptor"]
