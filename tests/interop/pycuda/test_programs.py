"""Programs of PyCUDA's, as they are, in processes of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_sim

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "pycuda-programs.md"

PROGRAM = """
import sys
import numpy
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

values = numpy.ones(4, numpy.float32)
module = SourceModule("__global__ void triple(float *a) { a[threadIdx.x] *= 3; }")
module.get_function("triple")(cuda.InOut(values), block=(4, 1, 1))
print(values.sum(), pycuda.autoinit.device.name(), sys.argv[1:], __name__)
"""
EXPECTED = "12.0 cuplug simulated device ['--fast'] __main__"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def test_a_program_runs_on_the_simulator_as_it_is(program):
    done = run("-m", "cuplug.interop.pycuda", "-d", "sim:memory=1GiB", program, "--fast")
    assert done.stdout.strip() == EXPECTED, done.stderr


def test_its_allocations_are_recorded_under_its_name(program, tmp_path):
    trace = tmp_path / "run.cuplug"
    recorded = run("-m", "cuplug.tools.trace", "record", "--pycuda", "-d", "sim", "-o", str(trace), program, "--fast")
    assert recorded.stdout.strip() == EXPECTED, recorded.stderr
    summary = run("-m", "cuplug.tools.trace", "summary", "--by", "library", str(trace))
    assert "pycuda" in summary.stdout, summary.stderr


def test_installing_puts_the_stand_in_there_and_says_what_it_lacks(run_program):
    done = run_program(
        "import cuplug, cuplug.interop.pycuda as ours\n"
        "cuplug.init(driver='sim')\n"
        "ours.install()\n"
        "import pycuda\n"
        "print(pycuda.VERSION_TEXT)\n"
        "try:\n"
        "    import pycuda.gl\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert done.stdout.splitlines() == ["2024.1+cuplug", "cuplug's stand-in for PyCUDA has no module pycuda.gl"]


def test_cuplugs_allocator_and_pool_serve_the_stand_in_too(run_program):
    done = run_program(
        "import cuplug, cuplug.interop.pycuda as ours\n"
        "cuplug.init(driver='sim:devices=2')\n"
        "ours.install()\n"
        "import numpy, pycuda.driver as cuda\n"
        "from pycuda import gpuarray\n"
        "context = cuda.Device(1).make_context()\n"
        "pool = ours.DeviceMemoryPool()\n"
        "kept = gpuarray.to_gpu(numpy.arange(3.0), allocator=pool.allocate)\n"
        "more = gpuarray.to_gpu(numpy.arange(3.0), allocator=ours.allocator())\n"
        "print((kept + more).get(), pool.active_bytes, cuplug.cuda.memory_allocated(1))\n"
    )
    assert done.stdout.strip() == "[0. 2. 4.] 24 2048", done.stderr


def test_a_notebooks_first_cell_runs_again_also_after_a_fault_and_a_shutdown(run_program):
    done = run_program("""
def first_cell():
    import cuplug, cuplug.interop.pycuda
    cuplug.init(driver="sim")
    cuplug.interop.pycuda.install()
    import pycuda.autoinit

first_cell()
first_cell()
import cuplug, numpy, pycuda.driver as cuda
from pycuda.compiler import SourceModule
for end in (512, 1024, 512):
    memory, behind = cuda.mem_alloc(512), cuda.mem_alloc(512)
    write = SourceModule("__global__ void w(char *a, int end) { a[end - 1] = 7; }").get_function("w")
    write(memory, numpy.int32(end), block=(1, 1, 1))
    try:
        cuda.Context.synchronize()
        print("written")
    except cuda.LaunchError as error:
        print("no live allocation" in str(error))
    try:
        cuplug.shutdown()
    except cuplug.CuplugError as error:
        print(type(error).__name__)
    first_cell()
