"""Who follows an operation from file to file does not walk in circles: the changes of file are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.allocators.native import why_not
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

MOST = {
    "1": {"allocation": 0, "launch": 26, "expression": 46, "replay": 150},
    "0": {"allocation": 16, "launch": 29, "expression": 75, "replay": 2150},
}
"""By ``CUPLUG_NATIVE``, for each walk: the changes of file. These figures only ever become smaller."""


@pytest.mark.parametrize("native", sorted(MOST))
def test_no_walk_is_longer_than_it_was(native):
    if native == "1" and why_not() is not None:
        pytest.skip(why_not())
    names = [name for name in MOST[native] if name != "launch" or _can_compile()]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("walks.py")), *names],
        env={**os.environ, "CUPLUG_NATIVE": native},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    walks = {walk.pop("walk"): walk for walk in map(json.loads, done.stdout.splitlines())}
    assert set(walks) == set(names)
    assert not {name: walk for name, walk in walks.items() if walk["switches"] > MOST[native][name]}


def _can_compile() -> bool:
    try:
        find_compiler()
    except CompileError:
        return False
    return True
