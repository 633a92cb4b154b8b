"""What happens when the process forks or exits: each case in an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.core_choice import is_available

pytestmark = pytest.mark.one_schedule


def _run(program: str, **environment: str) -> str:
    """The output of a program, which must end well and have nothing to complain about."""
    done = _done(program, **environment)
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def _done(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "CUPLUG_DRIVER": "sim:devices=2", **environment},
    )


def test_a_program_that_ends_with_live_objects_ends_well(tmp_path: Path) -> None:
    program = """
import cuplug, threading
cuda = cuplug.cuda
keep = [cuda.alloc(1000), cuda.alloc(30 << 20)]
queue = cuda.Stream()
cuda.set_stream(queue)
keep += [cuda.alloc(1000), queue.record_event(), cuda.alloc_pinned(1000), cuda.Stream(1)]
keep[0].record_stream(queue)
keep.append(keep)
view = keep[4].array
cuda.memset(keep[1], 1)
class Late:
    def __init__(self): self.buffer = cuda.alloc(512)
    def __del__(self): self.buffer.close()
late = Late()
late.cycle = late
other = cuplug.Runtime(driver="sim")
thread = threading.Thread(target=lambda: keep.append(other.alloc(100)))
thread.start()
thread.join()
import atexit
atexit.register(lambda: print("still usable", cuda.alloc(5).nbytes))
print("done")
"""
    trace = tmp_path / "trace"
    assert _run(program, CUPLUG_TRACE=str(trace)) == "done\nstill usable 5\n"


def test_a_daemon_thread_that_goes_on_at_exit_gets_a_clear_error_or_none() -> None:
    program = """
import cuplug, threading, time
started = threading.Event()
def work():
    while True:
        try:
            cuplug.cuda.alloc(1000)
        except cuplug.CuplugError:
            return
        started.set()
threading.Thread(target=work, daemon=True).start()
started.wait()
"""
    _run(program)


def test_a_device_error_that_nobody_waited_for_is_told_at_the_end() -> None:
    program = """
import cuplug
buffer = cuplug.cuda.alloc(1000)
runtime = cuplug.default_runtime()
with runtime.on_device(0):
    runtime.driver.memset(0x10, 0, 1, stream=0)
"""
    done = _done(program)
    assert (done.returncode, done.stdout) == (0, "")  # only what has loaded kernels can set the status so late
    assert (
        "cuplug: work failed that the program did not wait for: CUDA error: CUDA_ERROR_ILLEGAL_ADDRESS" in done.stderr
    )
    assert done.stderr.count("\n") == 1


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking beside threads
import cuplug
cuda = cuplug.cuda
def in_child(work):
    pid = os.fork()
    if pid:
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, status
        return
    work()
    sys.stdout.flush()
    os._exit(0)
def refused(use):
    try:
        use()
    except cuplug.CuplugError as error:
        assert "forked" in str(error) and "spawn" in str(error), error
        return
    raise AssertionError(f"{use} worked in a forked process")
"""


def test_every_use_in_a_forked_child_raises_and_the_parent_is_unharmed(tmp_path: Path) -> None:
    program = (
        FORK
        + """
buffer, other = cuda.alloc(1000), cuda.alloc(1000)
pinned, queue = cuda.alloc_pinned(1000), cuda.Stream()
event = queue.record_event()
pinned.array[:] = 7
cuda.memcpy(buffer, pinned)
before = cuda.memory_allocated()
def child():
    global other, queue, event
    for use in (
        lambda: cuda.alloc(1000), lambda: cuda.alloc(10, stream=0), cuda.device_count, cuda.is_available,
        cuda.current_device, cuda.Stream, cuda.current_stream, cuda.synchronize, queue.synchronize, event.query,
        lambda: cuda.alloc_pinned(10), lambda: cuda.set_device(0), lambda: cuda.memset(buffer, 1),
        cuda.mem_get_info, lambda: buffer.record_stream(queue), lambda: cuda.stream(queue).__enter__(),
        lambda: cuda.device(1).__enter__(), cuda.empty_cache, cuplug.init, cuplug.default_runtime,
    ):
        refused(use)
    buffer.close()
    del other, queue, event
    print("child done")
in_child(child)
assert cuda.memory_allocated() == before
import numpy as np
result = np.zeros(1000, np.uint8)
cuda.memcpy(result, buffer)
assert (result == 7).all()
other.close()
cuda.alloc(5000)
print("parent done")
"""
    )
    trace = tmp_path / "trace"
    assert _run(program, CUPLUG_TRACE=str(trace)) == "child done\nparent done\n"


