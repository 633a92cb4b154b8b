"""Packs buffers into a given capacity, or as tightly as can be: by the heuristic (``allocators/packing.py``), and then
by an exact search (``allocators/native/packing.cpp``), which needs the native core."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import replace

from ...allocators.native import is_available, why_not
from ...allocators.packing import Buffer, Packing, columns_of, load_peak, pack

_MOST_SEARCHED = 5000


def pack_within(buffers: Sequence[Buffer], capacity: int, *, seconds: float = 60.0) -> Packing | None:
    """Pack within ``capacity`` bytes: by the heuristic, else by search.

    Returns:
        None if there is no such packing.

    Raises:
        TimeoutError: neither a packing nor a proof that there is none was found in ``seconds``. The search needs the
            native core, and is for no more than 5,000 buffers.
    """
    bound = load_peak(buffers)
    if bound > capacity:
        return None
    why = _why_no_search(buffers)
    found = pack(buffers, seconds=seconds if why else min(0.2, seconds / 10), enough=capacity)
    if found.height <= capacity:
        return found
    if found.interrupted:
        raise TimeoutError(f"interrupted: the heuristic needs {found.height} bytes so far, and {capacity} were given")
    if why:
        raise TimeoutError(f"the heuristic needs {found.height} bytes, and {capacity} were given; {why}")
    answer = _search(buffers, capacity, seconds)
    if answer is None:
        raise TimeoutError(
            f"no packing into {capacity} bytes was found in {seconds:g} seconds, and none was ruled out; "
            f"the heuristic needs {found.height}"
        )
    return answer if answer.offsets else None


def pack_tightly(buffers: Sequence[Buffer], *, seconds: float = 60.0) -> Packing:
    """Pack into as few bytes as are found in ``seconds``: by the heuristic, then by search between it and the bound.

    Ctrl-C ends it with the best so far, marked as interrupted.
    """
    until = time.monotonic() + seconds
    searches = _why_no_search(buffers) is None
    best = pack(buffers, seconds=seconds / 10 if searches else seconds)
    least = best.bound  # nothing below is possible
    while searches and not best.interrupted and least < best.height and time.monotonic() < until:
        wanted = least if least == best.bound else (least + best.height) // 2
        try:
            found = _search(buffers, wanted, (until - time.monotonic()) / 2)
        except KeyboardInterrupt:
            return replace(best, interrupted=True)
        if found is not None and found.offsets:
            best = found
        elif found is not None or wanted > best.bound:
            least = wanted + 1
        else:
            least += max((best.height - least) // 2, 1)  # not known, but out of reach
    return best


def _search(buffers: Sequence[Buffer], capacity: int, seconds: float) -> Packing | None:
    """A packing within ``capacity``; one without offsets if there is none; None if ``seconds`` did not suffice."""
    from ...allocators import _native

    lower, upper, size = columns_of(buffers)
    offsets = array("q", bytes(8 * len(buffers)))
    answer = _native.search_packing(lower, upper, size, capacity, seconds, offsets)
    if answer is None:
        return None
    height = max((at + size for at, (_, _, size) in zip(offsets, buffers, strict=True)), default=0)
    return Packing(list(offsets) if answer else [], height, load_peak(buffers))


def _why_no_search(buffers: Sequence[Buffer]) -> str | None:
    if not is_available():
        return f"the exact search needs the native core, which is not here: {why_not()}"
    if len(buffers) > _MOST_SEARCHED:
        return f"the exact search is for up to {_MOST_SEARCHED} buffers, and these are {len(buffers)}"
    return None
