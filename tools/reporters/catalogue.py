"""Prints what is installed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...plugins.manager import Description
from ...plugins.selection import Option

__all__ = ["print_catalogue"]


def print_catalogue(entries: Sequence[Description], console: Console) -> None:
    """Print each entry with its options, as a selection string gives them."""
    for place, entry in enumerate(entries):
        if place:
            console.print()
        console.print(Text.assemble((entry.name, "bold"), f"  {entry.summary}"))
        if entry.plugin != "cuplug":
            console.print(Text(f"  from the plugin {entry.plugin}"))
        if entry.problem:
            console.print(Text(f"  {entry.problem}", style="red"))
        if entry.options:
            console.print(_options(entry.options))


def _options(options: Sequence[Option]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for option in options:
        default = "required" if option.required else f"default {option.default}"
        table.add_row("", Text(option.name), Text(option.type_name), Text(default), Text(option.description))
    return table
