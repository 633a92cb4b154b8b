"""What a release is made of: one version, a wheel for each Python that is tested, and nothing but what is said."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import cuplug
import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def test_the_version_stands_once_and_the_distribution_has_it():
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=ROOT,
        env={**os.environ, "CUPLUG_BUILD_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == cuplug.__version__
    for name in ("setup.py", "setup.cfg", "pyproject.toml"):
        assert cuplug.__version__ not in re.sub(r"[<>=]=?\s*[\d.]+", "", (ROOT / name).read_text()), name


def test_the_changelog_begins_with_this_version():
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading is not None
    assert heading[1].split()[0] == cuplug.__version__


def test_what_is_cited_is_this_version_of_this_day_at_this_address():
    """``CITATION.cff`` follows the three places where each of these stands alone."""
    cited = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"(?m)^ *version: (.*)$", cited) == [cuplug.__version__] * 2  # its own, and of what to cite
    heading = re.search(r"(?m)^## \S+ \((.*)\)$", (ROOT / "CHANGELOG.md").read_text())
    assert heading is not None
    assert re.findall(r"(?m)^date-released: (.*)$", cited) == [heading[1]] * (heading[1] != "unreleased")
    told = configparser.ConfigParser()
    told.read(ROOT / "setup.cfg")
    address = told.get("metadata", "url", fallback="")
    assert re.findall(r"(?m)^repository-code: (.*)$", cited) == ([address] if address else [])


def test_wheels_are_built_for_every_python_that_is_tested_and_for_both_architectures():
    tested = re.search(r"python: \[(.*)\]", (WORKFLOWS / "tests.yml").read_text())
    built = re.search(r'^build = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert tested is not None
    assert built is not None
    pythons = [each.strip(' "') for each in tested[1].split(",")]
    assert [f"cp{each.replace('.', '')}-*" for each in pythons] == built[1].split()
    assert pythons[0] == re.search(r"python_requires = >=(\S+)", (ROOT / "setup.cfg").read_text())[1]  # type: ignore[index]
    assert "[ubuntu-24.04, ubuntu-24.04-arm]" in (WORKFLOWS / "wheels.yml").read_text()


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.yml")), ids=lambda path: path.name)
def test_a_workflow_names_files_that_exist_and_may_only_read(path):
    text = path.read_text()
    assert "permissions:\n  contents: read\n" in text
    named = re.findall(r"(?:tests|docs|\.ci)/\w+", text)
    assert not [name for name in named if not (ROOT / name).exists()]


def test_a_dry_run_says_what_would_be_uploaded(tmp_path):
    if not any(distributions(name="build")):
        pytest.skip("needs build: pip install build")
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "release"), "--dist", str(tmp_path)],
        env={**os.environ, "CUPLUG_BUILD_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"cuplug {cuplug.__version__}: would upload" in done.stdout
    assert re.search(
        rf"cuplug-{re.escape(cuplug.__version__)}\.tar\.gz +[\d,]+ bytes +sha256 [0-9a-f]{{64}}", done.stdout
    )
    assert len(list(tmp_path.iterdir())) == 2
