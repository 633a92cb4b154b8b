"""What is begun and ended again and again in one process leaves nothing behind: neither the C library's memory nor
Python objects, neither open files nor mappings. Counted exactly, with no measure of the whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.plugins.tracing.writer import TraceWriter

pytestmark = [
    pytest.mark.one_schedule,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts by glibc's mallinfo2 and /proc"),
]
ROUNDS = int(os.environ.get("CUPLUG_GROWTH", 500 if "CUPLUG_THOROUGH" in os.environ else 60))
ROUNDS_OF_COMMANDS = int(os.environ.get("CUPLUG_GROWTH", 20))
"""In each of three parts. What a part leaves is a few KiB however many rounds it has."""

COUNTING = """
import ctypes, functools, gc, os, sys, threading
import cuplug
from cuplug import cuda

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

library = ctypes.CDLL(None)
if not hasattr(library, "mallinfo2"):
    sys.exit(77)
library.mallinfo2.restype = Info

def held():
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper) and each.cache_parameters()["maxsize"]:
            each.cache_clear()  # it has a bound, and rich's fill with each time that was measured
    gc.collect()
    info = library.mallinfo2()
    with open("/proc/self/maps") as maps:
        mappings = len(maps.readlines())
    files = len(os.listdir("/proc/self/fd"))
    return info.uordblks + info.hblkhd, sys.getallocatedblocks(), mappings, files, threading.active_count()

def measure(name, once, rounds, most=14_000):
    for _ in range(5):  # the first of the three parts may still fill what is kept: the least counts
        once()
    counts = [held()]
    for _ in range(3):
        for _ in range(rounds):
            once()
        counts.append(held())
    # Of the three parts that which left least: what grows does so in each.
    least = [min(after - before for before, after in zip(each, each[1:])) for each in zip(*counts)]
    limits = most, 400, 5, 0, 0  # whatever the rounds; a log alone was 10 KiB a round
    assert all(left <= limit for left, limit in zip(least, limits)), (name, rounds, least, limits)
"""
LIVES = """
def life():
    cuplug.init(driver="sim", allocator=sys.argv[1], **({"trace": "life.cuplug"} if sys.argv[2] == "traced" else {}))
    kept = cuda.alloc(3000)
    (cuplug.ones(100, device="cuda") + 1).sum().item()
    cuplug.shutdown()

measure("life", life, int(sys.argv[3]), most=32_000)  # a learner and a trace vary by half of it from run to run
"""
THREADS = """
def work():
    cuda.alloc(3000)

def threads():
    cuplug.init(driver="sim", trace="threads.cuplug")
    each = [threading.Thread(target=work) for _ in range(3)]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    cuplug.shutdown()

measure("threads", threads, int(sys.argv[1]), most=32_000)
"""
COMMANDS = """
import contextlib, io
from cuplug.plugins.tracing.reader import read_header, read_trace
from cuplug.tools.commands import app
from typer.main import get_command

command = get_command(app)
printed, said = io.StringIO(), io.StringIO()  # one for all rounds: click keeps every stream that it has written to

def run(line):
    def once():
        for stream in (printed, said):
            stream.seek(0)
            stream.truncate()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            try:
                status = command.main(line.split(), prog_name="cuplug-trace", standalone_mode=False)
            except SystemExit as end:
                status = end.code
        assert not status, said.getvalue()
    return once

rounds = int(sys.argv[1])
measure("read_trace", lambda: read_trace("small.cuplug"), rounds)
measure("read_header", lambda: read_header("small.cuplug"), rounds)
for line in sys.argv[2:]:
    measure(line, run(line), rounds)
"""


RMM_LOG = """Thread,Time,Action,Pointer,Size,Stream
1,10:00:00:000001,allocate,0x10000,1024,0x0
1,10:00:00:000002,free,0x10000,1024,0x0
"""


def _run(program: str, folder: Path, *arguments: object) -> None:
    command = [sys.executable, "-c", COUNTING + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    if done.returncode == 77:
        pytest.skip("this C library does not count its memory")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("allocator", "traced"),
    [("caching", "untraced"), ("caching", "traced"), ("expandable", "traced"), ("planned:learn=3", "traced")],
)
def test_a_runtime_that_begins_and_ends_leaves_nothing(allocator: str, traced: str, tmp_path: Path) -> None:
    _run(LIVES, tmp_path, allocator, traced, ROUNDS)


def test_threads_that_a_trace_names_leave_nothing(tmp_path: Path) -> None:
    _run(THREADS, tmp_path, ROUNDS)


def _write_small_trace(path: Path) -> None:
    writer = TraceWriter(path, {"driver": "sim"})
    writer.describe(allocators={"0": "caching"})
    thread, stack = writer.thread("MainThread"), writer.stack([("train.py", 10, "forward")])
    for number in range(20):
        for kind in (1, 2):
            writer.append(kind, 0, 1000 * number + kind, thread, 0, 0x10000 + 0x1000 * number, 1024, 1000, stack)
    writer.close()


LINES = """
summary small.cuplug
summary --json small.cuplug
watch --once small.cuplug
dump small.cuplug
replay small.cuplug
export small.cuplug -o out.json
export small.cuplug -o out.csv
report small.cuplug -o page.html
diff small.cuplug small.cuplug
plan small.cuplug -o run.plan
pack buffers.csv -o packed.csv
fit small.cuplug
advise small.cuplug
compare small.cuplug small.cuplug
allocators
summary rmm.csv
fit rmm.csv
export small.cuplug -o snapshot.pickle
summary snapshot.pickle
report snapshot.pickle -o page.html
"""


def test_readers_reports_and_watchers_leave_nothing(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    _write_small_trace(tmp_path / "small.cuplug")
    (tmp_path / "buffers.csv").write_text("id,lower,upper,size\na,0,3,4\nb,1,4,4\nc,3,9,2\n")
    (tmp_path / "rmm.csv").write_text(RMM_LOG)
    _run(COMMANDS, tmp_path, ROUNDS_OF_COMMANDS, *LINES.strip().splitlines())
