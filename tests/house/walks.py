"""How far a reader walks who follows one operation: calls of Python functions, files, and changes from file to file.

``python tests/house/walks.py`` prints a line of JSON for each walk, with whichever cuplug is imported, so that two
checkouts can be compared. A walk is the sequence of the functions entered, in order; a constructor that the standard
library writes has no file, and a comprehension is read where it stands (Python before 3.12 calls it as a function).
``back`` counts the changes to the file that was left just before.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import cuplug
import cuplug.cuda
import numpy as np

COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
ROOT = str(Path(cuplug.__file__).parent) + os.sep
KERNEL = """
extern "C" __global__ void add_one(float *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] += 1;
}
"""


def walk(work: Callable[[], object]) -> dict[str, int]:
    """What ``work`` walks."""
    entered: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        file = frame.f_code.co_filename
        ours = file.startswith(ROOT) and "site-packages" not in file  # of an environment inside the checkout
        function = frame.f_code.co_name not in COMPREHENSIONS
        if event == "call" and function and (ours or file.endswith("written out by cuplug>")):
            entered.append(file)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    changes = [file for place, file in enumerate(entered) if not place or entered[place - 1] != file]
    back = sum(changes[place] == changes[place - 2] for place in range(2, len(changes)))
    return {"calls": len(entered), "files": len(set(entered)), "switches": len(changes) - 1, "back": back}


def allocation() -> dict[str, int]:
    """``cuplug.cuda.alloc`` that finds its memory among what was freed, and not in a bin."""
    kept = [cuplug.cuda.alloc(1024) for _ in range(3)]
    return walk(lambda: kept.append(cuplug.cuda.alloc(1024)))


def expression() -> dict[str, int]:
    """``a * b + c`` of tensors on the simulator."""
    a, b, c = (cuplug.ones(1000, device="cuda") for _ in range(3))
    kept = [a * b + c for _ in range(3)]
    return walk(lambda: kept.append(a * b + c))


def launch() -> dict[str, int]:
    """A launch of a kernel on the simulator that was launched before."""
    try:
        from cuplug.runtime.kernels.source_module import SourceModule
    except ImportError:
        from cuplug.runtime.kernels import SourceModule  # type: ignore[attr-defined,no-redef]

    kernel = SourceModule(KERNEL, no_extern_c=True).get_function("add_one")
    with cuplug.cuda.alloc(4000) as buffer:

        def run() -> None:
            kernel(buffer, np.int32(1000), block=(128, 1, 1), grid=(8, 1, 1))

        for _ in range(3):
            run()
        return walk(run)


def replay() -> dict[str, int]:
    """``cuplug-trace replay FILE -a expandable`` of a hundred allocations."""
    from cuplug.tools import trace

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "recorded.cuplug"))
        with cuplug.Runtime(driver="sim", trace=file) as runtime:
            kept = [runtime.alloc(size << 10) for size in range(1, 101)]
            while kept:
                kept.pop(len(kept) // 2)

        def run() -> None:
            sys.argv = ["cuplug-trace", "replay", file, "-a", "expandable"]
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
                trace.main()

        run()
        return walk(run)


def backward() -> dict[str, int]:
    """The gradient of ``(a * b).sum()`` on the simulator."""
    a, b = (cuplug.ones(1000, device="cuda", requires_grad=True) for _ in range(2))

    def run() -> None:
        losses.pop().backward()

    losses = [(a * b).sum() for _ in range(4)]
    for _ in range(3):
        run()
    return walk(run)


def report() -> dict[str, int]:
    """``cuplug-trace report FILE`` of a hundred allocations."""
    from cuplug.tools import trace

    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "recorded.cuplug"))
        with cuplug.Runtime(driver="sim", trace=file) as runtime:
            kept = [runtime.alloc(size << 10) for size in range(1, 101)]
            while kept:
                kept.pop(len(kept) // 2)

        def run() -> None:
            sys.argv = ["cuplug-trace", "report", file, "-o", str(Path(folder, "report.html"))]
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
                trace.main()

        run()
        assert Path(folder, "report.html").exists()
        return walk(run)


WALKS = (allocation, launch, expression, backward, replay, report)

if __name__ == "__main__":
    cuplug.init(driver="sim")
    for each in WALKS:
        if each.__name__ in sys.argv[1:] or len(sys.argv) == 1:
            print(json.dumps({"walk": each.__name__, **each()}))
