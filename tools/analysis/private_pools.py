"""Which blocks lie in private pools, such as those of CUDA graphs: their free memory serves nothing else.

A pool is told by a stream's number, as allocators tell them (``allocators.private_streams``), so that a replay keeps
what lies in one there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...allocators.private_streams import MOST_POOLS, STREAM_BITS, without_pool
from ...plugins.tracing.trace_in_memory import EventArray, Trace


def pool_names(trace: Trace, device: int) -> list[str]:
    """The private pools of a device, by their numbers from 1 on."""
    return list(dict.fromkeys(name for _, _, name, *_ in trace.header.private_segments(device)))[:MOST_POOLS]


def pooled(trace: Trace, device: int, events: EventArray, until: int = 0) -> npt.NDArray[Any]:
    """The streams of all events of a device, those of private pools with the pools' numbers.

    ``until``: the event until which a pool must have had a segment for it to count.
    """
    streams: npt.NDArray[Any] = events["stream"].copy()
    segments = trace.header.private_segments(device)
    if not segments:
        return streams
    numbers = {name: number for number, name in enumerate(pool_names(trace, device), 1)}
    for address, nbytes, name, first, last in segments:
        if last is not None and last < until:
            continue
        during = slice(first, None if last is None else last + 1)
        inside = (events["address"][during] >= address) & (events["address"][during] < address + nbytes)
        taken = np.flatnonzero(inside & (events["kind"][during] == EventKind.SEGMENT_RESERVE))
        inside[: taken[-1] if len(taken) else 0] = False  # what was there before the last lay in another segment
        own = streams[during]
        own[inside] = (own[inside] & ((1 << STREAM_BITS) - 1)) | (numbers.get(name, 0) << STREAM_BITS)
    return streams


def most_reserved(trace: Trace, device: int, spans: npt.NDArray[Any]) -> dict[str, int]:
    """The most bytes that each private pool of a device ever had reserved, by its name.

    ``spans`` are those of ``segment_spans``, with the pools' numbers in their streams.
    """
    numbers = spans["stream"].astype(np.uint64) >> np.uint64(STREAM_BITS)
    found = {}
    for number, name in enumerate(pool_names(trace, device), 1):
        own = spans[numbers == number]
        change = np.zeros(int(own["until"].max(initial=0)) + 1, np.int64)
        np.add.at(change, own["from"], own["nbytes"])
        np.add.at(change, own["until"], -own["nbytes"])
        found[name] = int(np.cumsum(change).max())
    return found


def stream_name(trace: Trace, device: int, stream: int) -> str:
    """A stream's handle, behind the private pool's name where there is one."""
    number = (stream >> STREAM_BITS) & MOST_POOLS
    names = pool_names(trace, device)
    if not 0 < number <= len(names):
        return f"{stream:#x}"
    return f"{names[number - 1]}, {without_pool(stream):#x}"
