"""Writes the report's page: figures made with Bokeh, filled and kept current by ``data/report.js``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from bokeh import models as _models
from bokeh.embed import components
from bokeh.plotting import figure
from bokeh.resources import INLINE, Resources

from ...plugins.tracing.contents import Trace
from ..analysis.blocks import find_blocks
from ..analysis.findings import Finding, findings
from ..analysis.page_data import pack
from ..analysis.sites import Site, program_frame
from ..analysis.summarize import DeviceSummary
from .units import duration, size

__all__ = ["inline_scripts", "render_report"]

models: Any = _models  # its annotations do not fit how it is meant to be used
_BYTES = "0.[00] ib"
_POWERS = [2**power for power in range(10)]
_LINKED = "xpan,xwheel_zoom,xbox_zoom,reset,save"


def render_report(trace: Trace, device: DeviceSummary, title: str, of_job: Sequence[Finding] = ()) -> str:
    """The whole page, which needs no network. Opens in a browser with ``DecompressionStream`` (since 2023 all).

    ``of_job``: what was found of the job whose process this is; it comes first.
    """
    payload = pack(trace, device.device)
    meta = {**payload.meta, **_sites_of(trace, payload.meta["stacks"])}
    figures = _figures(trace, device)
    script, divs = components(figures)
    parts = {
        "title": escape(title),
        "subtitle": escape(
            f"device {device.device}, {device.events} events in {device.seconds:.3f} s"
            + (f", {trace.note}" if trace.note else "")
        ),
        "scripts": inline_scripts(),
        "findings": "".join(map(_finding, [*of_job, *findings(device, trace.path)])),
        "sites": _table(device.sites_at_peak, device.requested.nbytes),
        "meta": json.dumps(meta).replace("<", "\\u003c"),
        "data": payload.data,
        "components": script,
        "application": _data("report.js"),
        **divs,
    }
    return re.sub("@([a-z]+)@", lambda match: parts[match[1]], _data("report.html"))


def inline_scripts() -> str:
    """BokehJS's core, in full."""
    return str(Resources(mode="inline", components=["bokeh"], minified=INLINE.minified).render_js())


def _data(name: str) -> str:
    return (files(__package__.rpartition(".")[0]) / "data" / name).read_text(encoding="utf-8")


def _sites_of(_trace: Trace, stacks: list[list[str]]) -> dict[str, Any]:
    """For each stack the number of its line of the program, and those lines' names."""
    names: dict[str, int] = {}
    numbers = []
    for stack in stacks:
        frames = tuple(_Named(text) for text in stack)
        own = program_frame(frames)  # type: ignore[arg-type]
        numbers.append(names.setdefault(str(own) if own else "no call stack", len(names)))
    return {"sites": numbers, "site_names": list(names)}


class _Named:
    """A frame of which only the text is left."""

    def __init__(self, text: str) -> None:
        self.filename = text
        self.text = text

    def __str__(self) -> str:
        return self.text


