"""The checkout may have any folder's name: the package is called cuplug all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "site")


def test_a_checkout_of_any_name_installs_and_its_tests_pass(make_environment, tmp_path):
    copy = tmp_path / "a-folder of another.name"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    environment = make_environment()
    environment.install("-e", str(copy), CUPLUG_BUILD_NATIVE="0")  # which a compiler would take a minute for
    found = environment.run("-c", "import cuplug; print(cuplug.__file__)")
    assert found.stdout.strip() == str(copy / "__init__.py"), found.stderr
    files = [str(copy / "tests" / name) for name in ("plugins/test_selection.py", "allocators/test_null.py")]
    done = environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(copy), *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout.splitlines()[-1]
    kit = ("-m", "pytest", "-q", "-p", "cuplug.plugins.conformance", "-p", "no:cacheprovider", "-k", "sizes or close")
    done = environment.run(*kit, "--allocator", "direct", "--driver", "sim:schedule=eager")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