""")
    assert done.stdout.split() == ["written", "True", "DriverError", "written"], done.stderr


def test_without_an_installation_pycuda_is_what_python_finds(run_program):
    done = run_program(
        "import cuplug.interop.pycuda, importlib.util\n"
        "found = importlib.util.find_spec('pycuda')\n"
        "print(found is None or 'cuplug' not in (found.origin or ''))"
    )
    assert done.stdout.strip() == "True", done.stderr


def test_pycuda_that_was_imported_before_is_not_replaced(run_program):
    done = run_program(
        "import sys, types\n"
        "sys.modules['pycuda'] = types.ModuleType('pycuda')\n"
        "import cuplug, cuplug.interop.pycuda\n"
        "cuplug.init(driver='sim')\n"
        "cuplug.interop.pycuda.install()"
    )
    assert "PyCUDA was imported before cuplug could take its place" in done.stderr


def test_the_guides_program_prints_what_it_says(run_program):
    (program,) = re.findall(r'^```python title="reflect.py"\n(.*?)^```', GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    done = run_program(program)
    assert done.stdout.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", program, re.MULTILINE), done.stderr


def test_the_tutorials_program_fails_in_the_words_that_it_shows(tmp_path):
    text = (GUIDE.parents[1] / "tutorials" / "a-course-without-a-gpu.md").read_text()
    (program,) = re.findall(r'^```python title="faults.py"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    commands = re.findall(r"^\$ python (.*) faults.py$", text, re.MULTILINE)
    shown = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    path = tmp_path / "faults.py"
    for command, expected in zip(commands, shown, strict=True):
        path.write_text(program)
        done = run(*command.split(), str(path))
        assert done.stderr.splitlines()[-1] == " ".join(expected.split())
        program = "".join(line for line in program.splitlines(True) if "fault 2" not in line)


SCIKIT_CUDA = {
    "__init__.py": "",
    "linalg.py": (
        "from pycuda.reduction import ReductionKernel\n"
        "from . import cublas, cudart, cusolver, misc\n"
        "def dot(x, y):\n"
        "    return cublas.cublasSdot(1, x.size, x.gpudata, 1, y.gpudata, 1)\n"
        "def axpy(x, y):\n"
        "    return cublas.cublasSaxpy(1, x.size, 1.0, x.gpudata, 1, y.gpudata, 1)\n"
    ),
    "misc.py": "from . import cuda, cublas, cusolver\ndef init():\n    return cublas.cublasCreate()\n",
    "fft.py": "from .cufft import CUFFT_COMPATIBILITY_NATIVE, CUFFT_FORWARD\nfrom . import cufft\n",
}


def test_what_calls_cudas_own_libraries_imports_and_is_refused_by_name(run_program, tmp_path):
    """As scikit-cuda does; and it asks for PyCUDA's version."""
    (tmp_path / "skcuda").mkdir()
    for name, text in SCIKIT_CUDA.items():
        (tmp_path / "skcuda" / name).write_text(text)
    done = run_program(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import cuplug, cuplug.interop.pycuda as ours\n"
        "cuplug.init(driver='sim')\n"
        "ours.install()\n"
        "import importlib.metadata, pycuda, pycuda.autoinit, numpy\n"
        "from pycuda import gpuarray\n"
        "from skcuda import linalg, misc, fft\n"
        "print(importlib.metadata.version('pycuda') == pycuda.VERSION_TEXT, misc.init(), fft.CUFFT_FORWARD)\n"
        "x = gpuarray.to_gpu(numpy.ones(4, numpy.float32))\n"
        "print(linalg.dot(x, 3 * x))\n"
        "for call in (lambda: linalg.axpy(x, x), fft.cufft.cufftPlanMany):\n"
        "    try:\n"
        "        call()\n"
        "    except NotImplementedError as error:\n"
        "        print(str(error).partition(':')[0])\n"
    )
    assert done.stdout.splitlines() == [
        "True 1 -1",
        "12.0",
        "skcuda.cublas.cublasSaxpy calls cuBLAS, which the simulator has not",
        "skcuda.cufft.cufftPlanMany calls cuFFT, which the simulator has not",
    ], done.stderr


PRODUCTS = """
import cuplug, cuplug.interop.pycuda as ours
cuplug.init(driver='sim')
ours.install()
import numpy as np, pycuda.autoinit
from pycuda import gpuarray
from cuplug.runtime.interop.pycuda.stand_in.cuda_libraries import library
blas = library('skcuda.cublas')
rng = np.random.default_rng(0)
right = []
for letter, kind in zip('SDCZ', 'fdFD'):
    for ways in ('nn', 'nt', 'tn', 'ct'):
        m, n, k = 3, 4, 5
        # cuBLAS's columns are rows here
        shapes = [(k, m) if ways[0] == 'n' else (m, k), (n, k) if ways[1] == 'n' else (k, n), (n, m)]
        a, b, c = ((rng.random(shape) + 1j * rng.random(shape) * (letter in 'CZ')).astype(kind) for shape in shapes)
        there = [gpuarray.to_gpu(each) for each in (a, b, c)]
        getattr(blas, f'cublas{letter}gemm')(
            1, *ways, m, n, k, 2.0, there[0].gpudata, a.shape[1], there[1].gpudata, b.shape[1], 0.5, there[2].gpudata, m
        )
        turned = {'n': lambda x: x.T, 't': lambda x: x, 'c': lambda x: x.conj()}  # from rows to cuBLAS's columns
        expected = 2 * turned[ways[0]](a) @ turned[ways[1]](b) + 0.5 * c.T
        right.append(np.allclose(there[2].get().T, expected, rtol=1e-5))
print(all(right), len(right))
"""


def test_products_of_matrices_are_what_cublas_gives(run_program):
    done = run_program(PRODUCTS)
    assert done.stdout.strip() == "True 16", done.stderr
