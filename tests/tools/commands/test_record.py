"""``cuplug-trace record``: programs run as they would by themselves, and leave a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.allocators.events import EventKind
from cuplug.plugins.tracing.reader import read_trace
from cuplug.tools import trace as door
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.replaying.driver_choice import choose_driver

PROGRAM = """
import sys
import threading
import cuplug

def work():
    return [cuplug.cuda.alloc(1000 * number) for number in range(1, 11)]

held = work()
thread = threading.Thread(target=work)
thread.start()
print("ran", __name__, sys.argv[1:])
if "raise" in sys.argv:
    raise ValueError("the program's own error")
if "exit" in sys.argv:
    sys.exit(7)
if "say" in sys.argv:
    sys.exit("goodbye")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def record(*words: object, cwd: Path, door_only: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the real command, in a process of its own."""
    run = [sys.executable, door.__file__] if door_only else [sys.executable, "-m", "cuplug.tools.trace"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    return subprocess.run(
        [*run, "record", *map(str, words)], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )


def test_a_script_is_recorded_with_the_allocator_and_driver_asked_for(program: Path, tmp_path: Path) -> None:
    words = ("--allocator", "bump:chunk_size=1MiB", "--driver", "sim:memory=1GiB", "--stacks", "python")
    done = record(*words, "-o", "out.cuplug", program, "one", "--two", cwd=tmp_path, door_only=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran __main__ ['one', '--two']\n"
    trace = read_trace(tmp_path / "out.cuplug")
    assert f"{len(trace.events)} events recorded in out.cuplug" in done.stderr
    assert trace.complete
    assert trace.header.driver == "sim:memory=1GiB"
    assert trace.header.allocators == {0: "bump:chunk_size=1MiB"}
    assert trace.header.devices[0]["total_memory"] == 1 << 30
    assert trace.header.argv == [str(program), "one", "--two"]
    allocations = trace.events[trace.events["kind"] == EventKind.ALLOCATE]
    assert sorted(allocations["requested"].tolist()) == sorted([*range(1000, 11_000, 1000)] * 2)
    assert trace.stack(allocations["context"][0])[0].filename == str(program)
    device = summarize(trace).devices[0]
    assert (device.frees, device.live_blocks) == (10, 10)  # what it still holds at its end counts as live


def test_a_module_is_run_as_python_does(program: Path, tmp_path: Path) -> None:
    done = record("-d", "sim", "-o", "t.{pid}.cuplug", "-m", "program", "x", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran __main__ ['x']\n"
    assert len(list(tmp_path.glob("t.*.cuplug"))) == 1


@pytest.mark.parametrize(("word", "status", "says"), [("exit", 7, ""), ("say", 1, "goodbye\n"), ("raise", 1, "")])
def test_the_programs_exit_status_is_passed_on_and_its_trace_kept(
    program: Path, tmp_path: Path, word: str, status: int, says: str
) -> None:
    done = record("-d", "sim", program, word, cwd=tmp_path)
    assert done.returncode == status
    assert says in done.stderr
    assert read_trace(tmp_path / "trace.cuplug").complete
    if word == "raise":
        lines = done.stderr.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert str(program) in lines[1]  # no frame of the tool's before it
        assert "ValueError: the program's own error" in lines


def test_without_a_gpu_the_simulator_is_used_and_that_is_said(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "hide.py"
    script.write_text("import cuplug; print(cuplug.default_runtime().driver.name); cuplug.cuda.alloc(5)")
    done = record(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if done.stdout == "sim\n":
        assert "using the simulator" in done.stderr
    else:
        assert "simulator" not in done.stderr


def test_a_program_that_never_uses_cuplug_leaves_no_trace_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print('idle')")
    done = record("-d", "sim", "idle.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "did not use cuplug" in done.stderr
    assert "--" not in done.stderr
    assert not (tmp_path / "trace.cuplug").exists()


def test_a_program_of_another_librarys_is_told_the_option_with_which_it_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("")
    (tmp_path / "train.py").write_text("import numba")
    done = record("-d", "sim", "train.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "no trace was written. For the memory of a library that it imported, add --numba." in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-a", "nothing", "{program}"], "no installed plugin contributes the allocator 'nothing'"),
        (["-a", "bump:colour=red", "{program}"], "has no option 'colour'"),
        (["-a", "bump:chunk_size=big", "{program}"], "big"),
        (["-d", "abacus", "{program}"], "the driver 'abacus'"),
        (["-d", "sim:wheels=4", "{program}"], "has no option 'wheels'"),
        (["--stacks", "perl", "{program}"], "none, python, python:DEPTH with 1 to 999 levels, or modules"),
        (["nothing.py"], "no script nothing.py"),
        (["-m", "no.such.module"], "no module no.such.module"),
        (["-o", "/nowhere/t.cuplug", "{program}"], "no directory /nowhere"),
        (["-o", "{program}", "{program}"], "exists and is not a trace"),
        (["-o", "/", "{program}"], "is a directory"),
        ([], "SCRIPT"),
    ],
)
def test_wrong_words_give_one_line_and_run_nothing(
    refused: Callable[..., str], program: Path, words: list[str], says: str
) -> None:
    assert says in refused("record", *(word.format(program=program) for word in words))


def test_a_trace_has_the_name_that_was_asked_for_however_often_a_runtime_was_set_up(tmp_path: Path) -> None:
    script = tmp_path / "pycuda_program.py"
    script.write_text("import pycuda.driver as cuda, pycuda.autoinit; held = cuda.mem_alloc(1000)")
    done = record("--pycuda", "-d", "sim", "-o", "out.cuplug", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.glob("out*")] == ["out.cuplug"]
    assert "recorded in out.cuplug" in done.stderr


def test_pycuda_falls_back_to_the_simulator_where_nothing_else_is_there_and_other_libraries_do_not() -> None:
    driver, remark = choose_driver(None, ["pycuda"])
    assert (driver == "cuda" and not remark) or (driver == "sim" and "using the simulator" in remark)
    assert "CUDA_ERROR" not in remark  # why no GPU can be used, and not how CUDA numbers that
    assert choose_driver(None, ["pycuda", "torch"]) == ("cuda", "")
    assert choose_driver("sim", ["cupy"]) == ("sim", "")
