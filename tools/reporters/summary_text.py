"""Prints a summary."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ..analysis.findings import findings, top_site, verdict, without_failure
from ..analysis.sites import NO_STACK, Site
from ..analysis.summarize import DeviceSummary, Peak, Summary
from .tables import Column, print_facts, print_paragraph, print_table
from .units import duration, events, share, size

_COULD_HAVE_STACKS = {
    "cuplug": "Record with --stacks python.",
    "pytorch": "Call torch.cuda.memory._record_memory_history(stacks='python') before the model is made.",
}
"""By a history's source: how it would have call stacks."""


def print_summary(summary: Summary, console: Console, *, by: str | None = None) -> None:
    """Print every device's tables, or only which ``library``, or ``module``, asked for how much."""
    console.print(Text(summary.path, style="bold"), soft_wrap=True)
    foreign = {
        "pytorch": "a PyTorch memory snapshot",
        "rmm": "a log of RMM's",
        "nsight": "an export of Nsight Systems",
        "pytorch profiler": "a profile of PyTorch's",
    }
    origin = foreign.get(summary.source, f"driver {summary.driver or 'unknown'}")
    told = [("program", " ".join(summary.argv))] if summary.argv else []
    told.append(("recorded", f"{events(summary.events)}, {origin}"))
    if not summary.has_stacks and summary.devices and summary.source in _COULD_HAVE_STACKS:
        told.append(
            ("stacks", f"none: which lines asked for memory is not known. {_COULD_HAVE_STACKS[summary.source]}")
        )
    if summary.note:
        told.append(("note" if summary.complete else "incomplete", summary.note))
    print_facts(console, told)
    if not summary.devices:
        console.print("no events of any device")
    for device in summary.devices:
        console.print()
        allocator = summary.allocators.get(device.device)
        title = f"Device {device.device}" + (f", allocator {allocator}" if allocator else "")
        console.print(Text(title, style="bold"), soft_wrap=True)
        if by == "library":
            _print_libraries(device, console)
        elif by == "module":
            _print_modules(device, console)
        else:
            _print_conclusion(device, summary.path, summary.source, console)
            _print_device(device, console)


def _print_device(device: DeviceSummary, console: Console) -> None:
    peaks: tuple[tuple[str, Peak], ...] = (
        ("requested by the program", device.requested),
        ("allocated, as rounded", device.allocated),
        ("active, with blocks that wait for streams", device.active),
        ("reserved from the device", device.reserved),
        *([("of it, of the host", device.on_host)] if device.on_host.nbytes else []),
    )
    title = "Peak" if device.has_history else "At that moment"
    columns = [Column(title, left=True), Column("bytes"), Column("size"), Column("at", rank=1)]
    rows = [
        [name, str(peak.nbytes), size(peak.nbytes), f"{peak.seconds:.6f} s"]
        if peak is not device.reserved or device.knows_reserved
        else [name, "unknown", "unknown", ""]
        for name, peak in peaks
    ]
    shown = slice(4) if device.timed and device.has_history else slice(3)
    print_table(console, columns[shown], [row[shown] for row in rows])
    print_facts(console, _facts(device))
    if device.sizes:
        print_table(
            console,
            (Column("Requested size up to"), Column("allocations"), Column("bytes in all"), Column("size in all")),
            [(size(one.up_to), str(one.allocations), str(one.nbytes), size(one.nbytes)) for one in device.sizes],
        )
    if len(device.streams) > 1 or any(use.used_by_others for use in device.streams):
        _print_streams(device, console)
    if len(device.libraries) > 1:
        _print_libraries(device, console)
    if device.pools:
        _print_pools(device, console)
    if device.sites_at_peak:
        when = "at the peak" if device.has_history else "at that moment"
        title = f"Held {when} ({size(device.requested.nbytes)}), by call site"
        _print_sites(title, device.sites_at_peak, console)
    if device.sites_of_live and device.has_history:
        _print_sites("Live at the end, by call site", device.sites_of_live, console)
    for failed in device.out_of_memory:
        print_paragraph(
            console,
            f"out of memory at {failed.seconds:.6f} s: {failed.requested} bytes asked for on stream "
            f"{failed.stream:#x}, {'what was' if failed.free is None else failed.free} free on the device"
            + (" is not known" if failed.free is None else ""),
            style="red",
        )


