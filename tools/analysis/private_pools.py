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

__all__ = ["most_reserved", "pool_names", "pooled", "stream_name"]


def pool_names(trace: Trace, device: int) -> list[str]:
    """The private pools of a device, by their numbers from 1 on."""
    return list(dict.fromkeys(name for _, _, name in trace.header.private_segments(device)))[:MOST_POOLS]


def pooled(trace: Trace, device: int, events: EventArray) -> npt.NDArray[Any]:
    """The streams of all events of a device, those of private pools with the pools' numbers."""
    streams: npt.NDArray[Any] = events["stream"].copy()
    segments = trace.header.private_segments(device)
    if not segments:
        return streams
    numbers = {name: number for number, name in enumerate(pool_names(trace, device), 1)}
    places = np.arange(len(events))
    reserves = events["kind"] == EventKind.SEGMENT_RESERVE
    for address, nbytes, name in segments:
        inside = (events["address"] >= address) & (events["address"] < address + nbytes)
        taken = np.flatnonzero(inside & reserves)  # what was there before the last lay in another segment
        inside &= places >= (taken[-1] if len(taken) else 0)
        streams[inside] = (streams[inside] & ((1 << STREAM_BITS) - 1)) | (numbers.get(name, 0) << STREAM_BITS)
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
