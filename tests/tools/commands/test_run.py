"""``cuplug-trace run``: a program as it is, on the allocator asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import cuplug
buffer = cuplug.cuda.alloc(1000)
print(cuplug.default_runtime().settings.allocator, sys.argv[1:], cuplug.default_runtime().settings.trace)
sys.exit(len(sys.argv))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*words: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    command = [sys.executable, "-m", "cuplug.tools.trace", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env={**clean, **variables}, capture_output=True, text=True, check=False
    )  # fmt: skip


def test_a_program_runs_on_the_allocator_asked_for_and_leaves_no_trace(program: Path, tmp_path: Path) -> None:
    done = run("run", "-a", "expandable", "-d", "sim", program, "--lr", "1", cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("expandable ['--lr', '1'] None\n", 3), done.stderr
    assert list(tmp_path.iterdir()) == [program]


def test_an_unknown_allocator_is_told_before_the_program_begins(program: Path, tmp_path: Path) -> None:
    done = run("run", "-a", "no_such_thing", program, cwd=tmp_path)
    assert done.returncode == 2
    assert "no_such_thing" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("verb", "library"),
    [("run", "torch"), ("run", "numba"), ("record", "cupy"), ("record", "rmm")],
)
def test_a_library_that_cannot_be_served_is_one_line_and_the_program_does_not_begin(
    program: Path, tmp_path: Path, verb: str, library: str
) -> None:
    """Without a GPU, or without the library, or with both hidden."""
    done = run(verb, f"--{library}", "-a", "caching", program, cwd=tmp_path, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("cuplug-trace: ")
