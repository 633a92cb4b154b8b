"""A word of the architecture page's table means one thing: names have it in the rooms that the table says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("allocators", "plugins", "runtime", "tools")
FORMS = {
    "place": ("place", "places"),
    "simulator": ("simulator", "simulators"),
    "settle": ("settle", "settles", "settled"),
    "replay": ("replay", "replays"),
}
"""The words that names are looked at for, in the forms that mean the thing."""
AS_VERBS = re.compile(r"in_place|place_(buffers?|in_order|in_time|in_new_range)$|put_in_place|settle_(doubt|up)")
"""What is said in passing: written in place; to place blocks, which packing does; to settle an account."""
UNMENDED = {
    "plugins/tracing/reader.py",
    "plugins/tracing/writer.py",
    "tools/analysis/filters.py",
    "tools/analysis/report_data.py",
}
"""Files that say otherwise for now: positions in a trace are called places. This list only ever becomes shorter."""


def rooms() -> dict[str, list[str]]:
    """By word: the folders and files that the table says it belongs to."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("| word | where | meaning |")[2].partition("\n\n")[0]
    found: dict[str, list[str]] = {}
    word = ""
    for line in table.splitlines()[2:]:
        first, where = (each.strip() for each in line.strip("|").split("|")[:2])
        word = first or word
        found.setdefault(word, []).extend(re.findall(r"`([^`]+)`", where))
    return found


def names(source: str) -> Iterator[str]:
    """The names of classes, functions and attributes that ``source`` defines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def uses(word: str, found: Iterable[str]) -> list[str]:
    """The names among ``found`` that have ``word``."""
    return [
        name
        for name in found
        if not AS_VERBS.search(name)
        and any(part.lower() in FORMS[word] for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name))
    ]


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    """By file: the names that it defines."""
    files = [path for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]
    return {str(path.relative_to(ROOT)): set(names(path.read_text())) for path in files}


def elsewhere(word: str, named: dict[str, set[str]]) -> dict[str, list[str]]:
    """By file: the names that have ``word`` outside of its rooms."""
    allowed = tuple(rooms()[word])
    found = {file: uses(word, sorted(each)) for file, each in named.items() if not file.startswith(allowed)}
    return {file: used for file, used in found.items() if used}


@pytest.mark.parametrize("word", FORMS)
def test_a_word_means_what_the_table_says(word, named):
    assert {name: used for name, used in elsewhere(word, named).items() if name not in UNMENDED} == {}


def test_the_exceptions_are_still_needed(named):
    assert {name for word in FORMS for name in elsewhere(word, named)} == UNMENDED


def test_the_rooms_of_the_table_exist():
    listed = [room for found in rooms().values() for room in found]
    assert len(listed) > 10
    assert not [room for room in listed if not (ROOT / room).exists()]


def test_a_name_that_says_otherwise_is_found():
    assert uses("place", names("class Place: ...\n")) == ["Place"]
    assert uses("place", names("def f(block):\n    block.place = 1\n")) == ["place"]
    assert uses("place", names("def add_in_place(): ...\n")) == []
    assert uses("settle", names("def may_settle(): ...\n")) == ["may_settle"]
