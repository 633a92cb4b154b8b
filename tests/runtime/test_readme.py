"""The programs of the README do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler

README = Path(__file__).parents[2] / "README.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.needs_sim
@pytest.mark.parametrize("program", [each for each in PROGRAMS if ".init(" in each])
def test_a_program_runs_and_prints_what_its_comment_says(program: str) -> None:
    if "SourceModule" in program:
        try:
            find_compiler()
        except CompileError as error:
            pytest.skip(str(error))
    said = re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE)
    assert said
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.stdout.splitlines()) == ("", said)
