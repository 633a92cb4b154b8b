"""How much of a run a plan has served (``planned``), in figures and in words."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

from .base import Allocator
from .sizes import format_size


@dataclass(slots=True)
class Served:
    """How much of a run a plan has served. Sizes are bytes."""

    requests: int = 0
    requested_bytes: int = 0
    """What was asked for, on any stream, planned or not."""
    planned_requests: int = 0
    planned_bytes: int = 0
    """Of that, what lay where the plan says."""

    def __add__(self, other: Served) -> Served:
        """Of two devices together."""
        return Served(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        share = self.planned_bytes / max(self.requested_bytes, 1)
        return (
            f"{share:.1%} of the {format_size(self.requested_bytes)} asked for, "
            f"{self.planned_requests} of {self.requests} requests"
        )


def served_of(allocator: Allocator) -> Served | None:
    """What a plan has served in an allocator up to now; None if it follows none.

    Raises:
        CuplugError: the allocator is closed or abandoned.
    """
    served = getattr(allocator, "served", None)
    if served is None:
        return None
    found: Served = served()
    return found
