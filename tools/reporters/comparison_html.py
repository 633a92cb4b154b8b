"""Writes the page of a comparison: the report's, for two runs by iteration with what changed first; and the curves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TextIO

from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.iterations import Alignment, align
from ..foreign.load import load
from ..replaying.comparison import Change, Row, difference
from .comparison_text import label, reserved_cells
from .replay_text import calls_text, short_name
from .report_html import Aligned, html_table, shown_devices, write_report
from .units import duration, size

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#b59a1f", "#3aa0c0", "#aa3377", "#ee8866", "#44bb99", "#777777")
_WIDTH, _HEIGHT = 1000, 260
_CHANGES = 12


def write_comparison(files: Sequence[str], rows: Sequence[Row], file: TextIO) -> None:
    """Write the page.

    Args:
        files: the histories. Two are laid over each other, iteration by iteration; of others one is shown at a time.
        rows: what was recorded, and what replays have found.
        file: where to.
    """
    traces = [load(name) for name in files]
    names = [short_name(name) for name in files]
    if len(set(names)) < len(names):
        names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
    shown = [shown_devices(trace, name) for trace, name in zip(traces, names, strict=True)]
    if len(files) != 2 or not all(shown):
        every = [one for devices in shown for one in devices]
        write_report(every, "Memory compared", file, before=_curves(rows) + _rows(rows))
        return
    first, second = (devices[0] for devices in shown)
    alignment = align(first.trace, second.trace, (first.device.device, second.device.device))
    told = _first_change(alignment, first.label, second.label)
    told += (
        _differences(first.trace, second.trace, first.device.device, second.device.device) + _curves(rows) + _rows(rows)
    )
    title = f"{first.label} and {second.label}"
    write_report([first, second], title, file, Aligned(alignment.begins), before=told)


def _first_change(alignment: Alignment, before: str, after: str) -> str:
    """What changed first, as a section of the page."""
    marked = (
        f"Iterations begin with {alignment.marked_by}." if alignment.marked_by
        else "Nothing repeats in both runs: each is laid over the other as a whole."
    )  # fmt: skip
    if alignment.differs_in is None:
        what = "Both ask for the same memory, iteration by iteration."
        items = ""
    else:
        number = alignment.differs_in
        times = " and ".join(f"{begins[number]:.6f} s" for begins in alignment.begins)
        where = f"in iteration {number}" if number else "before the first iteration"
        what = f"The runs differ first {where} (from {times} on)."
        items = "".join(
            f"<li>{escape(one.where)}: blocks of {size(one.requested)} ({one.requested} bytes), {one.before} before, "
            f"{one.after} after</li>"
            for one in alignment.changed[:_CHANGES]
        )
        more = len(alignment.changed) - _CHANGES
        items += f"<li>and {more} more</li>" if more > 0 else ""
    return (
        f'<section id="changed"><h2>What changed first, from {escape(before)} to {escape(after)}</h2>'
        f'<p class="strong">{what}</p><ul>{items}</ul><p class="soft">{escape(marked)}</p></section>'
    )


def _differences(old: Trace, new: Trace, before: int, after: int) -> str:
    """What changed on the whole, where both runs are of the same device."""
    if before != after:
        return ""
    (found,) = (one for one in difference(old, new, top=_CHANGES) if one.device == before)
    return (
        f"<section><h2>What changed on the whole</h2>{_changes('', found.peaks)}"
        f"{_changes('Held at the peak, by call site', [one for one in found.sites if one.by])}</section>"
    )


def _changes(title: str, changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    rows = [(escape(one.what), one.before, one.after, f"{one.by:+d}", size(one.by)) for one in changes]
    return f'<div class="wide">{html_table((title, "before", "after", "change", ""), rows)}</div>'


def _curves(rows: Sequence[Row]) -> str:
    """What each history reserves over time, as recorded (dashed) and replayed."""
    end = max((point[0] for row in rows for curve in row.curves.values() for point in curve), default=0.0) or 1.0
    most = max((point[1] for row in rows for curve in row.curves.values() for point in curve), default=0) or 1
    lines: list[str] = []
    keys: list[str] = []
    for row in rows:
        for device, curve in row.curves.items() if row.knows_reserved else ():
            name = escape(label(row, rows) + (f", device {device}" if len(row.curves) > 1 else ""))
            colour = _COLOURS[len(lines) % len(_COLOURS)]
            dashes = "" if row.allocator else ' stroke-dasharray="6 4"'
            path = _path([(seconds / end, reserved / most) for seconds, reserved in curve])
            lines.append(
                f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes} '
                f'vector-effect="non-scaling-stroke"><title>{name}</title></path>'
            )
            keys.append(f'<span class="key"><i style="background: {colour}"></i>{name}</span>')
    return (
        '<section><h2>Reserved memory</h2><p class="soft">As recorded: dashed. '
        f"The frame is {end:.3f} s wide and {size(most)} high.</p>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="Reserved memory over '
        f'time" style="width: 100%; height: {_HEIGHT}px; border: 1px solid var(--line)">{"".join(lines)}</svg>'
        f'<div class="bar">{"".join(keys)}</div></section>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Steps, with no more detail than the picture shows."""
    parts: list[str] = []
    last: tuple[int, int] | None = None
    for across, up in points:
        x, y = round(across * _WIDTH), round((1 - up * 0.97) * _HEIGHT)
        if last is None:
            parts.append(f"M{x} {y}")
        elif (x, y) != last:
            parts.append(f"H{x}V{y}")
        last = x, y
    return "".join(parts) + (f"H{_WIDTH}" if parts else "")


def _rows(rows: Sequence[Row]) -> str:
    titles = ("history", "peak requested", "peak reserved", "size", "÷ requested", "driver calls", "driver time", "OOM")
    cells = [
        (
            escape(label(row, rows)),
            row.requested,
            *reserved_cells(row),
            escape(calls_text(row.driver_calls)),
            "" if row.driver_time_us is None else duration(row.driver_time_us),
            row.out_of_memory,
        )
        for row in rows
    ]
    return f'<section><h2>Figures</h2><div class="wide">{html_table(titles, cells)}</div></section>'
