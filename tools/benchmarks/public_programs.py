"""How many PyCUDA programs of other people end on the simulator: ``python -m cuplug.tools.benchmarks.public_programs``.

Every ``.py`` file below the given folders that imports PyCUDA and does something is run as it is, in a copy of its
folder, and counted by how it ends. Programs are code: run only folders whose programs you would run anyhow.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["main", "outcome_of", "programs_in"]

_USES = re.compile(r"^[ \t]*(?:import|from)[ \t]+pycuda\b", re.MULTILINE)
_MISSING = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'")
_INPUT = re.compile(
    r"FileNotFoundError|EOFError|\b[Uu]sage:|can't open/read file|NotADirectoryError|sys\.argv|arguments are required"
)
_DOES_NOTHING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
OUTCOMES = {
    "ended": "ended with status 0",
    "error": "ended with an error",
    "too long": "was ended at the time limit",
    "module": "needs a module that is not installed",
    "input": "needs a file or arguments that are not there",
    "python 2": "is no Python 3",
}
"""How a program may end. The last three say nothing of cuplug, and do not count."""


def programs_in(folder: Path) -> Iterator[Path]:
    """The files below a folder that import PyCUDA and do more than define functions and classes."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(errors="replace")
        if not _USES.search(text):
            continue
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):
            yield path
            continue
        kept = [each for each in body if not isinstance(each, _DOES_NOTHING) and not _is_text(each)]
        if kept:
            yield path


def outcome_of(program: Path, limit_s: float) -> tuple[str, str]:
    """How a program ends on the simulator: one of ``OUTCOMES``, and its last line or what is missing."""
    try:
        ast.parse(program.read_text(errors="replace"))
    except (SyntaxError, ValueError) as error:
        return "python 2", str(error)
    with tempfile.TemporaryDirectory(prefix="cuplug-program-") as scratch:
        folder = Path(scratch) / "copy"
        shutil.copytree(program.parent, folder, symlinks=True)
        output, status = _run(folder / program.name, limit_s)
    lines = output.strip().splitlines()
    last = lines[-1] if lines else ""
    missing = _MISSING.search(output)
    if status == 0:
        return "ended", last
    if status is None:
        return "too long", f"after {limit_s:g} s"
    if missing and missing[1].partition(".")[0] != "pycuda":
        return "module", missing[1]
    return ("input" if _INPUT.search("\n".join(lines[-5:])) else "error"), last


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the programs of folders, and print each that did not end."""
    parser = argparse.ArgumentParser(description="Count the PyCUDA programs of folders that end on the simulator.")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that a program may take (180)")
    parser.add_argument("--json", type=Path, help="where every outcome is written, by path")
    asked = parser.parse_args(arguments)
    found: dict[str, tuple[str, str]] = {}
    for folder in asked.folders:
        for program in programs_in(folder):
            found[str(program)] = outcome, detail = outcome_of(program, asked.limit)
            if outcome != "ended":
                print(f"{program}: {OUTCOMES[outcome]}: {detail[:160]}", flush=True)
    counts = Counter(outcome for outcome, _ in found.values())
    for outcome, words in OUTCOMES.items():
        print(f"{counts[outcome]:5} {words}")
    counted = counts["ended"] + counts["error"] + counts["too long"]
    if counted:
        print(f"of {counted} that have what they need {counts['ended']} end ({100 * counts['ended'] / counted:.1f} %)")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    return 0


def _run(program: Path, limit_s: float) -> tuple[str, int | None]:
    """What a program printed, and its status; None if it was ended."""
    command = [sys.executable, "-m", "cuplug.interop.pycuda", "-d", "sim", program.name]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    process = subprocess.Popen(
        command,
        cwd=program.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=limit_s)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


if __name__ == "__main__":
    sys.exit(main())
