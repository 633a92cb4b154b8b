"""Draws the documentation's charts and diagrams as SVG: light cards, which read the same in a dark page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

__all__ = ["COLOURS", "Card", "bars"]

COLOURS = {
    "used": "#4c78a8", "idle": "#d5d9e0", "new": "#54a24b", "bad": "#e45756", "host": "#b279a2", "plan": "#eeca3b",
    "other": "#f58518", "none": "#ffffff",
}  # fmt: skip
"""What a colour stands for, in every drawing: memory in use, memory that lies idle, what is new, and so on."""

_SERIES = ("#9d9da1", "#c4a000", "#4c78a8", "#54a24b", "#e45756")
_FONT = "font-family='system-ui,sans-serif'"


class Card:
    """A drawing under construction, in pixels from its upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, text: str = "", colour: str = "none") -> None:
        """A rectangle of a named colour with text in it; ``|`` begins a line."""
        fill = COLOURS[colour]
        self._parts.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' rx='3' fill='{fill}' stroke='#5b6270'/>"
        )
        lines = text.split("|") if text else []
        light = colour in ("used", "bad", "host", "new")
        for number, line in enumerate(lines):
            middle = y + height / 2 + (number - (len(lines) - 1) / 2) * 15
            self.text(x + width / 2, middle + 4, line, colour="#ffffff" if light else "#1f2430", anchor="middle")

    def text(
        self, x: float, y: float, text: str, *, size: int = 12, colour: str = "#1f2430", anchor: str = "start"
    ) -> None:
        """Words, from their base line."""
        self._parts.append(
            f"<text x='{x:g}' y='{y:g}' font-size='{size}' {_FONT} fill='{colour}' text-anchor='{anchor}'>"
            f"{escape(text)}</text>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, text: str = "") -> None:
        """A line with a head at its end, and words beside its middle."""
        self._parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='#5b6270' stroke-width='1.5' "
            "marker-end='url(#head)'/>"
        )
        if text:
            self.text((x1 + x2) / 2 + 6, (y1 + y2) / 2 - 5, text, size=11)

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """A thin line, such as an axis."""
        self._parts.append(f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='#b7bcc6'/>")

    def svg(self) -> str:
        """The whole file."""
        head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
            f"width='{self.width}' height='{self.height}' role='img' aria-label='{escape(self.title, quote=True)}'>"
            f"<title>{escape(self.title)}</title>"
            "<defs><marker id='head' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
            "orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='#5b6270'/></marker></defs>"
            f"<rect width='{self.width}' height='{self.height}' rx='6' fill='#ffffff'/>"
        )
        return "\n".join([head, *self._parts, "</svg>"]) + "\n"


def bars(title: str, groups: Mapping[str, Mapping[str, float]], *, base: float = 0.0, form: str = "{:g}") -> str:
    """A chart of horizontal bars: one for each series in each group.

    Args:
        title: what is shown, with its unit.
        groups: by a group's name the value of each series. A value that is missing is ``out of memory``.
        base: where the bars begin.
        form: how a value is written.
    """
    series = list(dict.fromkeys(name for values in groups.values() for name in values))
    most = max(value for values in groups.values() for value in values.values())
    left, width, each, gap = 250, 700, 15, 12
    card = Card(width, 58 + len(groups) * (len(series) * each + gap), title)
    card.text(12, 20, title, size=13)
    at = 12.0
    for number, name in enumerate(series):
        card._parts.append(f"<rect x='{at:g}' y='30' width='10' height='10' fill='{_SERIES[number % 5]}'/>")
        card.text(at + 14, 39, name, size=11)
        at += 26 + 6.6 * len(name)
    top = 52
    for group, values in groups.items():
        card.text(left - 8, top + len(series) * each / 2 + 4, group, anchor="end", size=11)
        for number, name in enumerate(series):
            y = top + number * each
            if name not in values:
                card.text(left + 4, y + 11, "out of memory", size=11)
                continue
            long = (values[name] - base) / (most - base) * (width - left - 70)
            fill = _SERIES[number % 5]
            card._parts.append(
                f"<rect x='{left}' y='{y}' width='{max(long, 1):.1f}' height='{each - 3}' fill='{fill}'/>"
            )
            card.text(left + max(long, 1) + 5, y + 10, form.format(values[name]), size=11)
        top += len(series) * each + gap
    card.line(left, 50, left, top - gap + 4)
    return card.svg()
