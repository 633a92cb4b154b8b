"""What mypy and pyright see of the public API: every name, and nothing that does not exist."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import cuplug
import cuplug.cuda
import cuplug.interop
import pytest
from cuplug.runtime.facade import public_paths

pytestmark = pytest.mark.one_schedule

PLANTED = {path.name: path.read_text() for path in sorted(Path(__file__).parent.glob("planted_*.py"))}
ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = {"cuplug": cuplug, "cuplug.cuda": cuplug.cuda}
INSTALLED = "installed"
"""The folder in which type checkers find the package."""


Found = set[tuple[str, int]]
"""Where a type checker found something: the file's name and the line's number."""


def _mypy(files: list[str], where: Path, cache: Path) -> Found:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(cache)]
    command += ["--python-executable", sys.executable, "--no-error-summary", "--config-file=", *files]
    path = {**os.environ, "MYPYPATH": INSTALLED}
    done = subprocess.run(command, cwd=where, env=path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "Cannot find implementation" not in done.stdout, done.stdout
    return {(name, int(line)) for name, line in re.findall(r"^(\w+\.py):(\d+): error", done.stdout, re.MULTILINE)}


def _pyright(files: list[str], where: Path, cache: Path) -> Found:
    (where / "pyrightconfig.json").write_text(json.dumps({"include": files}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    path = {**os.environ, "PYTHONPATH": str(where / INSTALLED)}  # as installed: pyright judges what packages export
    done = subprocess.run(command, cwd=where, env=path, capture_output=True, text=True, timeout=600, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright does not run here: {(done.stdout + done.stderr)[-200:]}")
    assert report["summary"]["filesAnalyzed"] == len(files), report["summary"]
    return {
        (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        for one in report["generalDiagnostics"]
        if one["severity"] == "error" or "rule" in one
        # ``cuplug.cuda`` is described by a stub, and stands elsewhere at run time: pyright remarks that at each import.
        if one.get("rule") != "reportMissingModuleSource"
    }


CHECKERS: dict[str, Callable[[list[str], Path, Path], Found]] = {"mypy": _mypy, "pyright": _pyright}


@pytest.fixture(params=CHECKERS, scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What a type checker finds in all programs of the tests here, which it reads in one run: most of its time goes
    into reading the package. The checkout may have any name."""
    name: str = request.param
    if find_spec(name) is None:
        pytest.skip(f"needs {name}: pip install '.[dev]'")
    folder = tmp_path_factory.mktemp(name)
    package = folder / INSTALLED / "cuplug"
    package.mkdir(parents=True)
    for entry in Path(cuplug.__file__).parent.iterdir():
        if entry.suffix in (".py", ".pyi", ".typed") or any(entry.glob("__init__.py*")):
            (package / entry.name).symlink_to(entry)
    programs = PLANTED | _of_pages() | {"names.py": _all_names(), "paths.py": _all_paths()}
    for file, program in programs.items():
        (folder / file).write_text(program)
    cache = Path(request.config.cache.mkdir("type_checkers"))  # type: ignore[union-attr]
    return CHECKERS[name](list(programs), folder, cache)


def test_each_planted_misuse_is_found_and_nothing_else(found: Found) -> None:
    wrong = {
        (name, number)
        for name, program in PLANTED.items()
        for number, line in enumerate(program.splitlines(), start=1)
        if "# wrong:" in line
    }
    assert len(wrong) == 20
    assert {(file, line) for file, line in found if file in PLANTED} == wrong


def test_nothing_is_found_in_the_examples_of_the_documentation(found: Found) -> None:
    programs = _of_pages()
    assert len(programs) >= 10
    assert not {programs[file].splitlines()[line - 1].strip() for file, line in found if file in programs}


def test_every_public_name_is_seen(found: Found) -> None:
    program = _all_names()
    assert program.count(",\n") > 250
    assert not _lines(program, "names.py", found)


def test_every_path_of_torchs_is_seen_and_imported(found: Found) -> None:
    assert not _lines(_all_paths(), "paths.py", found)


def _lines(program: str, file: str, found: Found) -> set[str]:
    """The names of a list in which something was found."""
    return {program.splitlines()[line - 1].strip(" ,") for each, line in found if each == file}


def _of_pages() -> dict[str, str]:
    """The programs of the documentation, by names of files."""
    return {
        f"{page.stem.replace('-', '_')}_{number}.py": program
        for page in PAGES
        for number, program in enumerate(_programs(page.read_text()))
    }


def _all_names() -> str:
    """A program that uses every public name."""
    names = [f"{module}.{name}" for module, found in MODULES.items() for name in _public(found)]
    names += [f"cuplug.interop.{name}" for name in cuplug.interop.__all__]
    imports = "import cuplug\nimport cuplug.cuda\nimport cuplug.interop\n"
    return f"{imports}\nseen = [\n" + "".join(f"    {name},\n" for name in names) + "]\n"


def _all_paths() -> str:
    """A program that imports every module of torch's that there is, and uses its names."""
    paths = [f"cuplug.{path}" for path in public_paths.PATHS]
    program = "".join(f"import {path}\n" for path in paths)
    program += "seen = [\n    cuplug.autocast,\n    cuplug.GradScaler,\n"
    for path in paths:
        exec(f"import {path}")
        module = sys.modules[path]
        names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
        program += "".join(f"    {path}.{name},\n" for name in names)
    program += "]\nfrom cuplug.backends import cudnn\ncudnn.benchmark = True\n"
    return program + "from cuplug.nn import DataParallel\nfrom cuplug.cuda.amp import GradScaler, autocast\n"


def test_what_type_checkers_are_told_exists() -> None:
    from cuplug.runtime import tensor

    declared = [
        alias.name
        for node in ast.walk(ast.parse(Path(cuplug.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "runtime.tensor"
        for alias in node.names
    ]
    assert declared[0] == "*"  # for type checkers all; at run time each name as it is asked for
    assert set(tensor.__all__) <= set(dir(cuplug))
    for name, module in MODULES.items():
        for public in _public(module):
            assert hasattr(module, public), f"{name}.{public}"


def test_the_package_says_that_it_is_typed() -> None:
    assert Path(cuplug.__file__).with_name("py.typed").exists()


def _programs(page: str) -> list[str]:
    """The Python blocks of a page; a block goes on with what is above it until one starts a runtime of its own."""
    programs: list[str] = []
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        if not programs or "\ncuplug.init(" in block:
            programs.append("")
        programs[-1] += block
    return programs


def _public(module: ModuleType) -> list[str]:
    """What users may write after the module's name."""
    folders = {"allocators", "plugins", "runtime", "tools"}
    return [
        name
        for name in dir(module)
        if not name.startswith("_") and name not in folders and not isinstance(getattr(module, name), ModuleType)
    ]
