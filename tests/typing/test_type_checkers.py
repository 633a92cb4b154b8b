"""What mypy and pyright see of the public API: every name, and nothing that does not exist."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import cuplug
import cuplug.cuda
import pytest

pytestmark = pytest.mark.one_schedule

PLANTED = Path(__file__).with_name("planted_misuses.py")
MODULES = {"cuplug": cuplug, "cuplug.cuda": cuplug.cuda}


def _mypy(file: Path, where: Path, cache: Path) -> set[int]:
    """The lines of ``file`` in which mypy finds something."""
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(cache)]
    command += ["--python-executable", sys.executable, "--no-error-summary", "--config-file=", str(file)]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Cannot find implementation" not in done.stdout, done.stdout
    return {int(line) for line in re.findall(rf"^{file.name}:(\d+): error", done.stdout, re.MULTILINE)}


def _pyright(file: Path, where: Path, cache: Path) -> set[int]:
    """The lines of ``file`` in which pyright finds something."""
    (where / "pyrightconfig.json").write_text(json.dumps({"include": [file.name], "extraPaths": ["."]}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=600, check=False)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright does not run here: {(done.stdout + done.stderr)[-200:]}")
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error" or "rule" in one}


CHECKERS: dict[str, Callable[[Path, Path, Path], set[int]]] = {"mypy": _mypy, "pyright": _pyright}


@pytest.fixture(params=CHECKERS)
def check(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], set[int]]:
    """Gives the lines of a program in which a type checker finds something. The checkout may have any name."""
    name: str = request.param
    if find_spec(name) is None:
        pytest.skip(f"needs {name}: pip install {name}")
    package = Path(cuplug.__file__).parent
    (tmp_path / "cuplug").mkdir()
    for entry in package.iterdir():
        if entry.suffix in (".py", ".pyi", ".typed") or (entry / "__init__.py").exists():
            (tmp_path / "cuplug" / entry.name).symlink_to(entry)
    cache = Path(request.config.cache.mkdir("type_checkers"))  # type: ignore[union-attr]

    def checked(program: str) -> set[int]:
        (tmp_path / "program.py").write_text(program)
        return CHECKERS[name](Path("program.py"), tmp_path, cache)

    return checked


def test_each_planted_misuse_is_found_and_nothing_else(check: Callable[[str], set[int]]) -> None:
    program = PLANTED.read_text()
    wrong = {number for number, line in enumerate(program.splitlines(), start=1) if "# wrong:" in line}
    assert len(wrong) == 10
    assert check(program) == wrong


def test_every_public_name_is_seen(check: Callable[[str], set[int]]) -> None:
    names = [f"{module}.{name}" for module, found in MODULES.items() for name in _public(found)]
    assert len(names) > 250
    program = "import cuplug\nimport cuplug.cuda\n\nseen = [\n" + "".join(f"    {name},\n" for name in names) + "]\n"
    unseen = {program.splitlines()[line - 1].strip(" ,") for line in check(program)}
    assert not unseen


def test_what_type_checkers_are_told_exists() -> None:
    from cuplug.runtime import tensor

    declared = [
        alias.asname
        for node in ast.walk(ast.parse(Path(cuplug.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "runtime.tensor"
        for alias in node.names
        if alias.asname
    ]
    assert sorted(declared) == sorted(tensor.__all__)
    assert set(declared) <= set(dir(cuplug))
    for name, module in MODULES.items():
        for public in _public(module):
            assert hasattr(module, public), f"{name}.{public}"


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(cuplug.__file__).with_name("py.typed").exists()


def _public(module: ModuleType) -> list[str]:
    """What users may write after the module's name."""
    folders = {"allocators", "plugins", "runtime", "tools"}
    return [
        name
        for name in dir(module)
        if not name.startswith("_") and name not in folders and not isinstance(getattr(module, name), ModuleType)
    ]
