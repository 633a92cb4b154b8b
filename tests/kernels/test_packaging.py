"""How the rooms of the kernels' floor depend on one another."""

from __future__ import annotations

import ast
from pathlib import Path

import cuplug.runtime.kernels

KERNELS = Path(cuplug.runtime.kernels.__file__).parent
ROOMS = ["source", "compile", "simulator", "launch", "texture", "source_module", "busy_wait"]


def test_no_room_imports_from_one_above_it() -> None:
    leaks = []
    for file in KERNELS.rglob("*.py"):
        parts = file.relative_to(KERNELS).with_suffix("").parts
        if parts == ("__init__",):
            continue
        for node in ast.walk(ast.parse(file.read_text())):  # imports inside functions and for annotations too
            if isinstance(node, ast.ImportFrom) and 0 < node.level <= len(parts):
                path = [*parts[: len(parts) - node.level], *(node.module or "").split(".")]
                targets = [path[0]] if path[0] else [name.name for name in node.names]
                leaks += [(str(file), room) for room in targets if ROOMS.index(room) > ROOMS.index(parts[0])]
    assert leaks == []
