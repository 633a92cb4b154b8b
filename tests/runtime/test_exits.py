"""Programs that end while threads are at work: they end as they should, and print nothing. ``CUPLUG_EXITS=200`` runs
each of them so often."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuplug.allocators.native import is_available

pytestmark = pytest.mark.one_schedule

TIMES = int(os.environ.get("CUPLUG_EXITS", "8" if os.environ.get("CUPLUG_THOROUGH") == "1" else "2"))
BEGIN = """
import ctypes, os, sys, threading
import cuplug
from cuplug import cuda
"""
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
CUPY = """
from cuplug.allocators import _native
runtime = cuplug.init(driver="sim")
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
stream = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: 0)  # stands for CuPy's own
capsule = new_capsule(ctypes.cast(stream, ctypes.c_void_p), b"intptr_t (void)", None)
_native.cupy_publish(0, runtime.allocator(0))
malloc, free = _native.cupy_functions(capsule, "intptr_t (void)", lambda: 0)
malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(malloc)
free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(free)
def work(): free(None, malloc(None, 5000, 0), 0)
"""
LIBRARY = """
cuplug.init(driver="sim")
kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
called = kind(lambda nbytes: cuda.alloc(nbytes).close())  # lets go of the interpreter's lock before, as RMM does
def work(): called(1000)
"""
LAUNCHES = """
import numpy as np
from cuplug.runtime.kernels import SourceModule
cuplug.init(driver="sim")
fill = SourceModule("__global__ void fill(int *to) { to[threadIdx.x] = threadIdx.x; }").get_function("fill")
def work(): fill(cuda.alloc(256), grid=1, block=64)
work()
"""
PROGRAMS = {
    "blocks of caching": "cuplug.init(driver='sim', allocator='caching')\ndef work(): cuda.alloc(1000)",
    "blocks of expandable": "cuplug.init(driver='sim', allocator='expandable')\ndef work(): cuda.alloc(3 << 20)",
    "blocks that are planned": (
        "cuplug.init(driver='sim', allocator='planned:learn=3')\n"
        "def work():\n    for size in (1000, 3 << 20, 5000): cuda.alloc(size)"
    ),
    "blocks on streams": (
        "cuplug.init(driver='sim')\ndef work():\n    with cuda.stream(cuda.Stream()):\n        cuda.alloc(5000)"
    ),
    "a trace": "cuplug.init(driver='sim', trace=sys.argv[1])\ndef work(): cuda.alloc(1000)",
    "tensors": "cuplug.init(driver='sim')\ndef work(): cuplug.ones(9, device='cuda').sum().item()",
    "gradients, and tensors that live on": (
        "cuplug.init(driver='sim')\nkept = []\n"
        "def work():\n    x = cuplug.ones(9, device='cuda', requires_grad=True)\n    (x * x).sum().backward()\n"
        "    kept.append(x)\n    del kept[:-100]"
    ),
    "CuPy's functions": CUPY,
    "a library's callbacks": LIBRARY,
    "launches": LAUNCHES,
}
ENDINGS = {
    "by itself": "",
    "sys.exit": "sys.exit(0)",
    "sys.exit in a thread": "last = threading.Thread(target=sys.exit)\nlast.start()\nlast.join()",
    "os._exit": "os._exit(0)",
}
NEEDS = {"CuPy's functions": is_available(), "launches": shutil.which("g++") or shutil.which("c++")}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_while_threads_are_at_work(name: str, tmp_path: Path) -> None:
    if not NEEDS.get(name, True):
        pytest.skip("needs a compiler")
    endings = list(ENDINGS.values())
    first = list(PROGRAMS).index(name)
    for number in range(first, first + TIMES):
        program = BEGIN + PROGRAMS[name] + GO + endings[number % len(endings)]
        command = [sys.executable, "-c", program, f"{tmp_path}/trace.cuplug"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        if is_available():  # in Python's own form a thread may still be told that its allocator was closed
            assert done.stderr == "", endings[number % len(endings)]


LATE = """
import atexit, threading
def go_on():
    exits.set()
    late.join(1)  # it ends where its error is told, and waits for the end of the process where not
atexit.register(go_on)  # before cuplug's own, so that it is called after that
import cuplug
driver = cuplug.init(driver="sim").driver
exits = threading.Event()
def use_what_is_closed():
    exits.wait()
    driver.set_device(0)
late = threading.Thread(target=use_what_is_closed, daemon=True)
late.start()
"""


def test_nothing_is_told_of_a_thread_that_finds_its_device_closed_while_the_interpreter_exits() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ENDED = """
import threading
from cuplug.allocators.native.strategies import NativeCaching
from cuplug.allocators.upstreams.null import NullUpstream
inside = threading.Event()
def go_on_for_ever(*_):
    inside.set()
    while True: pass
"""
CALLS = {
    "upstream": """
class Upstream(NullUpstream): reserve = go_on_for_ever
allocator = NativeCaching(Upstream(1 << 30))
def work(): allocator.allocate(5000, stream=0)
""",
    "a hook": """
allocator = NativeCaching(NullUpstream(1 << 20))
allocator.on_out_of_memory = go_on_for_ever
def work(): allocator.allocate(1 << 30, stream=0)
""",
    "the progress of a replay": """
import array
from cuplug.allocators import _native
from cuplug.allocators.native.without_device import NativeNullUpstream
class Released:  # Python runs when the replay lets go of it
    def __buffer__(self, flags): return memoryview(array.array("q", [1]))
    def __release_buffer__(self, view): pass
allocator = NativeCaching(NativeNullUpstream())
def work():
    _native.replay(allocator, Released(), array.array("Q", [512]), array.array("Q", [0]), False, go_on_for_ever, None)
""",
}


@pytest.mark.skipif(not is_available(), reason="needs the native core")
@pytest.mark.parametrize("call", CALLS)
def test_a_thread_that_is_in_python_under_the_native_core_at_exit_waits_for_the_end(call: str) -> None:
    if call == "the progress of a replay" and sys.version_info < (3, 12):
        pytest.skip("no class in Python has buffers")
    program = ENDED + CALLS[call] + "threading.Thread(target=work, daemon=True).start()\ninside.wait()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
