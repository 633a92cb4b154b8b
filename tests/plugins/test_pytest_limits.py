"""What pytest's plugin says of tests that take device memory; each run is a pytest of its own, on the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

TESTS = """
import pytest, cuplug
from cuplug import cuda

MIB = 1 << 20
kept = []

@pytest.fixture
def before():
    return cuda.alloc(64 * MIB)

@pytest.mark.limit_device_memory("8 MiB")
def test_within(before):
    for _ in range(4):
        cuda.alloc(6 * MIB)

@pytest.mark.limit_device_memory("8 MiB")
def test_above():
    first = cuda.alloc(6 * MIB)
    second = cuda.alloc(6 * MIB)

@pytest.mark.limit_leaks
def test_frees_all():
    circle = [cuda.alloc(MIB)]
    circle.append(circle)

@pytest.mark.limit_leaks("1 MiB")
def test_keeps():
    kept.append(cuda.alloc(3 * MIB))

def test_fixture(device_memory_use):
    block = cuda.alloc(2 * MIB)
    assert device_memory_use.peak() == {0: 2 * MIB}
    (site,) = device_memory_use.leaks()
    assert (site.blocks, site.nbytes, site.stack[0].function) == (1, 2 * MIB, "test_fixture")
    del block
    assert device_memory_use.leaks() == []
    assert device_memory_use.peak() == {0: 2 * MIB}

def test_unmeasured():
    cuda.alloc(MIB)
"""


def run(folder: Path, *words: str, text: str = TESTS, native: str = "0") -> tuple[int, str]:
    (folder / "test_it.py").write_text(text)
    environment = {
        **os.environ, "CUPLUG_DRIVER": "sim", "CUPLUG_NATIVE": native, "PYTHONPATH": str(ROOT), "COLUMNS": "120",
        "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": "",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-p", "cuplug_pytest", "-p", "no:cacheprovider", "-q", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("native", ["0", "1"])
def test_limits_fail_those_tests_that_are_above_them_and_name_the_line(tmp_path: Path, native: str) -> None:
    status, told = run(tmp_path, "--cuplug", native=native)
    assert status == 1, told
    assert "2 failed, 4 passed" in told
    assert "12582912 bytes of device 0 were held at once; the limit is 8388608 bytes (8.00 MiB)" in told
    assert "6.00 MiB in 1 blocks: test_above (" in told
    assert "3145728 bytes of device memory were not freed; the limit is 1048576 bytes" in told
    assert "3.00 MiB in 1 blocks: test_keeps (" in told
    summary = told.partition("device memory (cuplug)")[2]
    assert summary.index("test_above") < summary.index("test_within") < summary.index("test_keeps")
    assert "12.00 MiB             -  test_it.py::test_above" in summary
    assert "3.00 MiB      3.00 MiB  test_it.py::test_keeps" in summary


def test_without_its_markers_and_options_nothing_of_cuplug_is_imported(tmp_path: Path) -> None:
    status, told = run(tmp_path, text="import sys\ndef test_it(): assert 'cuplug' not in sys.modules")
    assert status == 0, told


def test_a_wrong_size_is_said_before_anything_runs(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.limit_device_memory('much')\ndef test_it(): pass"
    status, told = run(tmp_path, text=text)
    assert status == 4, told
    assert "limit_device_memory takes one size, such as '2 GiB': 'much' is not a size" in told


def test_a_run_that_takes_no_device_memory_says_so(tmp_path: Path) -> None:
    status, told = run(tmp_path, "--cuplug", text="def test_it(): pass")
    assert status == 0, told
    assert "No test has taken device memory from cuplug." in told


def test_where_the_runtime_was_there_before_the_tests_were_collected_limits_fail_instead_of_measuring_nothing(
    tmp_path: Path,
) -> None:
    text = TESTS.replace("kept = []", "kept = []; cuplug.init()")
    status, told = run(tmp_path, "-k", "within or above or unmeasured", text=text)
    assert status == 1
    assert "2 failed, 1 passed" in told
    assert "start it in a fixture, not while conftest.py or a module of tests is imported" in told
