"""Histories from which PyTorch was asked to leave out actions (``skip_actions`` of ``_record_memory_history``)."""

from __future__ import annotations

from typing import Any

from ...allocators.errors import TraceError

_FREES = ("free_requested", "free_completed")
_OFTEN = 8


def with_whole_frees(entries: list[Any], path: str) -> list[Any]:
    """A device's entries, and where one of the two that PyTorch writes for every free was left out, that as well.

    Args:
        entries: as in the snapshot. Those that are not as PyTorch writes them are left to the reader.
        path: of the snapshot, for the error.

    Raises:
        TraceError: all allocations or all frees were left out, so that what was live cannot be told.
    """
    try:
        present = {entry["action"] for entry in entries}
        frees = present.intersection(_FREES)
        if len(frees) + ("alloc" in present) in (0, 3) or not _misses(entries, present):
            return entries
        if frees and "alloc" in present:
            return [
                one
                for entry in entries
                for one in ([{**entry, "action": free} for free in _FREES] if entry["action"] in _FREES else [entry])
            ]
    except (TypeError, KeyError):
        return entries
    left_out = "frees" if "alloc" in present else "allocations"
    raise TraceError(
        f"{path} has no {left_out}, so that what was live cannot be told: call _record_memory_history() without them "
        "in skip_actions"
    )


def _misses(entries: list[Any], present: set[Any]) -> bool:
    """Whether addresses are used in a way that the entries do not explain, more often than where some were cut: they
    are allocated while they are live, or wait to be free, or they are free all at once, or freed again and again."""
    allocates = "alloc" in present
    live: set[int] = set()
    freed: set[tuple[str, int]] = set()
    unexplained = 0
    for entry in entries:
        action, address = entry["action"], entry.get("addr")
        if action == "alloc":
            unexplained += address in live or ("free_requested", address) in freed
            live.add(address)
        elif action in _FREES:
            at_once = action == "free_completed" and address in live
            unexplained += at_once or (not allocates and (action, address) in freed)
            live.discard(address)
            freed.add((action, address))
    return unexplained >= _OFTEN