def _print_conclusion(device: DeviceSummary, path: str, source: str, console: Console) -> None:
    """What is most pressing, or that nothing is; and of a history in which no request failed, what to do if one did."""
    found = findings(device, path, source)
    pressing = [finding for finding in found if finding.kind == "bad"]
    for finding in pressing:
        print_paragraph(console, finding.what, style="red")
        why = finding.unused
        if why is not None and (points := why.points()):
            print_paragraph(console, f"Of {size(why.nbytes)} unused:")
            for point in points:
                print_paragraph(console, f"- {point}")
        pin = why.pin.sentence() if why is not None and why.pin is not None else ""
        if pin or finding.do:
            print_paragraph(console, f"{pin} {finding.do}".strip())
    judged, top = verdict(found), top_site(device)
    share = "Most" if top is not None and 2 * top.nbytes >= device.requested.nbytes else "The largest part"
    held = f"{share} is held by {top.where}." if top is not None else ""
    if not pressing and judged:
        print_paragraph(console, f"{judged} {held}".rstrip())
    elif held and not device.out_of_memory and device.growth is None:  # else another line matters more
        print_paragraph(console, held)
    if source == "pytorch" and device.has_history and not device.out_of_memory:
        asked = without_failure(device, path)
        print_paragraph(console, f"{asked.what} {asked.do}")
    if judged:
        console.print()


def _facts(device: DeviceSummary) -> Iterator[tuple[str, str]]:
    lifetimes, waste = device.lifetimes, device.fragmentation
    if device.has_history:
        yield "events", f"{device.events}" + (f" in {device.seconds:.6f} s" if device.timed else ", without times")
        yield "allocations", f"{device.allocations}, {device.frees} freed"
        if device.peak_where not in ("", NO_STACK):
            yield "peak", f"of what is requested: reached at {device.peak_where}"
    if device.older_blocks and device.has_history:
        yield "", f"besides {device.older_blocks} blocks from before the history, {device.older_bytes} bytes"
    if device.unknown_frees:
        yield "", f"{device.unknown_frees} frees of blocks from before the recording"
    yield "live at the end" if device.has_history else "live", f"{device.live_blocks} blocks, {device.live_bytes} bytes"
    if device.idle_at_end is not None:
        idle = device.idle_at_end
        yield (
            "idle at the end" if device.has_history else "idle",
            f"{size(idle.nbytes)} of what is reserved, of which empty_cache() would give back {size(idle.whole)}",
        )
        if device.unused_at_end is not None and device.unused_at_end.pin is not None:
            yield "", device.unused_at_end.pin.sentence()
    if not device.has_history:
        return
    shares = f"90 % below {duration(lifetimes.percentile_90_us)}, 99 % below {duration(lifetimes.percentile_99_us)}"
    if device.timed and lifetimes.blocks:
        yield "lifetimes", f"median {duration(lifetimes.median_us)}, {shares}, longest {duration(lifetimes.longest_us)}"
    if device.reserved.nbytes:
        unused = f"{share(waste.at_peak_reserved)} of the reserved memory unused at its peak"
        unused += f", {share(waste.mean_over_time)} on average" if device.timed else ""
        ratio = f"{waste.reserved_over_requested:.3f} reserved for 1 requested"
        yield "fragmentation", f"{unused}; {ratio}{_rounding(device)}"
    yield "memory calls", ", ".join(f"{count} {name}" for name, count in device.driver_calls.items()) or "none"
    if device.served is not None:
        yield "served by a plan", str(device.served)
    for slept in device.sleeps:
        at_end = f", {size(slept.at_end_bytes)} asleep at the end" if slept.at_end_bytes else ""
        yield "asleep", f"{slept.tag}: {slept.times} times, at most {size(slept.most_bytes)}{at_end}"
    for moved in device.moves:
        often = f"{moved.to_host} times to the host, {moved.to_device} to the device"
        yield "moved", f"{moved.tag}: {often}, at most {size(moved.most_bytes)}"
    yield "out of memory", str(len(device.out_of_memory))


