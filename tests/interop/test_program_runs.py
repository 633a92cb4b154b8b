"""How a user's program is run: what is missing is one line, and errors show the program's own lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.runtime.interop.program_runs import what_is_missing

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

OUT_OF_BOUNDS = """
import numpy
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

beyond = SourceModule("__global__ void beyond(float *a) { a[threadIdx.x + 1000] = 1; }").get_function("beyond")

def step():
    beyond(cuda.mem_alloc(128), block=(32, 1, 1))
    cuda.Context.synchronize()

step()
"""


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    return subprocess.run([sys.executable, *words], cwd=cwd, env=clean, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("door", ["cuplug.interop.pycuda", "cuplug.interop.torch", "cuplug.as_torch"])
@pytest.mark.parametrize("words", [["none.py"], ["-m", "none"]])
def test_a_program_that_is_not_there_is_one_line(tmp_path: Path, door: str, words: list[str]) -> None:
    done = run("-m", door, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"python -m {door}: there is no ")


def test_what_python_would_run_is_not_called_missing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.touch()
    assert what_is_missing(str(script), module=False) == ""
    assert "there is no script" in what_is_missing(str(tmp_path), module=False)
    (tmp_path / "__main__.py").touch()
    assert what_is_missing(str(tmp_path), module=False) == ""
    assert what_is_missing("json.tool", module=True) == ""
    assert "there is no module" in what_is_missing("json.no_such", module=True)


@pytest.mark.parametrize("door", ["cuplug.interop.pycuda -d sim", "cuplug.tools.trace record --pycuda -d sim"])
def test_an_error_of_a_kernel_shows_the_programs_lines_and_no_frame_of_cuplugs(tmp_path: Path, door: str) -> None:
    (tmp_path / "beyond.py").write_text(OUT_OF_BOUNDS)
    done = run("-m", *door.split(), "beyond.py", cwd=tmp_path)
    if "CompileError" in done.stderr:
        pytest.skip("needs a C++ compiler")
    assert done.returncode == 1
    shown = done.stderr[done.stderr.index("Traceback") :].splitlines()
    assert [line.split(", ")[2] for line in shown if line.startswith("  File ")] == ["in <module>", "in step"]
    assert any("CUDA_ERROR_ILLEGAL_ADDRESS (700): kernel beyond" in line for line in shown)
    assert "direct cause" not in done.stderr


def test_an_error_that_is_not_cuplugs_keeps_its_frames(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("import json\ntry:\n    json.loads('{')\nfinally:\n    pass\n")
    done = run("-m", "cuplug.as_torch", "odd.py", cwd=tmp_path)
    assert done.returncode == 1
    assert 'odd.py", line 3, in <module>' in done.stderr
    assert "decoder.py" in done.stderr
    assert "runpy" not in done.stderr


def test_a_hook_of_the_programs_shows_its_errors(tmp_path: Path) -> None:
    (tmp_path / "hook.py").write_text(
        "import sys\nsys.excepthook = lambda *told: print('mine', told[1])\nraise ValueError('x')\n"
    )
    done = run("-m", "cuplug.as_torch", "hook.py", cwd=tmp_path)
    assert done.stdout == "mine x\n"
