"""``direct`` and ``bump`` in the native core, as far as a replay over its null upstream goes: the same figures."""

from __future__ import annotations

from typing import Any

from ..bump import BumpAllocator
from ..direct import DirectAllocator
from .strategies import NativeStrategy, complete


class ReplayedDirect(NativeStrategy):
    """As ``DirectAllocator``, over a ``NativeNullUpstream``."""

    def __init__(self, upstream: Any, **options: Any) -> None:
        given = complete(DirectAllocator, options)
        super().__init__("direct", upstream, given.pop("memory_limit"), given)


class ReplayedBump(NativeStrategy):
    """As ``BumpAllocator`` without its resets, over a ``NativeNullUpstream``."""

    def __init__(self, upstream: Any, **options: Any) -> None:
        given = complete(BumpAllocator, options)
        super().__init__("bump", upstream, given.pop("memory_limit"), given)
