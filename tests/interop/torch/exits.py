"""Programs that end while daemon threads use CUDA memory under PyTorch: they end with status 0 and print nothing.

``python exits.py`` runs each of them on cuplug's allocators (``caching+trace``: with a trace); ``--on native`` on
PyTorch's own, on which many of them abort and some never end. Ends with 1 where one ends otherwise. ``memory`` names
those that need no kernel, for CUDA's stand-in. Backward passes are left out: PyTorch aborts in one
whatever it allocates from, on its own memory in 24 of 24 programs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BEGIN = """
import os, sys, threading, time
import torch
torch.empty(1, device="cuda")
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
POOLS = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
inside = threading.Semaphore(0)
taking, go_on = threading.Event(), threading.Event()
{go_on}
def give(nbytes, device, stream):
    inside.release()
    while {never}: pass
    address = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(nbytes)) == 0
    return address.value
def take(address, nbytes, device, stream):
    taking.set()
    go_on.wait()
    driver.cuMemFree_v2(ctypes.c_uint64(address))
arguments = ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p
functions = (
    ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments)(give),
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, *arguments)(take),
)
given = torch._C._cuda_customAllocator(*(ctypes.cast(each, ctypes.c_void_p).value for each in functions))
def work():
    with torch.cuda.use_mem_pool(torch.cuda.MemPool(given)): torch.empty(5000, device='cuda')
"""
INSIDE = """
threading.Thread(target=work, daemon=True).start()
inside.acquire()
"""
# Three pools end at once. The first waits in a function of the program's, which waits for ``go_on``. The second waits
# for the first, and the third for what the second holds then: if it has the interpreter's lock, ``go_on`` is never set.
ENDING_POOLS = """
pools = [torch.cuda.MemPool(given) for _ in range(3)]
with torch.cuda.use_mem_pool(pools[-1]): torch.empty(5000, device='cuda')
ends = [threading.Thread(target=pools.pop) for _ in pools]
ends[0].start()
taking.wait()
for end in ends[1:]:
    end.start()
    for _ in range(1000): time.sleep(0) # the other threads go on, as far as they can
go_on.set()
for end in ends: end.join()
"""


def pools(go_on: str = "go_on.set()", never: str = "False") -> str:
    return POOLS.replace("{go_on}", go_on).replace("{never}", never)


MEMORY = {
    "tensors": "def work(): torch.empty(1000, device='cuda')",
    "tensors, with pauses": "def work(): time.sleep(0.001); torch.empty(1000, device='cuda')",
    "tensors that live on": (
        "kept = []\ndef work():\n    kept.append(torch.empty(3 << 20, device='cuda'))\n    del kept[:-100]"
    ),
    "tensors that are waited for long": (
        "os.environ['STAND_IN_TIME_US'] = '4000'\n"
        "kept = []\n"
        "def work(): kept.append(torch.empty(30 << 20, device='cuda')) if len(kept) < 50 else time.sleep(0.01)"
    ),
    "memory without a tensor": (
        "memory = torch.cuda.memory\ndef work(): memory.caching_allocator_delete(memory.caching_allocator_alloc(5000))"
    ),
    "storages, which hold the interpreter's lock": "def work(): torch.UntypedStorage(5000, device='cuda')",
    "tensors on streams": (
        "def work():\n    with torch.cuda.stream(torch.cuda.Stream()):\n        torch.empty(5000, device='cuda')"
    ),
    "tensors, recorded": (
        "torch.cuda.memory._record_memory_history(stacks='python')\ndef work(): torch.empty(1000, device='cuda')"
    ),
    "pools whose functions are Python's": pools() + INSIDE,
    "a pool whose functions never return": pools(never="True") + INSIDE,
    "pools that end while a function is at work": pools(go_on="") + ENDING_POOLS,
}
KERNELS = {
    "products": "x = torch.ones(256, 256, device='cuda')\ndef work(): (x @ x).sum().item()",
    "copies": "def work(): torch.ones(1000).to('cuda', non_blocking=True).cpu()",
}
LONGEST_S = 200
ENDINGS = ["", "sys.exit(0)", "last = threading.Thread(target=sys.exit)\nlast.start()\nlast.join()", "time.sleep(0.05)"]


def end_of(program: str, allocator: str, ending: str) -> str:
    """How a program ends: nothing where it ends as it should, else its status and its last line."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CUPLUG_TORCH", "CUPLUG_TRACE")}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(BEGIN + program + GO + ending)
        if allocator.endswith("+trace"):
            environment["CUPLUG_TRACE"] = f"{folder}/trace.cuplug"
        on = [] if allocator == "native" else ["-m", "cuplug.interop.torch", "-a", allocator.removesuffix("+trace")]
        command = [sys.executable, *on, f"{folder}/program.py"]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            return f"does not end within {LONGEST_S} s"
    printed = (done.stdout + done.stderr).strip().splitlines()
    return f"{done.returncode} {printed[-1][:100] if printed else ''}" if done.returncode or printed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; memory for all that need no kernel")
    parser.add_argument("--on", default="caching,expandable")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=1)
    asked = parser.parse_args()
    programs = MEMORY | KERNELS
    names = list(MEMORY) if asked.names == ["memory"] else asked.names or list(programs)
    wrong = 0
    with ThreadPoolExecutor(asked.at_once) as pool:
        for allocator in asked.on.split(","):
            for name in names:
                runs = [
                    pool.submit(end_of, programs[name], allocator, ENDINGS[number % len(ENDINGS)])
                    for number in range(asked.times)
                ]
                ends = Counter(run.result() for run in runs)
                wrong += asked.times - ends[""]
                print(f"{allocator}: {name}: {ends.pop('', 0)} of {asked.times} {dict(ends) or ''}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
