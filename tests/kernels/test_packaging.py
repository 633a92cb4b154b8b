"""What is installed, and how the rooms of the kernels' floor depend on one another."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import cuplug
import cuplug.runtime.kernels
import pytest

ROOT = Path(cuplug.__file__).parent
KERNELS = Path(cuplug.runtime.kernels.__file__).parent
ROOMS = ["source", "compile", "simulator", "launch", "source_module"]


@pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="an installed copy cannot be built again")
def test_what_is_installed_holds_every_header(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path), "build_py"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (installed,) = tmp_path.glob("lib*/cuplug/runtime/kernels")
    mine, theirs = (
        {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file() and file.suffix != ".pyc"}
        for root in (KERNELS, installed)
    )
    assert mine == theirs
    assert any(name.startswith("simulator/headers/include/cuda/std/") for name in mine)


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
