"""Counting and timing the calls of an upstream."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from ..upstream import Upstream
from .adaptor import UpstreamAdaptor

__all__ = ["TimedUpstream"]

T = TypeVar("T")


class TimedUpstream(UpstreamAdaptor):
    """Counts and times calls by their names in the CUDA driver API. Fences and ``memory_info`` do not count.

    It is for measurements. An interrupt that arrives while a time is noted hides that the call has taken effect.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.calls: Counter[str] = Counter()
        """How often each call was made."""
        self.driver_time_us = 0.0
        """Microseconds in those calls."""
        super().__init__(upstream, self.timed)

    def timed(self, name: str, call: Callable[..., T], /, *arguments: int) -> T:
        """Make a call that counts as ``name``."""
        self.calls[name] += 1
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            self.driver_time_us += (time.perf_counter() - began) * 1e6
