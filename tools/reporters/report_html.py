"""Writes the report's page: one file that needs no network, and unpacks what is looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from typing import Any, TextIO

import numpy as np

from ...plugins.tracing.trace_in_memory import Trace
from ..analysis.blocks import find_blocks
from ..analysis.findings import Finding, findings, verdict
from ..analysis.report_data import Payload, pack
from ..analysis.sites import Site
from ..analysis.summarize import DeviceSummary, Moved, Sleep, summarize
from .units import duration, events, share, size

_SCRIPTS = ("report_data.js", "report_draw.js", "report_tree.js", "report.js", "report_compare.js")


@dataclass(frozen=True)
class Shown:
    """One device of one history, as the page shows it."""

    label: str
    """What it is called where the page has several: a rank, say."""
    trace: Trace
    device: DeviceSummary


@dataclass(frozen=True)
class Aligned:
    """How a page lays two runs over each other."""

    iterations: Sequence[Sequence[float]]
    """For each run, the seconds at which its iterations begin, and at last its end."""


def shown_devices(trace: Trace, name: str, device: int | None = None) -> list[Shown]:
    """The devices of a history, that which held most first; or the one that is named."""
    devices = summarize(trace, device=device).devices
    devices.sort(key=lambda one: -one.requested.nbytes)
    several = len(devices) > 1
    return [Shown(f"{name}, device {one.device}" if several else name, trace, one) for one in devices]


def write_report(
    shown: Sequence[Shown],
    title: str,
    file: TextIO,
    aligned: Aligned | None = None,
    *,
    before: str = "",
    drop: str = "",
) -> None:
    """Write the page. It opens in any browser with ``DecompressionStream`` (since 2023 all).

    Args:
        shown: what it shows, one at a time; or two runs, one above the other, if they are ``aligned``.
        title: its title.
        file: where to.
        aligned: where the iterations of the two runs begin.
        before: what stands first on the page, as HTML.
        drop: where a file goes that is dropped on the page, to be compared; empty where no server takes it.
    """
    metas: list[dict[str, Any]] = []
    data: list[Callable[[], None]] = []
    for number, one in enumerate(shown):
        payload = pack(one.trace, one.device.device)
        metas.append({**payload.meta, "label": one.label})
        if aligned is not None:
            metas[-1]["iterations"] = list(aligned.iterations[number])
        data.append(_writer(number, payload, file))
    meta = json.dumps({"views": metas, "compare": aligned is not None, "drop": drop})
    parts = {
        "title": escape(title),
        "chooser": _chooser(shown, aligned is not None),
        "first": before + "".join(_first(number, one, alone=len(shown) == 1) for number, one in enumerate(shown)),
        "found": "".join(map(_found, range(len(shown)), shown)),
        "timelines": _timelines(shown, aligned is not None),
        "rest": "".join(map(_rest, range(len(shown)), shown)),
        "meta": meta.replace("<", "\\u003c"),
    }
    file.write(re.sub("@([a-z]+)@", lambda match: parts[match[1]], _data("report.html")))
    for write in data:
        write()
    file.write("<script>\n" + "".join(map(_data, _SCRIPTS)) + "</script>\n</body>\n</html>\n")


def _writer(number: int, payload: Payload, file: TextIO) -> Callable[[], None]:
    def write() -> None:
        file.writelines(
            f'<script type="text/plain" id="v{number}-{name}">{text}</script>\n'
            for name, text in (("overview", payload.overview), *enumerate(payload.chunks))
        )

    return write


def _data(name: str) -> str:
    return (files(__package__.rpartition(".")[0]) / "data" / name).read_text(encoding="utf-8")


def _chooser(shown: Sequence[Shown], compare: bool) -> str:
    if len(shown) == 1:
        return f'<span class="soft">{escape(_subtitle(shown[0]))}</span>'
    options = "".join(f'<option value="{number}">{escape(one.label)}</option>' for number, one in enumerate(shown))
    name = "Details of" if compare else "Show"
    return f'<label>{name} <select id="view">{options}</select></label>'


def _subtitle(one: Shown) -> str:
    device = one.device
    note = f", {one.trace.note}" if one.trace.note else ""
    if not device.has_history:
        return f"device {device.device}, the state at one moment{note}"
    time = f" in {device.seconds:.3f} s" if device.timed else " without times"
    return f"device {device.device}, {events(device.events)}{time}{note}"


def _timelines(shown: Sequence[Shown], compare: bool) -> str:
    if not compare:
        return '<canvas id="timeline-0" class="timeline" role="img" tabindex="0"></canvas>'
    return "".join(
        f'<p class="strong">{escape(one.label)}</p>'
        f'<canvas id="timeline-{number}" class="timeline" role="img" tabindex="0"></canvas>'
        for number, one in enumerate(shown)
    )


def _first(number: int, one: Shown, *, alone: bool) -> str:
    """The verdict and what to do, at most three things. What is shown stands in the page's head where it is alone."""
    found = findings(one.device, one.trace.path, one.trace.header.source)
    judged, things = verdict(found), _to_do(found)
    told = "".join(f"<li>{escape(do)}</li>" for do in things)
    return (
        f'<section data-view="{number}"{" hidden" if number else ""} id="first-{number}"><h2>In short</h2>'
        + ("" if alone else f'<p class="soft">{escape(_subtitle(one))}</p>')
        + (f'<p class="verdict">{escape(judged)}</p>' if judged else "")
        + (f'<ul class="do" aria-label="What to do">{told}</ul>' if told else "")
        + "</section>"
    )