def _figures(trace: Trace, device: DeviceSummary) -> dict[str, Any]:
    x = models.Range1d(0, max(device.seconds, 1e-9), name="x")
    y = models.Range1d(0, 1, name="y")
    tap = models.CustomJS(code="window.cuplug?.tap?.(cb_obj.x)")

    def linked(name: str, height: int, **options: Any) -> Any:
        plot = _figure(name, height, x_range=x, tools=options.pop("tools", _LINKED), **options)
        plot.xaxis.axis_label = "seconds"
        cursor = models.Span(location=0, dimension="height", line_dash="dashed", line_width=1, name=f"cursor-{name}")
        plot.add_layout(cursor)
        plot.js_on_event("tap", tap)
        return plot

    timeline = linked("timeline", 300, active_scroll="xwheel_zoom", active_drag="xpan")
    timeline.yaxis.formatter = models.NumeralTickFormatter(format=_BYTES)
    timeline.yaxis.ticker = models.AdaptiveTicker(base=1024, mantissas=_POWERS)
    for name, colour, width in (("reserved", "#d55e00", 2), ("allocated", "#0072b2", 1), ("requested", "#009e73", 1.5)):
        source = _empty(name, "x", "y")
        timeline.step("x", "y", source=source, mode="after", line_color=colour, line_width=width, legend_label=name)
    peak = _empty("peak", "x", "y", "text")
    timeline.scatter("x", "y", source=peak, size=9, marker="triangle", color="#cc2222")
    timeline.add_layout(
        models.LabelSet(
            x="x",
            y="y",
            text="text",
            source=peak,
            x_offset=-8,
            text_align="right",
            y_offset=-18 if device.out_of_memory else 4,  # the label of what failed is above
            text_color="#cc2222",
            text_font_size="13px",
        )
    )
    _add_failures(timeline, device)
    timeline.legend.orientation = "horizontal"
    timeline.add_layout(timeline.legend[0], "above")
    timeline.y_range.start = 0
    timeline.y_range.range_padding = 0.2  # room for what is written at the peak

    area = linked(
        "map", 460, y_range=y, tools="pan,wheel_zoom,box_zoom,reset,save", active_scroll="wheel_zoom", active_drag="pan"
    )
    area.yaxis.formatter = models.NumeralTickFormatter(format=_BYTES)
    area.yaxis.ticker = models.AdaptiveTicker(base=1024, mantissas=_POWERS)
    raster = models.ColumnDataSource(
        {"image": [np.zeros((1, 1), np.uint32)], "x": [0], "y": [0], "dw": [1], "dh": [1]}, name="raster"
    )
    area.image_rgba("image", source=raster, x="x", y="y", dw="dw", dh="dh")
    hit = _empty("hit", "left", "right", "top", "bottom")
    area.quad(source=hit, fill_alpha=0.25, fill_color="#ffffff", line_color="#cc2222", line_width=2)
    area.js_on_event("mousemove", models.CustomJS(code="window.cuplug?.hover?.(cb_obj.x, cb_obj.y)"))
    area.js_on_event("mouseleave", models.CustomJS(code="window.cuplug?.leave?.()"))

    fragmentation = linked(
        "fragmentation", 200, active_scroll="xwheel_zoom", active_drag="xpan", y_range=models.Range1d(0, 100)
    )
    fragmentation.step("x", "y", source=_empty("unused", "x", "y"), mode="after", line_color="#aa3377")
    fragmentation.yaxis.axis_label = "per cent unused"

    icicle = _figure("icicle", 200, x_range=models.Range1d(0, 1), y_range=models.Range1d(-1, 0), tools="save")
    tree = _empty(
        "tree", "left", "right", "top", "bottom", "name", "text", "size", "exact", "share", "blocks", "colour", "x", "y"
    )
    quads = icicle.quad(source=tree, fill_color="colour", line_color="#ffffff")
    icicle.text("x", "y", "text", source=tree, text_font_size="12px", text_baseline="middle", text_color="#1b2430")
    icicle.add_tools(
        models.HoverTool(
            renderers=[quads],
            tooltips=[
                ("call", "@name"),
                ("holds", "@size (@exact{0} bytes)"),
                ("share", "@share"),
                ("blocks", "@blocks"),
            ],
        )
    )
    icicle.axis.visible = False
    icicle.grid.visible = False
    return {
        "timeline": timeline, "map": area, "icicle": icicle, "fragmentation": fragmentation,
        "sizes": _sizes(device), "lifetimes": _lifetimes(trace, device),
    }  # fmt: skip


