"""What is installed is the whole package: sources, headers, stubs, pages, data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("allocators", "plugins", "runtime", "tools")
MADE = {".pyc", ".so", ".o"}
"""Made by compilers, and not from here."""


BESIDE = {"cuplug_torch.py", "cuplug_pytest.py"}
"""Modules of their own, which are installed beside the package."""


def files(root: Path) -> set[str]:
    beside = [path for path in root.iterdir() if path.suffix in (".py", ".pyi", ".typed")]
    beside = [path for path in beside if path.name not in {"setup.py", *BESIDE}]
    beside += [path for path in root.glob("*/*.pyi") if (path.parent / "__init__.pyi").exists()]
    below = [path for floor in FLOORS for path in (root / floor).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)) for path in (*beside, *below) if path.suffix not in MADE}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(folder), "build_py"]
    without_compiler = {**os.environ, "CUPLUG_BUILD_NATIVE": "0"}  # which would take minutes, for no file that counts
    subprocess.run(command, cwd=ROOT, env=without_compiler, check=True, capture_output=True, timeout=300)
    (package,) = folder.glob("lib*/cuplug")
    assert {path.name for path in package.parent.iterdir() if path.is_file()} == {*BESIDE, "cuplug_as_torch.pth"}
    return package.parent


@pytest.fixture(scope="module")
def installed(built):
    return files(built / "cuplug")


def test_every_file_of_the_package_is_installed(installed):
    assert files(ROOT) - installed == set()


def test_nothing_else_is(installed):
    assert installed - files(ROOT) == set()


def test_what_is_installed_takes_torchs_name_where_the_environment_says_so(built):
    program = f"import site; site.addsitedir({str(built)!r}); import torch; print(torch.__name__, torch.nn.__name__)"

    def run(**settings):
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CUPLUG_AS_TORCH")}
        return subprocess.run(
            [sys.executable, "-c", program], env={**clean, **settings}, capture_output=True, text=True, timeout=300
        )

    done = run(CUPLUG_AS_TORCH="1")
    assert done.stdout == "cuplug cuplug.runtime.nn\n", done.stderr
    for settings in ({}, {"CUPLUG_AS_TORCH": "0"}):
        assert "cuplug.runtime" not in run(**settings).stdout


def test_it_is_more_than_sources(installed):
    for name in (
        "py.typed",
        "cuda/__init__.pyi",
        "utils/data.pyi",
        "allocators/native/cuplug_allocator.h",
        "runtime/tensor/core/tensor.pyi",
        "tools/data/report.html",
    ):
        assert name in installed
    assert any(name.startswith("runtime/kernels/simulator/headers/include/cuda/std/") for name in installed)
