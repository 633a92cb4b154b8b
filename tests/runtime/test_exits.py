"""Programs that end while threads still allocate: they end as they should, and print nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cuplug.allocators.native import is_available

pytestmark = pytest.mark.one_schedule

BEGIN = "import sys, threading\nimport cuplug\nfrom cuplug import cuda\n"
GO = """
begun = threading.Semaphore(0)
def keep_on():
    begun.release()
    while True:
        work()
for _ in range(3):
    threading.Thread(target=keep_on, daemon=True).start()
for _ in range(3):
    begun.acquire()
"""
PROGRAMS = {
    "blocks of caching": "cuplug.init(driver='sim', allocator='caching')\ndef work(): cuda.alloc(1000)",
    "blocks of expandable": "cuplug.init(driver='sim', allocator='expandable')\ndef work(): cuda.alloc(3 << 20)",
    "blocks on streams": (
        "cuplug.init(driver='sim')\ndef work():\n    with cuda.stream(cuda.Stream()):\n        cuda.alloc(5000)"
    ),
    "a trace": "cuplug.init(driver='sim', trace=sys.argv[1])\ndef work(): cuda.alloc(1000)",
    "tensors": "cuplug.init(driver='sim')\ndef work(): cuplug.ones(9, device='cuda').sum().item()",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_while_threads_allocate(name: str, tmp_path: object) -> None:
    program = BEGIN + PROGRAMS[name] + GO
    times = 12 if os.environ.get("CUPLUG_THOROUGH") == "1" else 4
    for number in range(times):
        ending = "" if number % 2 else "sys.exit(0)"
        command = [sys.executable, "-c", program + ending, f"{tmp_path}/trace.cuplug"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, "")
        if is_available():  # in Python's own form a thread may still be told that its allocator was closed
            assert done.stderr == ""