def _found(number: int, one: Shown) -> str:
    """All that was found; what to do about it, as far as it does not stand first on the page."""
    found = findings(one.device, one.trace.path, one.trace.header.source)
    first = _to_do(found)
    told = "".join(_finding(replace(each, do="") if each.do in first else each) for each in found)
    return (
        f'<section data-view="{number}"{" hidden" if number else ""}><h2>What was found</h2>'
        f'<ul id="findings-{number}">{told}</ul></section>'
    )


def _to_do(found: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(one.do for one in found if one.do))[:3]


def of_the_job(found: Sequence[Finding]) -> str:
    """What was found of the job whose processes are shown, as a section of the page."""
    return f'<section><h2>The job</h2><ul id="job">{"".join(map(_finding, found))}</ul></section>' if found else ""


def _finding(finding: Finding) -> str:
    do = f' <span class="do">{escape(finding.do)}</span>' if finding.do else ""
    return f'<li class="{finding.kind}">{escape(finding.told)}{do}</li>'


def _rest(number: int, one: Shown) -> str:
    device = one.device
    when = "at the peak" if device.has_history else "of what is held"
    sizes = [(size(entry.up_to), entry.allocations, size(entry.nbytes)) for entry in device.sizes]
    unused = device.fragmentation
    average = f"at its peak, {share(unused.mean_over_time)} on average" if device.timed else "at its peak"
    average = average if device.has_history else "then"
    lifetimes = _lifetimes(one) if device.timed else []
    fragmentation = (
        f"<section><h2>Fragmentation</h2><p>{share(unused.at_peak_reserved)} of the reserved memory is unused "
        f"{average}.</p></section>"
        if device.knows_reserved
        else ""
    )
    return (
        f'<div data-view="{number}"{" hidden" if number else ""}><section><h2>Call sites {when}</h2>'
        f"{_table(device.sites_at_peak, device.requested.nbytes)}</section>"
        f"{fragmentation}{_asleep(device.sleeps)}{_moved(device.moves)}"
        f'<div class="pair"><section><h2>Sizes</h2>{_bars("requested size up to", sizes)}</section>'
        + (f"<section><h2>Lifetimes</h2>{_bars('lifetime up to', lifetimes)}</section>" if lifetimes else "")
        + "</div></div>"
    )


def _asleep(sleeps: list[Sleep]) -> str:
    if not sleeps:
        return ""
    rows = [(escape(one.tag), one.times, size(one.most_bytes), size(one.at_end_bytes)) for one in sleeps]
    table = html_table(("tag", "times", "at most", "asleep at the end"), rows)
    return f"<section><h2>Memory that slept</h2>{table}</section>"


def _moved(moves: list[Moved]) -> str:
    if not moves:
        return ""
    rows = [(escape(one.tag), one.to_host, one.to_device, size(one.most_bytes)) for one in moves]
    table = html_table(("tag", "to the host", "to the device", "at most"), rows)
    return f"<section><h2>Memory that moved</h2>{table}</section>"


def _lifetimes(one: Shown) -> list[tuple[str, int, str]]:
    own = np.flatnonzero(one.trace.events["device"] == one.device.device)
    events = one.trace.events[own]
    blocks = find_blocks(events, completed_apart=one.trace.completed_apart)
    begin = int(np.searchsorted(own, one.trace.begin))
    freed = (blocks.freed >= 0) & (blocks.allocated >= begin)
    times = events["time"]
    microseconds = np.maximum((times[blocks.freed[freed]] - times[blocks.allocated[freed]]) / 1e3, 1)
    requested = events["requested"][blocks.allocated[freed]]
    powers = np.ceil(np.log10(microseconds)).astype(np.int64)
    known = range(int(powers.min()), int(powers.max()) + 1) if len(powers) else range(0)
    return [
        (duration(10.0**power), int(np.count_nonzero(powers == power)), size(int(requested[powers == power].sum())))
        for power in known
    ]


def _bars(what: str, rows: Sequence[tuple[str, int, str]]) -> str:
    """A table with bars: text for those who cannot see them."""
    most = max((count for _, count, _ in rows), default=1)
    told = "".join(
        f'<tr><td>{label}</td><td>{count}</td><td>{held}</td><td style="width: 40%">'
        f'<div class="meter" style="width: {count / most:.2%}"></div></td></tr>'
        for label, count, held in rows
    )
    return f"<table><tr><th>{what}</th><th>blocks</th><th>bytes in all</th><th></th></tr>{told}</table>"


def _table(sites: Sequence[Site], total: int) -> str:
    if not sites:
        return '<p class="soft">This trace has no call stacks.</p>'
    rows = [
        (escape(site.where), site.blocks, site.nbytes, size(site.nbytes), f"{site.nbytes / total:.1%}")
        for site in sites
    ]
    return f'<div class="wide">{html_table(("Line of the program", "blocks", "bytes", "size", "share"), rows)}</div>'


def html_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of HTML. Titles and cells are HTML already."""
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
