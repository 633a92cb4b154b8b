"""The core's fences on CUDA, over a stand-in for its driver: they are made of events that are used again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import native_core as core

STAND_IN = Path(__file__).with_name("stand_in_events.c")
PROGRAM = """
import ctypes, importlib.util, random, sys

spec = importlib.util.spec_from_file_location("native_core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
driver, table, pointer = ctypes.CDLL("libcuda.so.1"), core._Table(), ctypes.c_void_p
assert core.library().cuplug_cuda_upstream(0, ctypes.byref(table)) == 0
choose, most = random.Random(7), 0
queued, finished, fences = [0] * 8, [0] * 8, []
for step in range(5_000):
    stream, what = choose.randrange(8), choose.random()
    if what < 0.2:
        queued[stream] = driver.queue(stream)
    elif what < 0.3:
        driver.finish(stream)
        finished[stream] = queued[stream]
    elif what < 0.55 and len(fences) < 40:
        made = pointer()
        assert table.fence(table.context, stream, ctypes.byref(made)) == 0
        fences.append((made, stream, queued[stream]))
    elif fences:
        place = choose.randrange(len(fences))
        made, stream, number = fences[place]
        if what < 0.9:
            done = ctypes.c_int()
            assert table.fence_done(table.context, made, ctypes.byref(done)) == 0
            assert bool(done.value) == (finished[stream] >= number), (step, "a fence passes with the work before it")
        else:
            if what < 0.95:
                assert table.fence_wait(table.context, made) == 0
                finished[stream] = max(finished[stream], number)
            table.fence_drop(table.context, made)
            del fences[place]
    most = max(most, len(fences))
assert driver.events() <= most, "events are used again"
for made, *_ in fences:
    table.fence_drop(table.context, made)
table.close(table.context)
print(driver.events())
"""


def test_a_fence_passes_with_its_streams_work_and_not_before(tmp_path: Path) -> None:
    if core.compiler() is None or not sys.platform.startswith("linux"):
        pytest.skip("there is no C++ compiler")
    core.build_cuda_stand_in(STAND_IN, tmp_path)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path), "CUPLUG_CORE": core.library()._name}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, core.__file__], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
