"""How a user's program is run: what is missing is one line, and errors show the program's own lines."""

from __future__ import annotations

import os
import pickle
import py_compile
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
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


def test_a_program_knows_its_folder_also_after_it_has_left_it(tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text("import os; os.chdir('/'); print(__file__)")
    assert run("-m", "cuplug.as_torch", "where.py", cwd=tmp_path).stdout.strip() == str(tmp_path / "where.py")


def test_a_trace_in_place_of_a_program_is_told_from_what_python_runs(tmp_path: Path) -> None:
    snapshot, source, compiled, archive = (tmp_path / name for name in ("snap.pickle", "a.py", "a.pyc", "a.pyz"))
    snapshot.write_bytes(pickle.dumps({"segments": []}))
    assert f"{snapshot} is no Python program" in what_is_missing(str(snapshot), module=False)
    source.write_text("print('ran')")
    py_compile.compile(str(source), str(compiled))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", source.read_bytes())
    for each in (source, compiled, archive):
        assert what_is_missing(str(each), module=False) == ""
        done = subprocess.run([sys.executable, str(each)], capture_output=True, text=True, check=True, timeout=300)
        assert done.stdout == "ran\n"


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


BEYOND = OUT_OF_BOUNDS[: OUT_OF_BOUNDS.index("def step")]
SCRIPT = "import cuplug, cuplug.interop.pycuda as door\ncuplug.init(driver='sim')\ndoor.install()\n"
DOORS = ["-m cuplug.interop.pycuda -d sim", "", "-m cuplug.tools.trace run --pycuda -d sim"]


@pytest.mark.parametrize("door", DOORS)
def test_a_failure_that_the_program_does_not_wait_for_is_told_at_its_end(tmp_path: Path, door: str) -> None:
    program = SCRIPT * (not door) + BEYOND + "beyond(cuda.mem_alloc(128), block=(32, 1, 1))\n"
    (tmp_path / "silent.py").write_text(program + "kept = open('kept', 'w')\nkept.write('all')\nprint('the end')\n")
    done = run(*door.split(), "silent.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "the end\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "cuplug: work failed that the program did not wait for: CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS"
    )
    assert "kernel beyond, block (0, 0, 0), thread (0, 0, 0) writes" in line
    assert (tmp_path / "kept").read_text() == "all"  # what closes late is not lost


@pytest.mark.parametrize(("last", "status"), [("", 0), ("sys.exit(3)", 3)])
def test_a_failure_that_the_program_knows_is_not_told_again(tmp_path: Path, last: str, status: int) -> None:
    (tmp_path / "knows.py").write_text(
        f"import sys\n{BEYOND}beyond(cuda.mem_alloc(128), block=(32, 1, 1))\ntry:\n    cuda.Context.synchronize()\n"
        f"except cuda.LaunchError as error:\n    print(type(error))\n{last}\n"
    )
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim", "knows.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "<class 'pycuda.driver.LaunchError'>\n", "")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("beyond(3, block=(1, 1, 1))", "TypeError: invalid type on parameter #0"),
        ("beyond(block=(1, 1, 1))", "TypeError: kernel beyond takes 1 arguments (a); it got 0"),
        ("beyond(cuda.mem_alloc(4))", "ValueError: must specify block size"),
        (
            "freed = cuda.mem_alloc(4); freed.free(); beyond(freed, block=(1, 1, 1))",
            "pycuda.driver.LogicError: argument 0 of kernel beyond, 'a': this memory was freed",
        ),
    ],
)
def test_a_wrong_launch_is_told_in_one_frame(tmp_path: Path, call: str, error: str) -> None:
    (tmp_path / "wrong.py").write_text(f"{BEYOND}{call}\n")
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim", "wrong.py", cwd=tmp_path)
    assert done.stderr.count("  File ") == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(error)


def test_an_interrupted_kernel_is_told_by_its_line_under_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "spins.py").write_text(
        BEYOND.replace("a[threadIdx.x + 1000] = 1;", "a[0] = 1;\\n while (*(volatile float *)a == 1) ;")
        + "import os, signal, threading\nmemory = cuda.to_device(numpy.zeros(1))\nseen = memory.as_buffer(4)\n"
        "def interrupt():\n    while not any(seen): os.sched_yield()  # until the kernel runs\n"
        "    os.kill(os.getpid(), signal.SIGINT)\nthreading.Thread(target=interrupt).start()\n"
        "beyond(memory, block=(1, 1, 1))\ncuda.Context.synchronize()\n"
    )
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim", "spins.py", cwd=tmp_path)
    assert "/runtime/" not in done.stderr
    assert "kernel beyond was ended by an interrupt; block (0, 0, 0), thread (0, 0, 0) stands in line 2" in done.stderr


@pytest.mark.parametrize("door", ["cuplug.interop.pycuda", "cuplug.as_torch"])
def test_options_behind_the_program_are_pointed_out(tmp_path: Path, door: str) -> None:
    (tmp_path / "words.py").write_text("import sys\nprint(sys.argv[1:])\n")
    done = run("-m", door, "-d", "sim", "words.py", "--driver=sim:check=races", "-x", cwd=tmp_path)
    assert done.stdout == "['--driver=sim:check=races', '-x']\n"
    (line,) = done.stderr.splitlines()
    assert "--driver=sim:check=races stands behind the program" in line


def test_the_drivers_options_are_listed_where_help_is_asked_for(tmp_path: Path) -> None:
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim:help", cwd=tmp_path)
    assert re.search(r"^  check +str: what kernels are checked for: accesses, races", done.stderr, re.MULTILINE)
    shown = " ".join(run("-m", "cuplug.interop.pycuda", "--help", cwd=tmp_path).stdout.split())
    assert all(word in shown for word in ("check=races", "timeout=", "sim:help"))


def test_a_program_that_wants_pycuda_where_there_is_none_hears_how_to_run_it(tmp_path: Path) -> None:
    if find_spec("pycuda"):
        pytest.skip("needs a machine without PyCUDA")
    (tmp_path / "wants.py").write_text(BEYOND)
    done = run("-m", "cuplug.tools.trace", "run", "-d", "sim", "wants.py", cwd=tmp_path)
    assert "python -m cuplug.interop.pycuda PROGRAM" in done.stderr
    (tmp_path / "late.py").write_text("import cuplug.interop.pycuda as door\ndoor.install()\n")
    assert 'without a GPU, cuplug.init(driver="sim") first' in run("late.py", cwd=tmp_path).stderr


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


def test_an_error_that_ends_a_thread_shows_the_programs_frames(tmp_path: Path) -> None:
    program = "import threading\nimport pycuda.autoinit\nimport pycuda.driver as cuda\n"
    program += "threading.Thread(target=lambda: cuda.mem_alloc(8), name='worker').start()\n"
    (tmp_path / "threads.py").write_text(program)
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim", "threads.py", cwd=tmp_path)
    assert done.stderr.startswith("Exception in thread worker:")
    assert 'threads.py", line 4' in done.stderr
    assert "driver_errors.py" not in done.stderr
    assert "pycuda.driver.LogicError: invalid device context" in done.stderr.splitlines()[-1]
