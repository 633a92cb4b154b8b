"""Writes the page of a comparison: the reserved curves on one axis, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from bokeh import models as _models
from bokeh.embed import components
from bokeh.plotting import figure

from ..replaying.comparison import Row
from .comparison_text import label
from .replay_text import calls_text
from .report_page import inline_scripts
from .units import duration, size

__all__ = ["render_comparison"]

models: Any = _models
_COLOURS = (
    "#4477aa",
    "#ee6677",
    "#228833",
    "#ccbb44",
    "#66ccee",
    "#aa3377",
    "#ee8866",
    "#44bb99",
    "#777777",
    "#000000",
)
_STYLE = """body { font: 15px/1.45 system-ui, sans-serif; margin: 16px 20px; color: #1b2430 }
table { border-collapse: collapse; width: 100%; font-size: 14px; margin-top: 12px }
td, th { text-align: right; padding: 3px 10px; border-bottom: 1px solid #d9dee6; font-variant-numeric: tabular-nums }
td:first-child, th:first-child { text-align: left }"""


def render_comparison(rows: Sequence[Row]) -> str:
    """The whole page. It needs no network."""
    plot: Any = figure(height=520, sizing_mode="stretch_width", tools="xpan,xwheel_zoom,box_zoom,reset,save,hover")
    plot.toolbar.logo = None
    plot.hover.tooltips = [("", "$name"), ("at", "@x{0.000000} s"), ("reserved", "@y{0} bytes")]
    end = max((point[0] for row in rows for curve in row.curves.values() for point in curve), default=1.0)
    number = 0
    for row in rows:
        for device, curve in row.curves.items():
            name = label(row) + (f", device {device}" if len(row.curves) > 1 else "")
            xs, ys = [point[0] for point in curve], [point[1] for point in curve]
            plot.step(
                [*xs, end], [*ys, ys[-1] if ys else 0], mode="after", line_width=2, name=name, legend_label=name,
                line_color=_COLOURS[number % len(_COLOURS)], line_dash="dashed" if not row.allocator else "solid",
            )  # fmt: skip
            number += 1
    plot.xaxis.axis_label, plot.yaxis.axis_label = "seconds", "reserved"
    plot.yaxis.formatter = models.NumeralTickFormatter(format="0.[00] ib")
    plot.yaxis.ticker = models.AdaptiveTicker(base=1024, mantissas=[2**power for power in range(10)])
    plot.y_range.start = 0
    if plot.legend:
        plot.legend.location = "top_left"
        plot.legend.click_policy = "hide"
    script, div = components(plot)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Reserved memory compared</title>'
        f"<style>{_STYLE}</style>{inline_scripts()}</head><body><h1>Reserved memory compared</h1>"
        f"<p>Click an entry of the legend to hide its curve.</p>{div}{_rows(rows)}{script}</body></html>\n"
    )


def _rows(rows: Sequence[Row]) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in ("history", "peak requested", "peak reserved", "size", "÷ requested", "driver calls", "time", "OOM")
    )
    body = "".join(
        f"<tr><td>{escape(label(row))}</td><td>{row.requested}</td><td>{row.reserved}</td><td>{size(row.reserved)}</td>"
        f"<td>{row.reserved_over_requested:.3f}</td><td>{escape(calls_text(row.driver_calls))}</td>"
        f"<td>{'' if row.driver_time_us is None else duration(row.driver_time_us)}</td>"
        f"<td>{row.out_of_memory}</td></tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"