_MUCH_ROUNDING = 1.25


def _rounding(device: DeviceSummary) -> str:
    """Where blocks are much larger than what was requested, that this is why more is reserved; else nothing."""
    times = device.allocated.nbytes / device.requested.nbytes if device.requested.nbytes else 0.0
    return f": blocks are rounded up to {times:.2f} times what was requested" * (times >= _MUCH_ROUNDING)


def _print_streams(device: DeviceSummary, console: Console) -> None:
    columns = (
        Column("Stream"), Column("allocations"), Column("bytes in all", rank=1), Column("peak bytes"),
        Column("uses of others' blocks", rank=2),
    )  # fmt: skip
    rows = [
        (f"{use.stream:#x}", str(use.allocations), str(use.nbytes), str(use.peak_bytes), str(use.used_by_others))
        for use in device.streams
    ]
    print_table(console, columns, rows)


def _print_pools(device: DeviceSummary, console: Console) -> None:
    """What private pools have, and all else, when the most is reserved."""
    columns = (
        Column("reserved"), Column("bytes", rank=2), Column("idle"), Column("ever at most", rank=1),
        Column("Private pool, at the peak of what is reserved", left=True),
    )  # fmt: skip
    rows = [
        (size(pool.reserved), str(pool.reserved), size(pool.idle), size(pool.most), pool.name) for pool in device.pools
    ]
    idle = device.idle_at_peak.nbytes if device.idle_at_peak is not None else 0
    rest = device.reserved.nbytes - sum(pool.reserved for pool in device.pools)
    rows.append((size(rest), str(rest), size(idle - sum(pool.idle for pool in device.pools)), "", "all else"))
    print_table(console, columns, rows)


def _print_libraries(device: DeviceSummary, console: Console) -> None:
    columns = (
        Column("Library", left=True), Column("at the peak"), Column("bytes", rank=2), Column("own peak"),
        Column("allocations"), Column("bytes in all", rank=1), Column("live at the end", rank=3),
    )  # fmt: skip
    rows = [
        (
            use.library,
            size(use.at_peak_bytes),
            str(use.at_peak_bytes),
            size(use.peak_bytes),
            str(use.allocations),
            size(use.nbytes),
            size(use.live_bytes),
        )
        for use in device.libraries
    ]
    print_table(console, columns, rows)


def _print_modules(device: DeviceSummary, console: Console) -> None:
    columns = (
        Column("Saved by forward"), Column("bytes", rank=3), Column("at the peak"), Column("forward in all", rank=1),
        Column("backward in all", rank=1), Column("optimiser in all", rank=2), Column("allocations", rank=4),
        Column("Module", left=True),
    )  # fmt: skip
    rows = [
        (
            size(use.saved_bytes),
            str(use.saved_bytes),
            size(use.at_peak_bytes),
            size(use.forward_bytes),
            size(use.backward_bytes),
            size(use.optimiser_bytes),
            str(use.allocations),
            use.module,
        )
        for use in device.modules
    ]
    print_table(console, columns, rows)
    top = device.modules[0] if device.modules else None
    if top is not None and top.saved_bytes:
        print_paragraph(
            console,
            f"{top.module} saves the most activations: {top.saved_bytes} bytes ({size(top.saved_bytes)}) of what its "
            f"forward allocated are held when the backward pass begins, in iteration {top.saved_iteration}.",
        )


def _print_sites(title: str, sites: list[Site], console: Console) -> None:
    """Names of any length come last."""
    columns = (Column("blocks"), Column("bytes"), Column("size"), Column(title, left=True))
    rows = [(str(site.blocks), str(site.nbytes), size(site.nbytes), site.where) for site in sites]
    print_table(console, columns, rows)
