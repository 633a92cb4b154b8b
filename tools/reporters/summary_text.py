"""Prints a summary."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.sites import Site
from ..analysis.summarize import DeviceSummary, Peak, Summary
from .units import duration, share, size

__all__ = ["print_summary"]


def print_summary(summary: Summary, console: Console) -> None:
    """Print every device's tables."""
    console.print(Text(summary.path, style="bold"))
    if summary.argv:
        console.print(Text(f"program    {' '.join(summary.argv)}"))
    foreign = {"pytorch": "a PyTorch memory snapshot", "rmm": "a log of RMM's"}
    origin = foreign.get(summary.source, f"driver {summary.driver or 'unknown'}")
    console.print(Text(f"recorded   {summary.events} events, {origin}"))
    if summary.note:
        console.print(Text(f"{'note      ' if summary.complete else 'incomplete'} {summary.note}", style="yellow"))
    if not summary.devices:
        console.print("no events of any device")
    for device in summary.devices:
        console.print()
        allocator = summary.allocators.get(device.device)
        console.print(Text(f"Device {device.device}" + (f", allocator {allocator}" if allocator else ""), style="bold"))
        for part in _parts(device):
            console.print(part)


def _parts(device: DeviceSummary) -> Iterator[Table | Text]:
    yield _memory(device)
    yield _facts(device)
    yield _sizes(device)
    if len(device.streams) > 1 or any(use.used_by_others for use in device.streams):
        yield _streams(device)
    if device.sites_at_peak:
        yield _sites(f"Call sites of what is held at the peak ({size(device.requested.nbytes)})", device.sites_at_peak)
    if device.sites_of_live:
        yield _sites("Call sites of what is live at the end", device.sites_of_live)
    for failed in device.out_of_memory:
        yield Text(
            f"out of memory at {failed.seconds:.6f} s: {failed.requested} bytes asked for on stream "
            f"{failed.stream:#x}, {failed.free} free on the device",
            style="red",
        )


def _memory(device: DeviceSummary) -> Table:
    table = _table("Peak", "bytes", "size", "at", left=1)
    rows: tuple[tuple[str, Peak], ...] = (
        ("requested by the program", device.requested),
        ("allocated, as rounded", device.allocated),
        ("active, with blocks that wait for streams", device.active),
        ("reserved from the device", device.reserved),
    )
    for name, peak in rows:
        table.add_row(name, str(peak.nbytes), size(peak.nbytes), f"{peak.seconds:.6f} s")
    return table


def _facts(device: DeviceSummary) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    lifetimes, waste = device.lifetimes, device.fragmentation
    calls = ", ".join(f"{count} {name}" for name, count in device.driver_calls.items()) or "none"
    table.add_row("events", f"{device.events} in {device.seconds:.6f} s")
    table.add_row("allocations", f"{device.allocations}, {device.frees} freed")
    if device.older_blocks:
        table.add_row("", f"besides {device.older_blocks} blocks from before it, {device.older_bytes} bytes")
    if device.unknown_frees:
        table.add_row("", f"{device.unknown_frees} frees of blocks from before the recording")
    table.add_row("live at the end", f"{device.live_blocks} blocks, {device.live_bytes} bytes")
    table.add_row(
        "lifetimes",
        f"median {duration(lifetimes.median_us)}, 90 % below {duration(lifetimes.percentile_90_us)}, "
        f"99 % below {duration(lifetimes.percentile_99_us)}, longest {duration(lifetimes.longest_us)}",
    )
    if device.reserved.nbytes:
        table.add_row(
            "fragmentation",
            f"{share(waste.at_peak_reserved)} of the reserved memory unused at its peak, "
            f"{share(waste.mean_over_time)} on average; {waste.reserved_over_requested:.3f} reserved for 1 requested",
        )
    table.add_row("memory calls", calls)
    table.add_row("out of memory", str(len(device.out_of_memory)))
    return table


def _sizes(device: DeviceSummary) -> Table:
    table = _table("Requested size up to", "allocations", "bytes in all", "size in all")
    for entry in device.sizes:
        table.add_row(size(entry.up_to), str(entry.allocations), str(entry.nbytes), size(entry.nbytes))
    return table


def _streams(device: DeviceSummary) -> Table:
    table = _table("Stream", "allocations", "bytes in all", "peak bytes", "uses of others' blocks")
    for use in device.streams:
        table.add_row(
            f"{use.stream:#x}", str(use.allocations), str(use.nbytes), str(use.peak_bytes), str(use.used_by_others)
        )
    return table


def _sites(title: str, sites: list[Site]) -> Table:
    table = _table(title, "blocks", "bytes", "size", left=1)
    for site in sites:
        table.add_row(Text(site.where, overflow="fold"), str(site.blocks), str(site.nbytes), size(site.nbytes))
    return table


def _table(first: str, *others: str, left: int = 0) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), title_justify="left")
    table.add_column(first, justify="left" if left else "right")
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table
