"""Lays out the live view."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..analysis.live_state import DeviceNow
from .units import share, size

__all__ = ["live_view"]


def live_view(title: str, devices: Sequence[DeviceNow]) -> RenderableType:
    """Everything that is shown at one moment."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    if not devices:
        parts.append(Text("no events of any device yet"))
    for device in devices:
        parts.append(_device(device))
        if len(device.streams) > 1:
            parts.append(
                _rows("Live, by stream", [(f"{one.stream:#x}", one.blocks, one.nbytes) for one in device.streams[:8]])
            )
        if device.sites:
            parts.append(_rows("Live, by call site", [(one.where, one.blocks, one.nbytes) for one in device.sites]))
    return Group(*parts)


def _device(device: DeviceNow) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(f"Device {device.device}")
    for name in ("now", "peak"):
        table.add_column(name, justify="right")
    table.add_column("")
    table.add_row("requested", size(device.requested), size(device.peak_requested), f"{device.seconds:.1f} s recorded")
    table.add_row(
        "reserved",
        size(device.reserved),
        size(device.peak_reserved),
        f"{share(device.unused)} of it unused now; {device.allocations_per_second:,.0f} allocations/s",
    )
    if device.out_of_memory:
        table.add_row(Text("out of memory", style="red"), Text(f"{device.out_of_memory} times", style="red"), "", "")
    return table


def _rows(title: str, rows: Sequence[tuple[str, int, int]]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column(title, overflow="fold")
    for name in ("blocks", "bytes", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for where, blocks, nbytes in rows:
        table.add_row(Text(where), str(blocks), str(nbytes), size(nbytes))
    return table