def _add_failures(timeline: Any, device: DeviceSummary) -> None:
    """What the program would have held had its memory not run out, and all that there was for it."""
    failures = device.out_of_memory[:100]
    if not failures:
        return
    first = failures[0]
    wanted = models.ColumnDataSource(
        {
            "x": [failure.seconds for failure in failures],
            "y": [failure.active + failure.requested for failure in failures],
            "text": [f"out of memory: {size(first.requested)} more", *[""] * (len(failures) - 1)],
        },
        name="failures",
    )
    timeline.scatter("x", "y", source=wanted, size=11, marker="x", line_width=3, color="#cc2222")
    late = first.seconds > device.seconds / 2
    timeline.add_layout(
        models.LabelSet(
            x="x",
            y="y",
            text="text",
            source=wanted,
            x_offset=-10 if late else 10,
            y_offset=-6,
            text_align="right" if late else "left",
            text_color="#cc2222",
            text_font_size="13px",
        )
    )
    if first.free:
        x, y = [0, device.seconds], [first.reserved + first.free] * 2
        timeline.line(x, y, line_color="#cc2222", line_dash="dotted", line_width=2, legend_label="all there was")


def _figure(name: str, height: int, **options: Any) -> Any:
    plot = figure(
        name=name, height=height, sizing_mode="stretch_width", output_backend="canvas", min_border_left=70,
        min_border_right=16, **options,
    )  # fmt: skip
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    return plot


def _empty(name: str, *columns: str) -> Any:
    return models.ColumnDataSource({column: [] for column in columns}, name=name)


def _sizes(device: DeviceSummary) -> Any:
    labels = [size(entry.up_to) for entry in device.sizes]
    return _bars("sizes", labels, [entry.allocations for entry in device.sizes], "requested size up to",
                 [size(entry.nbytes) for entry in device.sizes])  # fmt: skip


def _lifetimes(trace: Trace, device: DeviceSummary) -> Any:
    events = trace.events[trace.events["device"] == device.device]
    blocks = find_blocks(events, completed_apart=trace.completed_apart)
    begin = int(np.searchsorted(np.flatnonzero(trace.events["device"] == device.device), trace.begin))
    freed = (blocks.freed >= 0) & (blocks.allocated >= begin)
    times = events["time"]
    microseconds = np.maximum((times[blocks.freed[freed]] - times[blocks.allocated[freed]]) / 1e3, 1)
    requested = events["requested"][blocks.allocated[freed]]
    powers = np.ceil(np.log10(microseconds)).astype(np.int64)
    known = range(int(powers.min()), int(powers.max()) + 1) if len(powers) else range(0)
    counts = [int(np.count_nonzero(powers == power)) for power in known]
    held = [size(int(requested[powers == power].sum())) for power in known]
    return _bars("lifetimes", [duration(10.0**power) for power in known], counts, "lifetime up to", held)


def _bars(name: str, labels: list[str], counts: list[int], axis: str, held: list[str]) -> Any:
    plot = _figure(name, 260, x_range=labels, tools="save")
    source = models.ColumnDataSource({"label": labels, "count": counts, "held": held})
    bars = plot.vbar("label", 0.85, "count", source=source, color="#4477aa")
    plot.add_tools(
        models.HoverTool(
            renderers=[bars], tooltips=[(axis, "@label"), ("blocks", "@count{0,0}"), ("bytes in all", "@held")]
        )
    )
    plot.xaxis.axis_label, plot.yaxis.axis_label = axis, "blocks"
    plot.yaxis.formatter = models.NumeralTickFormatter(format="0,0")
    plot.xaxis.major_label_orientation = 0.9
    plot.y_range.start = 0
    return plot


def _finding(finding: Finding) -> str:
    do = f' <span class="do">{escape(finding.do)}</span>' if finding.do else ""
    return f'<li class="{finding.kind}">{escape(finding.what)}{do}</li>'


def _table(sites: Sequence[Site], total: int) -> str:
    if not sites:
        return '<p class="soft">This trace has no call stacks.</p>'
    rows = "".join(
        f"<tr><td>{escape(site.where)}</td><td>{site.blocks}</td><td>{site.nbytes}</td><td>{size(site.nbytes)}</td>"
        f"<td>{site.nbytes / total:.1%}</td></tr>"
        for site in sites
    )
    head = "<tr><th>Line of the program</th><th>blocks</th><th>bytes</th><th>size</th><th>share</th></tr>"
    return f'<table id="sites">{head}{rows}</table>'
