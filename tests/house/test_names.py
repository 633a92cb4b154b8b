"""A file is found by its name: no two files of the package share one, and no code lives in the tests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("allocators", "plugins", "runtime", "tools")
SHARED = {"base.py"}
"""Names that files share for now. This list only ever becomes shorter."""
MIRRORED = ({"cuda", "sim"}, {"cuda", "host"})
"""Folders whose files answer to each other by name."""


def sources():
    yield from ROOT.glob("*.py")
    for floor in FLOORS:
        yield from (ROOT / floor).rglob("*.py")


def shared_names() -> set[str]:
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in sources():
        if path.name not in ("__init__.py", "__main__.py"):
            by_name[path.name].append(path)
    return {
        name
        for name, paths in by_name.items()
        if len(paths) > 1 and not any({path.parent.name for path in paths} <= folders for folders in MIRRORED)
    }


def test_no_two_files_share_a_name():
    assert shared_names() <= SHARED


def test_the_exceptions_are_still_needed():
    assert shared_names() >= SHARED


def test_nothing_imports_from_the_tests():
    for path in sources():
        text = path.read_text()
        if not re.search(r"\b(tests|conftest)\b", text):  # most: to parse them all takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found = [name for name in names if {"tests", "conftest"} & set(name.split("."))]
            assert not found, f"{path}:{node.lineno} imports {found[0]}"


def test_no_module_at_the_top_hides_another_library_from_programs_that_run_there():
    assert {path.name for path in ROOT.glob("*.py")} == {
        "__init__.py",
        "as_torch.py",
        "cuplug_pytest.py",
        "cuplug_torch.py",
        "setup.py",
    }


def test_the_files_that_contributors_are_sent_to_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = page.partition("## Where things stand")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 12
    for row in rows:
        rooms = [name for name in re.findall(r"`([^`]+)`", row.split("|")[2]) if "/" in name]
        assert rooms, row
        assert all((ROOT / name).exists() for name in rooms), row
