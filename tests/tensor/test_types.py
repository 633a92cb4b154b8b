"""What a static check of a program that uses tensors finds: mistakes, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import cuplug
import pytest

PROGRAM = """\
from cuplug.runtime.tensor import Tensor, exp, ones
t = ones(3, device="cpu")
t.misspelt_method()  # wrong
t.exp(2)  # wrong
exp("x")  # wrong
t.reshape(1, shap=3)  # wrong
t.sum(kepdim=True)  # wrong
text: str = t.numel()  # wrong
truth: bool = t == t  # wrong
t.shape = (1, 2)  # wrong
t.matmul(2)  # wrong
t.dtype.is_flaoting_point  # wrong
total: Tensor = t.sum(dim=0, keepdims=True) + t.exp_().float() * 2 - t[0] @ t
count: int = t.numel()
number: int = t.size(0)
for each in t:
    each.sqrt().clamp(min=0)
t[1:] = 3
t += t.reshape(3).t().view(-1).new_zeros(3)
values, indices = t.max(0)
same: bool = t.equal(-t) or bool((t < 2 ** t).all()) or t.is_cuda
"""


@pytest.mark.one_schedule
@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_a_static_check_finds_every_mistake_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "cuplug").symlink_to(Path(cuplug.__file__).parent)  # checks do not follow editable installs
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(tmp_path)}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout
    lines = {int(line) for line in re.findall(r"^program\.py:(\d+): error", found, re.MULTILINE)}
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    assert lines == wrong, found
