"""Who follows an operation from file to file does not walk in circles: the changes of file are counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from operator import gt
from pathlib import Path

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.allocators.native import why_not
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

MOST = {
    "1": {"allocation": (0, 0), "launch": (21, 0), "expression": (36, 0), "backward": (166, 15), "replay": (49, 2)},
    "0": {
        "allocation": (12, 2),
        "launch": (24, 1),
        "expression": (69, 4),
        "backward": (238, 27),
        "replay": (2528, 455),
    },
}
"""By ``CUPLUG_NATIVE``, for each walk: the changes of file, and of these those back to the file that was left just
before. These figures become smaller, but where a file of two subjects is divided: a replay in Python walks between an
allocator and its address spaces, which stand in a file of their own."""


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
    found = {name: (walk["switches"], walk["back"]) for name, walk in walks.items()}
    too_far = {name: most for name, most in MOST[native].items() if name in found and any(map(gt, found[name], most))}
    assert not too_far, found


def _can_compile() -> bool:
    try:
        find_compiler()
    except CompileError:
        return False
    return True
