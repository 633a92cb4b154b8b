from __future__ import annotations

import configparser
import subprocess
import sys
from pathlib import Path

import cuplug
import pytest
from cuplug.allocators import core_choice

pytestmark = pytest.mark.one_schedule


def _imported(program: str) -> set[str]:
    program += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    return set(done.stdout.split())


def test_a_core_that_was_not_built_is_told_from_one_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("undefined symbol")

    monkeypatch.delenv("CUPLUG_NATIVE", raising=False)
    monkeypatch.setitem(sys.modules, "cuplug.allocators._native", None)  # an import of it finds no module
    assert str(core_choice._find_problem()).startswith("it was not built")
    monkeypatch.setattr(core_choice, "import_module", broken)
    assert core_choice._find_problem() == "it cannot be loaded: undefined symbol"


FLOORS = ("cuplug.runtime.tensor", "cuplug.runtime.kernels")


def test_importing_the_package_imports_no_driver_no_plugin_and_no_tool() -> None:
    imported = _imported("import cuplug")
    for name in ("pycuda", "cuda", "typer", "rich", "pyarrow", "pluggy", "pytest", "hypothesis", "torch"):
        assert name not in imported, name
    for name in (
        "cuplug.plugins.manager",
        "cuplug.runtime.drivers.sim",
        "cuplug.runtime.drivers.cuda",
        "cuplug.runtime.interop.pycuda.stand_in",
        "cuplug.tools",
        *FLOORS,
    ):
        assert name not in imported, name


def test_importing_the_package_imports_at_most_ninety_two_of_its_modules() -> None:
    own = {name for name in _imported("import cuplug") if name.partition(".")[0] == "cuplug"}
    assert len(own) <= 92, sorted(own)


def test_what_puts_cuplug_under_other_libraries_and_names_ranges_is_imported_at_first_use() -> None:
    later = {"cuplug.runtime.interop", "cuplug.runtime.facade.nvtx"}
    assert not later & _imported("import cuplug")
    assert later <= _imported("import cuplug; cuplug.interop.cupy.check; cuplug.cuda.nvtx.mark")


def test_tensors_import_what_computes_gradients_once_one_requires_them() -> None:
    plain = _imported("import cuplug; x = cuplug.ones(3) * 2; x.sum().item(); x[0] = 1")
    assert "cuplug.runtime.tensor.methods" in plain
    assert not [name for name in plain if name.startswith("cuplug.runtime.autograd")]
    program = "import cuplug; x = cuplug.ones(3, requires_grad=True); (x * 2).sum().backward(); assert x.grad[0] == 2"
    assert "cuplug.runtime.autograd.backward_pass" in _imported(program)


def test_the_facade_can_be_imported_by_its_short_name() -> None:
    assert "cuplug.cuda" in _imported("import cuplug.cuda as cuda; assert cuda.alloc; from cuplug.cuda import Stream")


def test_every_public_name_exists_and_is_documented() -> None:
    for module in (cuplug, cuplug.cuda):
        assert sorted(module.__all__) == list(module.__all__) or module is cuplug
        for name in module.__all__:
            found = getattr(module, name)
            assert name == "__version__" or found.__doc__, name


def test_the_version_is_the_distributions() -> None:
    settings = configparser.ConfigParser()
    settings.read(Path(cuplug.__file__).with_name("setup.cfg"))
    if "metadata" in settings:  # not in an installed copy
        assert settings["metadata"]["version"] == "attr: cuplug.__version__"
