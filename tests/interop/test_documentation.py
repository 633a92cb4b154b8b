"""Programs of the documentation that need a GPU and other libraries: they name what there is, and do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import cuplug
import cuplug.interop
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ON_A_GPU = re.compile(r'^```python title="On a GPU"\n(.*?)^```', re.DOTALL | re.MULTILINE)
PROGRAMS = [pytest.param(text, id=page.stem) for page in PAGES for text in ON_A_GPU.findall(page.read_text())]
LIBRARIES = ("torch", "cupy", "numba", "rmm", "pycuda")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_names_what_there_is(program):
    compile(program, "a program of the documentation", "exec")
    names = set(re.findall(r"cuplug(?:\.[a-zA-Z]\w*)+", program))
    assert names
    for name in names:
        eval(name, {"cuplug": cuplug})


@pytest.mark.needs_gpu
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_does_what_it_says(program, run_program):
    for library in LIBRARIES:
        if f"import {library}\n" in program or f"from {library} " in program:
            pytest.importorskip(library)
    said = re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
    done = run_program(program)
    assert done.returncode == 0, done.stderr
    assert said
    assert done.stdout.splitlines() == said
