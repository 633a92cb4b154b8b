"""Every code block of the README and of the documentation does what it says."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler

from .test_examples import PAGE as EXAMPLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
ELSEWHERE = (
    *("pip ", "cd ", ". ", "pytest", "python ", "git ", "CUPLUG_", "cuplug-trace demo"),
    *(".ci/run", "mkdocs", "torchrun", "ruff", "mypy", "lint-imports"),
)
"""What other tests, and CI, carry out."""
RECORDED = re.compile(r"tests/data/|gpt2\.|trace\.cuplug|snapshot\.pickle|train\.py|after\.cuplug")
"""A run of minutes, whose figures the page shows."""

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text())]


def in_turn(page: Path) -> Iterator[tuple[str, str]]:
    """The blocks of a page as they are carried out: a program goes on through several blocks, up to one that begins
    anew. Before commands that stand between, it runs as far as the page has shown it."""
    program, has_run = "", True
    for kind, text in blocks(page):
        begins = kind == "python" and ("\ncuplug.init(" in text or "\ntorch.init(" in text)
        if not has_run and (begins or kind == "console"):
            yield "python", program
            has_run = True
        if kind == "python":
            program, has_run = text if begins else program + text, False
        else:
            yield kind, text
    if not has_run:
        yield "python", program


def commands(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return [line[2:].split("  #")[0].strip() for line in joined.splitlines() if line.startswith("$ ")]


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUPLUG_")}
    return subprocess.run(arguments, cwd=folder, env=kept, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_code_block_of_a_page_does_what_it_says(page, tmp_path):
    for kind, text in in_turn(page):
        if kind == "python":
            _run_program(text, tmp_path)
        elif kind == "console":
            for command in commands(text):
                _run_command(command, tmp_path)
        elif kind == "ini":
            configparser.ConfigParser().read_string(text)
        elif kind == "pycon":
            assert page == EXAMPLES  # test_examples.py runs it
        elif kind == "text":
            assert page.name == "a-course-without-a-gpu.md"  # interop/pycuda/test_programs.py compares it
        else:
            pytest.fail(f"{page.name} has a block of {kind!r}, which no test runs")


def _run_program(program: str, folder: Path) -> None:
    if "SourceModule" in program:
        try:
            find_compiler()
        except CompileError as error:
            pytest.skip(str(error))
    said = re.findall(r"^ *print\(.*\)  # (.*)$", program, re.MULTILINE)
    done = run([sys.executable, "-c", program], folder)
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    assert [line for line in done.stdout.splitlines() if line] == said


def _run_command(command: str, folder: Path) -> None:
    for part in command.split(" && "):
        if part.startswith(ELSEWHERE) or RECORDED.search(part):
            continue
        assert part.startswith("cuplug-trace "), f"nobody runs {part!r}"
        name = part.split()[1]
        if any(not Path(folder, word).exists() for word in part.split() if word == "run.cuplug"):
            _is_a_command(name)
            continue
        done = run([sys.executable, "-m", "cuplug.tools.trace", *part.split()[1:]], folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def _is_a_command(name: str) -> None:
    """In this process: it takes a second to start another."""
    from cuplug.tools.commands import app
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, done.output


def test_the_page_of_differences_is_complete():
    rules = (ROOT / "tests" / "tensor" / "ops" / "test_torch_rules.py").read_text()
    start = rules.index("DIFFERENCES = {")
    names: dict[str, dict[str, tuple[str, str]]] = {}
    exec(rules[start : rules.index("\n}\n", start) + 3], names)
    page = (ROOT / "docs" / "differences-from-torch.md").read_text().replace("\\|", "¦")
    rows = [[cell.strip(" `").replace("¦", "|") for cell in line.split("|")] for line in page.splitlines()]
    shown = {row[1]: (row[2], row[3]) for row in rows if len(row) == 6 and row[1] not in ("expression", "---")}
    assert shown == names["DIFFERENCES"]
