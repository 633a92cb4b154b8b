"""An import never runs up: the contracts of ``pyproject.toml`` hold, and fail where somebody breaks one."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("importlinter") is None, reason="needs import-linter: pip install '.[dev]'")

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site", "tests", "docs", "data")


class Copy:
    """A copy of the package, in a folder that is found before the installed one."""

    def __init__(self, root: Path) -> None:
        self.root = root / "cuplug"
        shutil.copytree(ROOT, self.root, ignore=LEFT_OUT)

    def plant(self, file: str, code: str) -> None:
        path = self.root / file
        path.write_text(path.read_text() + code)

    def lint(self) -> subprocess.CompletedProcess[str]:
        program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root.parent), "PYTHONSAFEPATH": "1", "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path)


def test_every_contract_holds(copy):
    done = copy.lint()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "code", "broken"),
    [
        (
            "allocators/sizes.py",
            "\nfrom ..plugins import manager\n",
            "cuplug.allocators.sizes -> cuplug.plugins.manager",
        ),
        (
            "allocators/sizes.py",
            "\ndef later():\n    from ..runtime.machine.runtime import Runtime\n    return Runtime\n",
            "cuplug.allocators.sizes -> cuplug.runtime.machine.runtime",
        ),
        (
            "runtime/drivers/device_upstream.py",
            "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ...plugins.manager import PluginManager\n",
            "cuplug.runtime.drivers.device_upstream -> cuplug.plugins.manager",
        ),
        (
            "runtime/kernels/source_module.py",
            "\ndef later():\n    from ..tensor import methods\n    return methods\n",
            "cuplug.runtime.kernels.source_module -> cuplug.runtime.tensor.methods",
        ),
        (
            "runtime/machine/process.py",
            "\nfrom ..memory import pinned\n",
            "cuplug.runtime.machine.process -> cuplug.runtime.memory.pinned",
        ),
        (
            "runtime/machine/leases.py",
            "\ndef later():\n    from .runtime import Runtime\n    return Runtime\n",
            "cuplug.runtime.machine.leases -> cuplug.runtime.machine.runtime",
        ),
        (
            "runtime/memory/pinned.py",
            "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .copies import memcpy\n",
            "cuplug.runtime.memory.pinned -> cuplug.runtime.memory.copies",
        ),
        (
            "runtime/memory/memory_stats.py",
            "\nfrom ..facade import management\n",
            "cuplug.runtime.memory.memory_stats -> cuplug.runtime.facade.management",
        ),
        (
            "runtime/facade/nvtx.py",
            "\nfrom . import profiler\n",
            "cuplug.runtime.facade.nvtx -> cuplug.runtime.facade.profiler",
        ),
        ("allocators/sizes.py", "\nimport numpy\n", "cuplug.allocators.sizes -> numpy"),
    ],
    ids=[
        "at the top",
        "in a function",
        "for an annotation",
        "within the runtime",
        "out of the machine",
        "within the machine",
        "within memory",
        "out of memory",
        "within the face",
        "of a library",
    ],
)
def test_an_import_that_runs_up_breaks_a_contract(copy, file, code, broken):
    copy.plant(file, code)
    done = copy.lint()
    assert done.returncode == 1, done.stdout + done.stderr
    assert broken in done.stdout


def test_every_file_of_the_runtime_has_its_storey():
    assert {path.name for path in (ROOT / "runtime").glob("*.py")} == {"__init__.py", "cuda.py"}
    stated = (ROOT / "pyproject.toml").read_text()
    rooms = {path.parent.name for path in (ROOT / "runtime").glob("*/__init__.py")}
    assert not [name for name in sorted(rooms) if f'"cuplug.runtime.{name}"' not in stated.replace(" | ", '" "')]


def test_only_tools_import_the_package_itself():
    import grimp

    graph = grimp.build_graph("cuplug", cache_dir=None)
    importers = graph.find_modules_that_directly_import("cuplug")
    # The package names its stubs to type checkers, which to the graph are itself.
    assert not [name for name in sorted(importers - {"cuplug"}) if not name.startswith("cuplug.tools.")]


def test_a_circle_breaks_a_contract(copy):
    copy.plant(
        "runtime/streams/stream.py", "\ndef later():\n    from ..memory.copies import memcpy\n    return memcpy\n"
    )
    done = copy.lint()
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No circles between the parts of a folder BROKEN" in done.stdout


# --- the tests' folders ----------------------------------------------------------------------------------------------

_HISTORIES = {"tools.foreign.load", *(f"tools.replaying.{name}" for name in ("perturbed", "program", "replayer"))}
"""What reads recorded histories of real programs, changes them, and replays them."""
_ABOVE: dict[str, tuple[str, set[str]]] = {
    "allocators": ("plugins.manager|plugins.bundled|runtime|tools", {*_HISTORIES, "runtime.drivers"}),
    "native": ("tools", _HISTORIES),
    "drivers": ("plugins.manager|plugins.bundled|runtime|tools", {"runtime.drivers"}),
    "plugins": ("runtime|tools", {*_HISTORIES, "tools.analysis.summarize"}),
    "conformance": ("runtime|tools", {"runtime.drivers"}),
    "runtime": ("runtime.kernels|runtime.tensor|tools", set()),
    "kernels": ("runtime.tensor|tools", set()),
    "tensor": ("runtime.autograd|tools", {"tools.benchmarks"}),
    "interop": ("tools", set()),
    "training": ("tools", {"tools.benchmarks.networks"}),
}
"""By the folder of tests: the floors above what it tests, and what of them its tests may use all the same."""


def _runs_up(folder: str, source: str) -> list[str]:
    """The modules of floors above that a test in ``folder`` imports."""
    above, allowed = _ABOVE[folder]
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("cuplug."):
            names = [(node.module or "").removeprefix("cuplug.")]
        elif isinstance(node, ast.Import):
            names = [each.name.removeprefix("cuplug.") for each in node.names if each.name.startswith("cuplug.")]
        else:
            continue
        for name in names:
            if re.match(rf"({above})(\.|$)", name) and not any(f"{name}.".startswith(f"{each}.") for each in allowed):
                found.append(name)
    return found


def test_the_tests_of_a_floor_import_from_no_floor_above():
    found = {
        str(path.relative_to(ROOT)): up
        for folder in _ABOVE
        for path in (ROOT / "tests" / folder).rglob("*.py")
        if (up := _runs_up(folder, path.read_text()))
    }
    assert not found


def test_every_folder_of_tests_has_its_floor_or_may_use_all():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - set(_ABOVE) == {"data", "docs", "house", "tools", "typing"}


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        ("allocators", "from cuplug.runtime.machine.runtime import Runtime"),
        ("runtime", "def test():\n    import cuplug.runtime.tensor"),
        ("kernels", "from cuplug.tools.foreign.load import load"),
    ],
)
def test_a_test_that_reaches_up_is_found(folder, source):
    assert _runs_up(folder, source)
