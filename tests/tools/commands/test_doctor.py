"""``doctor``: what this machine has, and what to do about the rest."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cuplug.tools.analysis.checkup import Check
from cuplug.tools.reporters.checkup_text import print_checkup
from rich.console import Console

from ..conftest import Command

NAMES = {"Python", "settings", "plugins", "native core", "simulator", "C++ compiler", "cache folder", "CUDA driver"}
NAMES |= {"GPUs", "PyCUDA", "NVRTC", "nvcc", "PyTorch", "CuPy", "Numba", "RMM"}

_INDENT = len("absent  ") + max(map(len, NAMES)) + 2  # where what was found begins


@pytest.fixture
def doctor(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs the command; gives its exit status and its checks by name."""
    for name in ("CUPLUG_ALLOCATOR", "CUPLUG_DRIVER", "CUPLUG_CACHE_SIZE", "CUDA_LAUNCH_BLOCKING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(tmp_path))

    def run() -> tuple[int, dict[str, Any]]:
        result = command("doctor", "--json")
        return result.exit_code, {check["name"]: check for check in json.loads(result.stdout)}

    return run


def test_everything_is_looked_at_and_each_line_is_fine_or_says_what_to_do(doctor: Any) -> None:
    _, checks = doctor()
    assert set(checks) == NAMES
    for check in checks.values():
        assert check["state"] in ("fine", "absent", "wrong")
        assert check["found"]
        assert bool(check["advice"]) == (check["state"] != "fine"), check
    for name in ("Python", "settings", "simulator", "cache folder"):
        assert checks[name]["state"] == "fine", checks[name]
    assert sys.executable in checks["Python"]["found"]


def test_a_line_for_each_check_fits_the_terminal(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    result = command("doctor")
    for line in result.stdout.splitlines():
        assert len(line) <= 90 or " " not in line[_INDENT:], line  # a path is never broken: it is there to be copied
    for name in NAMES:
        assert sum(line[8:].startswith(name) for line in result.stdout.splitlines()) == 1


def test_a_path_that_is_wider_than_the_terminal_stays_whole_on_a_line_of_its_own() -> None:
    path = "/a-folder-with-a-long-name" * 4
    console = Console(file=io.StringIO(), width=60)
    print_checkup([Check("Python", "fine", f"3.12 {path}"), Check("nvcc", "absent", "none", "install it")], console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "fine    Python  3.12",
        f"                {path}",
        "absent  nvcc    none: install it",
    ]


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CUPLUG_ALLOCATOR", "cachin", "Did you mean 'caching'"),
        ("CUPLUG_DRIVER", "sim:devices=many", "'many' is no whole number"),
        ("CUDA_LAUNCH_BLOCKING", "zz", "set it to 1 or 0"),
        ("CUPLUG_CACHE_SIZE", "abc", "CUPLUG_CACHE_SIZE"),
    ],
)
def test_a_setting_that_cannot_be_used_is_wrong(
    doctor: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    status, checks = doctor()
    assert status == 1
    assert checks["settings"]["state"] == "wrong"
    assert said in checks["settings"]["advice"]


def test_a_cache_that_others_may_write_to_is_wrong_and_the_advice_mends_it(doctor: Any, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    status, checks = doctor()
    assert status == 1
    assert checks["cache folder"]["state"] == "wrong"
    assert checks["cache folder"]["advice"].endswith(f"chmod go-w {folder}")
    folder.chmod(0o755)
    assert doctor()[1]["cache folder"]["state"] == "fine"


def test_a_compiler_that_does_not_run_is_wrong(doctor: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    status, checks = doctor()
    assert status == 1
    assert checks["C++ compiler"]["state"] == "wrong"
    assert "CXX" in checks["C++ compiler"]["advice"]


def test_a_library_that_is_broken_does_not_keep_the_rest_from_being_looked_at(
    doctor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuplug.tools.analysis import checkup

    def broken() -> Any:
        raise RuntimeError("it broke")

    monkeypatch.setattr(checkup, "find_nvcc", broken)
    status, checks = doctor()
    assert status == 1
    assert checks["nvcc"]["found"] == "RuntimeError: it broke"
    assert set(checks) == NAMES
