"""Torch's paths below ``cuplug``: each leads to the one module, and what is missing says so."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import cuplug
import pytest
from cuplug.runtime.facade.public_paths import INNER_PATHS, PATHS

pytestmark = pytest.mark.one_schedule


@pytest.mark.parametrize("path", sorted({*PATHS, *INNER_PATHS, "interop", "interop.pycuda", "cuda"}))
def test_each_file_below_a_public_path_is_the_module_itself(path: str) -> None:
    package = importlib.import_module(f"cuplug.{path}")
    assert package.__name__.startswith("cuplug.runtime.")
    for found in pkgutil.iter_modules(getattr(package, "__path__", [])):
        if found.name != "__main__":
            try:
                inner = importlib.import_module(f"cuplug.{path}.{found.name}")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("cuplug"):
                    raise
                continue  # another library, which is not installed
            assert inner is sys.modules[f"{package.__name__}.{found.name}"]


def test_a_function_found_by_its_inner_path_is_the_one_that_counts() -> None:
    program = (
        "import cuplug\nfrom cuplug.autograd.grad_mode import no_grad\nx = cuplug.ones(2, requires_grad=True)\n"
        "with no_grad():\n    assert not (x * 2).requires_grad\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_a_path_that_does_not_exist_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"cuplug\.nn\.nowhere"):
        importlib.import_module("cuplug.nn.nowhere")


@pytest.mark.parametrize("path", sorted(path for path in PATHS if not path.startswith("cuda")))
def test_a_name_that_a_package_lacks_says_that_it_is_not_part_of_cuplug(path: str) -> None:
    module = importlib.import_module(f"cuplug.{path}")
    with pytest.raises(AttributeError, match=rf"{path}\.NoSuchName is not part of cuplug.*; use "):
        module.NoSuchName  # noqa: B018
    assert not hasattr(module, "__no_such_name__")


@pytest.mark.parametrize("name", ["hub", "profiler", "fft", "compile"])
def test_a_name_that_cuplug_lacks_says_that_it_is_not_part_of_it(name: str) -> None:
    with pytest.raises(AttributeError, match="is not part of cuplug"):
        getattr(cuplug, name)
