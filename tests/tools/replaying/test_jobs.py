"""Work in parallel processes ends at once when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, time
from pathlib import Path
from cuplug.tools.replaying.jobs import in_parallel

def work(path):
    Path(path).touch()
    while True:
        time.sleep(60)

if __name__ == "__main__":
    try:
        in_parallel(work, sys.argv[1:], jobs=2, description="")
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_ends_the_processes_at_work(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    marks = [tmp_path / "a", tmp_path / "b"]
    command = [sys.executable, str(tmp_path / "program.py"), *map(str, marks)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not all(mark.exists() for mark in marks):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody gets it
        told, _ = process.communicate()  # which waits for all that hold the output
    assert told == "interrupted\n"
