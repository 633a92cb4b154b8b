"""What PyTorch's own allocator can be told (``PYTORCH_ALLOC_CONF``), as selections that predict it."""

from __future__ import annotations

from ...allocators.sizes import parse_size
from ...plugins.selection import parse_selection

__all__ = ["AS_IT_IS", "as_environment", "levers"]

AS_IT_IS = "caching:preset=torch"
"""PyTorch's native allocator without settings."""

_LEVERS = (
    "max_split_size=128MiB",
    "max_split_size=512MiB",
    "roundup_power2_divisions=4",
    "roundup_power2_divisions=8",
    "max_split_size=512MiB,roundup_power2_divisions=8",
)
_UNDER_PRESSURE = ("garbage_collection_threshold=0.8", "max_split_size=128MiB,garbage_collection_threshold=0.8")
"""These change something only where memory is limited."""


def levers(*, limited: bool) -> list[str]:
    """PyTorch's settings to try, alone and together. ``expandable_segments`` is not among them."""
    return [f"{AS_IT_IS},{lever}" for lever in (*_LEVERS, *(_UNDER_PRESSURE if limited else ()))]


def as_environment(selection: str) -> str:
    """The line that sets the same in PyTorch; empty for a selection that stands for no setting of PyTorch's."""
    chosen = parse_selection(selection)
    options = dict(chosen.options)
    if chosen.name != "caching" or options.pop("preset", None) != "torch" or not options:
        return ""
    told = []
    for name, value in options.items():
        if name == "max_split_size":
            told.append(f"max_split_size_mb:{parse_size(str(value)) >> 20}")
        else:
            told.append(f"{name}:{value}")
    return f"PYTORCH_ALLOC_CONF={','.join(told)}"
