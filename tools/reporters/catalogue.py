"""Prints what is installed."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ...plugins.manager import Description
from ...plugins.selection import Option
from .tables import print_facts, print_paragraph


def print_catalogue(entries: Sequence[Description], console: Console) -> None:
    """Print each entry with its options, as a selection string gives them."""
    for place, entry in enumerate(entries):
        if place:
            console.print()
        console.print(Text(entry.name, style="bold"))
        if entry.summary:
            print_paragraph(console, entry.summary)
        if entry.plugin != "cuplug":
            print_paragraph(console, f"from the plugin {entry.plugin}")
        if entry.form:
            print_paragraph(console, f"runs {entry.form}")
        if entry.problem:
            print_paragraph(console, entry.problem, style="red")
        if entry.options:
            print_facts(console, [(f"  {option.name}", _described(option)) for option in entry.options])


def _described(option: Option) -> str:
    default = "required" if option.required else f"default {option.default}"
    return f"{option.type_name}, {default}. {option.description}".rstrip()
