"""The figures of the strategies, from ``constants.def``: ``from .constants import MOST_SEGMENT``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

UNITS = {"BYTES": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "PART": 1, "TIMES": 1, "COUNT": 1}
_LINE = re.compile(r'^FIGURE\((\w+), (\w+), (\d+), (\w+), (\d+), "(.*)"\)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    strategy: str
    """Whose rules use it; ``both`` are ``caching`` and ``expandable``."""
    name: str
    value: int
    """In bytes where it is a size."""
    without: int
    """The value with which the rule does nothing, or, where none does, another that is as plausible."""
    unit: str
    meaning: str
    """One sentence."""


def _read() -> dict[str, Figure]:
    found = {}
    for strategy, name, value, unit, without, meaning in _LINE.findall(
        Path(__file__).with_name("native").joinpath("constants.def").read_text(encoding="utf-8")
    ):
        found[name] = Figure(strategy, name, int(value) * UNITS[unit], int(without) * UNITS[unit], unit, meaning)
    return found


FIGURES = _read()
"""By name, in the order of the file."""
globals().update({name: figure.value for name, figure in FIGURES.items()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> int: ...
