"""Runs the programs beside this file on PyTorch's own memory and on cuplug's, and compares what comes of them.

``python outcomes.py`` under the stand-in (``versions.py`` starts it so). PyTorch is loaded once: each program runs in
a child of its own. Ends with 1 where an outcome differs that should not.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import memory_programs as programs
import torch
from cuplug.allocators import _native
from cuplug.runtime.interop.torch.compilation import bridge_library
from cuplug.runtime.interop.torch.installation import _put_under, try_out

DIFFERENT = {
    (
        "sharing_with_another_process",
        "expandable",
    ): "RuntimeError this tensor cannot be shared",  # memory that does not exist
    ("expandable_says_what_it_is", "expandable"): [True, True, True, 1 << 20],
    ("a_setting_makes_plain_segments", "caching"): [False] * 6,
}
"""What may differ from PyTorch's own memory, as the guide says: how the outcome begins, or what it is."""
TOTAL = 80 << 30


def main() -> int:
    bridge_library()
    names = [name for name, each in vars(programs).items() if not name.startswith("_") and _is_program(each)]
    wrong = 0
    for name in sys.argv[1:] or names:
        natively = outcome(name, "")
        for allocator in ("caching", "expandable"):
            found = outcome(name, allocator)
            expected = DIFFERENT.get((name, allocator), natively)
            fine = (
                found.startswith(expected)
                if isinstance(expected, str) and isinstance(found, str)
                else found == expected
            )
            wrong += not fine
            print(f"{'same' if fine else 'WRONG'} {name} {allocator}", flush=True)
            if not fine:
                print(f"    natively {natively}\n    expected {expected}\n    found    {found}", flush=True)
    # Where nobody has said beforehand whether the allocators have pages, each device's own is asked.
    unsaid = "expandable_says_what_it_is", "expandable"
    found = outcome(*unsaid, said=False)
    wrong += found != DIFFERENT[unsaid]
    print(f"{'same' if found == DIFFERENT[unsaid] else 'WRONG'} {unsaid[0]} unsaid {found}", flush=True)
    for allocator in (
        "caching",
        "expandable",
    ):  # as a user installs it, over the core's own upstream and without PyCUDA
        verdict = try_out(allocator, again=True)
        fine = verdict.state == "passed"
        wrong += not fine
        print(f"{'same' if fine else 'WRONG'} self_test {allocator} {verdict.seconds:.1f} s {verdict.text}", flush=True)
    print(f"PyTorch {torch.__version__}: {len(names)} programs, {wrong} outcomes differ", flush=True)
    return 1 if wrong else 0


def outcome(name: str, allocator: str, *, said: bool = True) -> Any:
    """What a program gives, or raises, on an allocator; on PyTorch's own if that is empty. ``said``: whether the bridge
    is told beforehand what the allocator will be."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if allocator:
                _put_under(lambda _device: make(allocator), strategy=allocator if said else None)
            found = getattr(programs, name)()
        except BaseException as error:
            found = f"{type(error).__name__} {error}".splitlines()[0]
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return json.loads(text) if text else f"ended with {status}"


def make(strategy: str) -> int:
    """A handle of a core's allocator over memory that does not exist."""
    core = ctypes.CDLL(_native.__file__)
    upstream, handle = ctypes.create_string_buffer(1024), ctypes.c_void_p()
    sizes = [ctypes.c_uint64(nbytes) for nbytes in (TOTAL, 512, 2 << 20)]
    assert core.cuplug_null_upstream_with_pages(*sizes, upstream) == 0
    assert (
        core.cuplug_allocator_create(strategy.encode(), None, ctypes.c_size_t(0), upstream, ctypes.byref(handle)) == 0
    )
    kept.append(upstream)
    return int(handle.value or 0)


def _is_program(each: Callable[[], Any] | Any) -> bool:
    return callable(each) and getattr(each, "__module__", "") == programs.__name__


kept: list[Any] = []

if __name__ == "__main__":
    sys.exit(main())
