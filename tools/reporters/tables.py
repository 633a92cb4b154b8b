"""Tables and paragraphs that fit the terminal: no word is broken in the middle, and no line ends in blanks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

Cell: TypeAlias = "str | Text"
_BETWEEN = "  "
_NARROWEST = 24
"""Columns that a last cell needs to go on below itself."""
_BELOW = " " * 8
"""Before a last cell that has no room beside the others."""


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    left: bool = False
    """Whether it is aligned to the left."""
    rank: int = 0
    """Where the table is too wide, columns of the highest rank go first. Those of rank 0 stay in any case."""
    note: str = ""
    """What explains it below the table, where it is shown."""


def in_two_lines(cells: Sequence[Cell], at: int) -> list[Sequence[Cell]]:
    """A row as two, where the cell ``at`` has a comma: what follows it goes on below."""
    cell = cells[at]
    text = cell if isinstance(cell, Text) else Text(cell)
    place = text.plain.find(",") + 1
    if not place:
        return [cells]
    blank = [Text()] * len(cells)
    return [[*cells[:at], text[:place], *cells[at + 1 :]], [*blank[:at], Text("  ") + text[place:], *blank[at + 1 :]]]


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int) -> Text:
    """A table as text of several lines, with as many of its columns as fit into ``width``."""
    return _fitted(columns, rows, width)[0]


def _fitted(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int) -> tuple[Text, list[str]]:
    """The table, and the notes of the columns that it shows."""
    cells = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    widths = [
        max([cell_len(column.title), *(cell.cell_len for cell in row)])
        for column, row in zip(columns, zip(*cells, strict=True) if cells else [()] * len(columns), strict=True)
    ]
    shown = list(range(len(columns)))
    while sum(widths[at] + len(_BETWEEN) for at in shown) - len(_BETWEEN) > width:
        rank, last = max((columns[at].rank, at) for at in shown)
        if not rank:
            break
        shown.remove(last)
    before = sum(widths[at] + len(_BETWEEN) for at in shown[:-1])
    titles = [Text(column.title, style="bold") for column in columns]
    lines = []
    for row in [titles, *cells] if any(column.title for column in columns) else cells:
        line = Text()
        for at in shown:
            blanks = " " * (widths[at] - row[at].cell_len)
            line.append_text(row[at]).append(blanks) if columns[at].left else line.append(blanks).append_text(row[at])
            line.append(_BETWEEN)
        line.rstrip()
        parts = folded(line.plain, before, width) if columns[shown[-1]].left else [line.plain]
        lines += [line[: len(parts[0])], *map(Text, parts[1:])]
    return Text("\n").join(lines), [columns[at].note for at in shown]


def folded(line: str, before: int, width: int) -> list[str]:
    """A row whose last cell, behind ``before`` columns, goes on below itself where it is too long; below the row,
    where there is no room for that."""
    cell = line[before:]
    if cell_len(line) <= width or not cell:
        return [line]
    if max(_NARROWEST, *map(cell_len, cell.split())) <= width - before:
        first, *more = _wrapped(cell, width - before)
        return [line[:before] + first, *(" " * before + part for part in more)]
    return [line[:before].rstrip(), *(_BELOW + part for part in _wrapped(cell, width - len(_BELOW)))]


def print_table(console: Console, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> list[str]:
    """Print a table that fits the console. Returns the notes of the columns that it shows, for ``print_notes``."""
    text, shown = _fitted(columns, rows, console.width)
    console.print(text, soft_wrap=True)
    return shown


def print_notes(console: Console, notes: Iterable[str]) -> None:
    """Explain the columns of a table, each once, behind an empty line."""
    told = " ".join(dict.fromkeys(filter(None, notes)))
    if told:
        console.print()
        print_paragraph(console, told)


def facts(pairs: Iterable[tuple[str, str]], width: int) -> str:
    """Names and what there is to say of each, beside them."""
    told = list(pairs)
    indent = max((cell_len(name) for name, _ in told), default=0) + len(_BETWEEN)
    lines = []
    for name, text in told:
        parts = _wrapped(text, max(width - indent, 20)) or [""]
        lines += [(name if not at else "").ljust(indent) + part for at, part in enumerate(parts)]
    return "\n".join(line.rstrip() for line in lines)


def print_facts(console: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and what there is to say of each."""
    console.print(Text(facts(pairs, console.width)), soft_wrap=True)


def print_paragraph(console: Console, text: str, style: str = "") -> None:
    """Print text, wrapped between words. A command at its end has a line of its own, to copy, which is not broken."""
    told, colon, command = text.rpartition(": cuplug-trace ")
    lines = (
        [*_wrapped(f"{told}:", console.width), f"cuplug-trace {command}"] if colon else _wrapped(text, console.width)
    )
    console.print(Text("\n".join(lines), style=style), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
