"""PyTorch's own test files under cuplug: how many of the tests that pass under PyTorch pass here, too.

``python run_torch_files.py FOLDER/test/nn/test_pooling.py ...``, where FOLDER holds PyTorch's sources of a release, or
its ``test`` alone; PyTorch must be installed. Each file runs as it is: once under PyTorch on the CPU, once with
``import torch`` meaning cuplug. Of the tests that pass under PyTorch, those that use a name that cuplug lacks are
counted apart: it says so ("not part of cuplug"), and what is missing is another matter than whether what is there is
right.
``--show`` prints what differs, and ``--keep`` the folder in which the outcomes of each file stay.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

Outcomes = dict[str, tuple[str, str]]
"""By test: how it ended, and what was said."""

HERE = Path(__file__).parent
ENDS = 20
"""So many tests of a file may end the process, or block it."""


def outcomes(library: str, file: Path, kept: Path, seconds: float = 1800) -> Outcomes:
    """How each test of the file ends under the library, ``torch`` or ``cuplug``.

    Raises:
        RuntimeError: the file cannot be read under it.
    """
    path = kept / f"{file.parent.name}.{file.stem}.{library}.jsonl"
    said = ""
    one = {**os.environ, "OMP_NUM_THREADS": "1"}
    for _ in range(ENDS):
        command = [sys.executable, str(HERE / "one_torch_file.py"), library, str(file), str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds, env=one)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            break
        said = done.stderr[-2000:]
        if not path.exists():
            raise RuntimeError(f"{file} cannot be read under {library}: {said}")
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {each["test"]: (each["kind"], each["text"]) for each in lines}


class Comparison:
    """What the tests of one file make of cuplug, of those that pass under PyTorch."""

    def __init__(self, theirs: Outcomes, ours: Outcomes) -> None:
        self.passed = [test for test, (kind, _) in theirs.items() if kind == "passed"]
        self.kinds = {test: ours.get(test, ("missing", "there is no such test")) for test in self.passed}

    def count(self, kind: str) -> int:
        """How many ended so under cuplug."""
        return sum(found == kind for found, _ in self.kinds.values())

    @property
    def different(self) -> dict[str, str]:
        """By test, what was said of each that neither passes nor misses a name."""
        return {test: text for test, (kind, text) in self.kinds.items() if kind in ("failed", "skipped")}

    def missing_names(self) -> Counter[str]:
        """How many tests miss each name."""
        names: Counter[str] = Counter()
        for kind, text in self.kinds.values():
            if kind == "missing":
                found = re.findall(r"([\w.]+) is not part of cuplug|has no attribute '(\w+)'", text)
                names["".join(found[-1]) if found else text.strip().splitlines()[-1]] += 1
        return names


def _row(name: str, *numbers: int) -> str:
    passed, missing, alike, different = numbers
    share = f"{alike / (passed - missing):7.1%}" if passed > missing else "      -"
    return f"{name:34}{passed:8}{missing:9}{alike:8}{different:11}  {share}"


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--show", action="store_true", help="print what differs")
    parser.add_argument("--keep", type=Path, help="a folder for the outcomes; PyTorch's that are there are taken")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        kept = given.keep or Path(scratch)
        kept.mkdir(parents=True, exist_ok=True)
        total = [0, 0, 0, 0]
        names: Counter[str] = Counter()
        print(f"{'file':34}{'passed':>8}{'missing':>9}{'alike':>8}{'different':>11}  alike of those that miss no name")
        for file in map(Path.resolve, given.files):
            for old in kept.glob(f"{file.parent.name}.{file.stem}.cuplug.jsonl"):
                old.unlink()
            try:
                found = Comparison(outcomes("torch", file, kept), outcomes("cuplug", file, kept))
            except RuntimeError as error:
                print(f"{file.name:34}{error}")
                continue
            numbers = len(found.passed), found.count("missing"), found.count("passed"), len(found.different)
            total = [sum(pair) for pair in zip(total, numbers, strict=True)]
            names += found.missing_names()
            print(_row(f"{file.parent.name}/{file.name}", *numbers), flush=True)
            if given.show:
                for test, text in found.different.items():
                    print(f"  {test}: {text.strip()[-300:]}")
        print(_row("all", *total))
        print("missing:", ", ".join(f"{name} ({count})" for name, count in names.most_common()))


if __name__ == "__main__":
    main()