def test_a_child_forked_before_the_first_use_may_start_its_own() -> None:
    program = (
        FORK
        + """
def child():
    assert cuda.alloc(100).nbytes == 100
    cuplug.shutdown()
    print("child done")
in_child(child)
assert cuda.alloc(100).nbytes == 100
"""
    )
    assert _run(program) == "child done\n"


def test_a_child_forked_while_other_threads_hold_the_locks_does_not_hang() -> None:
    program = (
        FORK
        + """
import threading
cuda.alloc(100)
stop = threading.Event()
def work():
    while not stop.is_set():
        buffers = [cuda.alloc(size) for size in (100, 5000, 3 << 20)]
        cuda.Stream().record_event()
        cuda.memory_stats()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
def child():
    refused(lambda: cuda.alloc(100))
    refused(cuda.memory_allocated)
for _ in range(20):
    in_child(child)
stop.set()
for thread in threads:
    thread.join()
"""
    )
    _run(program)


@pytest.mark.skipif(not is_available(), reason="the native core is told of forks by the C library, Python is not")
@pytest.mark.parametrize("allocator", ["caching", "expandable"])
def test_a_child_that_c_forked_while_others_allocate_gets_the_same_error(allocator: str) -> None:
    program = """
import ctypes, os, sys, threading, time
import cuplug
cuda = cuplug.cuda
cuda.alloc(100)
# Where a thread has asked for the interpreter's lock, Python waits in the child, which it knows nothing of, for that
# thread to take it. Whoever waits asks after this long; so the fork comes just when this thread has waited itself.
sys.setswitchinterval(0.05)
stop = threading.Event()
def work():
    while not stop.is_set():
        buffers = [cuda.alloc(size) for size in (100, 5000, 3 << 20)]
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
library = ctypes.PyDLL(None)  # it keeps the interpreter's lock, which the child needs
for _ in range(20):
    time.sleep(0)
    pid = library.fork()
    if not pid:
        try:
            cuda.alloc(1000)
        except cuplug.CuplugError as error:
            os._exit(0 if "forked" in str(error) and "spawn" in str(error) else 2)
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, status
stop.set()
for thread in threads:
    thread.join()
cuda.alloc(1000)
"""
    _run(program, CUPLUG_ALLOCATOR=allocator)


def test_a_child_that_exits_normally_leaves_the_parents_trace_alone(tmp_path: Path) -> None:
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
import cuplug
keep = [cuplug.cuda.alloc(1000)]
pid = os.fork()
if not pid:
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
keep.append(cuplug.cuda.alloc(2000))
cuplug.shutdown()
from cuplug.plugins.tracing.reader import read_trace
trace = read_trace(sys.argv[1] if len(sys.argv) > 1 else os.environ["CUPLUG_TRACE"])
assert trace.complete
assert sorted(trace.events["requested"][trace.events["kind"] == 1]) == [1000, 2000]
"""
    _run(program, CUPLUG_TRACE=str(tmp_path / "trace"))


def test_a_child_that_was_forked_after_a_runtime_counts_its_own_runtimes(tmp_path: Path) -> None:
    program = """
import os
import cuplug
for _ in range(2):
    cuplug.init(driver="sim")
    cuplug.shutdown()
child = os.fork()
if not child:
    cuplug.init(driver="sim")
    cuplug.shutdown()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(child)
"""
    child = int(_run(program, CUPLUG_TRACE=str(tmp_path / "run.cuplug")))
    assert {path.name for path in tmp_path.iterdir()} == {"run.cuplug", "run.cuplug.2", f"run.{child}.cuplug"}
