"""What the environment says wrongly: one error each, which names the variable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.one_schedule

PROGRAM = """
import cuplug
from cuplug.runtime.kernels.source_module import SourceModule
from cuplug.runtime.kernels.compile.gpu_compiler import compile_for_gpu
cuplug.init(driver="sim")
x = cuplug.ones(3, device="cuda")
SourceModule("__global__ void twice(float *a) { a[threadIdx.x] *= 2; }").get_function("twice")(x, block=(3, 1, 1))
cuplug.cuda.synchronize()
try:
    compile_for_gpu("__global__ void f() {}", arch="sm_90")
except cuplug.CompileError:
    pass  # there may be no compiler for GPUs here
"""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUPLUG_NATIVE", "maybe"),
        ("CUPLUG_SIM_THREADS", "-5"),
        ("CUPLUG_SIM_THREADS", "65"),
        ("CUPLUG_SIM_THREADS", "many"),
        ("CUPLUG_CACHE_SIZE", "plenty"),
        ("CUPLUG_COMPILER", "gcc"),
        ("CUPLUG_TRACE_STACKS", "deep"),
        ("CUDA_LAUNCH_BLOCKING", "yes"),
        ("CXX", "/bin/true"),
        ("CXX", "/bin/false"),
        ("CXX", "no-such-compiler"),
    ],
)
def test_a_variable_that_cannot_be_used_is_one_error_that_names_it(tmp_path: object, name: str, value: str) -> None:
    trace = {"CUPLUG_TRACE": f"{tmp_path}/trace.cuplug"} if name == "CUPLUG_TRACE_STACKS" else {}
    environment = {**os.environ, "CUPLUG_CACHE_DIR": str(tmp_path), **trace, name: value}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    last = done.stderr.strip().rpartition("\n")[2]
    assert done.returncode == 1
    assert last.startswith("cuplug.allocators.errors."), done.stderr
    assert name in last
    assert value in last


IN_ANOTHER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
try:
    print(interpreters.run_string(interpreters.create(), "import cuplug"))
except Exception as error:  # until Python 3.12 an error of the other interpreter is raised here
    print(error)
"""


@pytest.mark.parametrize("native", ["0", "1"])
def test_a_subinterpreter_gets_one_clear_error_at_the_import(native: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER],
        env={**os.environ, "CUPLUG_NATIVE": native},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "works in the main interpreter of a process only" in done.stdout, done.stdout + done.stderr
