"""What an allocator holds from upstream."""

from __future__ import annotations

from typing import Any


class HeldMemory:
    """One piece of memory from ``Upstream.reserve``."""

    __slots__ = ("address", "kept", "nbytes", "number", "present", "small", "stream")

    def __init__(self, nbytes: int, *, small: bool, stream: int) -> None:
        self.address = 0
        """0 until upstream has answered."""
        self.nbytes = nbytes
        self.small = small
        self.stream = stream
        self.present = True
        """False once upstream has taken it back."""
        self.number = 0
        """Of the call that took it, or gives it back, among all such calls that are counted."""
        self.kept: Any = None
        """Whatever the strategy keeps with it."""
