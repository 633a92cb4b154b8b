"""Lays out the live view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from ..analysis.live_state import DeviceNow
from .tables import Cell, Column, table
from .units import share, size


def live_view(title: str, devices: Sequence[DeviceNow], width: int) -> Text:
    """Everything that is shown at one moment, in ``width`` columns."""
    parts = [Text(title, style="bold")]
    if not devices:
        parts.append(Text("no events of any device yet"))
    for device in devices:
        parts.append(_device(device, width))
        if len(device.streams) > 1:
            streams = [(f"{one.stream:#x}", one.blocks, one.nbytes) for one in device.streams[:8]]
            parts.append(_rows("Live, by stream", streams, width))
        if device.sites:
            sites = [(one.where, one.blocks, one.nbytes) for one in device.sites]
            parts.append(_rows("Live, by call site", sites, width))
    return Text("\n").join(parts)


def _device(device: DeviceNow, width: int) -> Text:
    title = f"Device {device.device}"
    columns = (Column(title, left=True), Column("now"), Column("peak"), Column("", left=True, rank=1))
    unused = f"{share(device.unused)} of it unused now; {device.allocations_per_second:,.0f} allocations/s"
    rows: list[tuple[Cell, ...]] = [
        ("requested", size(device.requested), size(device.peak_requested), f"{device.seconds:.1f} s recorded"),
        ("reserved", size(device.reserved), size(device.peak_reserved), unused),
    ]
    if device.peak_on_host:
        rows.append(("of it, of the host", size(device.on_host), size(device.peak_on_host), ""))
    if device.out_of_memory:
        rows.append((Text("out of memory", style="red"), Text(f"{device.out_of_memory} times", style="red"), "", ""))
    return table(columns, rows, width)


def _rows(title: str, rows: Sequence[tuple[str, int, int]], width: int) -> Text:
    """Names of any length come last."""
    columns = (Column("blocks"), Column("bytes"), Column("size"), Column(title, left=True))
    return table(columns, [(str(blocks), str(nbytes), size(nbytes), where) for where, blocks, nbytes in rows], width)
