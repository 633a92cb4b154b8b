"""Work in parallel processes ends at once when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cuplug.tools.replaying import worker_pool

PROGRAM = """
import sys, time
from pathlib import Path
from cuplug.tools.replaying.worker_pool import in_parallel

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


def test_by_default_there_is_a_process_for_each_processor_that_this_one_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 5, 7}, raising=False)
    assert worker_pool.default_jobs() == 3


def test_threads_give_the_results_in_order_and_count_their_progress_together() -> None:
    def work(number: int) -> int:
        worker_pool.report_progress(0.5)
        worker_pool.report_progress(0.5)
        return number * number

    assert worker_pool.in_parallel(work, range(20), jobs=4, description="", threads=True) == [n * n for n in range(20)]


def test_threads_at_work_stop_when_one_of_them_fails() -> None:
    started = threading.Event()

    def work(number: int) -> None:
        if number:
            started.wait()
            raise ValueError("at fault")
        started.set()
        while True:
            worker_pool.report_progress(0.0)

    with pytest.raises(ValueError, match="at fault"):
        worker_pool.in_parallel(work, [1, 0], jobs=2, description="", threads=True)
