"""CUDA tensors that go to another process and come back: ``python sharing.py SENDER RECEIVER [ROUNDS]``.

Each of the two is ``native``, ``native-expandable``, ``caching`` or ``expandable``. Both ends write into what the other
has sent, and look at what was written. At the end neither has more open files, mappings or device memory than after a
tenth of the rounds. Runs on a GPU, and under the stand-in of ``fake_cuda``, where memory without pages is not sent.
Prints what was shared, and ends with 1 where something is wrong.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from itertools import pairwise
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

MIB = 1 << 20
SIZES = [700, 3 * MIB, 40 * MIB + 4096, 100 * MIB, 256 * MIB]
STAND_IN = "CUPLUG_FAKE_CUDA" in os.environ
WITH_PAGES = ("expandable", "native-expandable")
SPARE = {"mappings": 4, "device bytes": 8 * MIB}
"""What may be more at the end all the same: libraries and the driver take something once. A page lost in each round of
a thousand exchanges is a hundred times as much."""


def main() -> int:
    if sys.argv[1] == "--receive":
        return receive(sys.argv[2])
    sender, receiver = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    with Listener(family="AF_UNIX") as listener:
        command = [sys.executable, __file__, "--receive", str(listener.address)]
        child = subprocess.Popen(command, env=environment(receiver))
        os.environ.update(environment(sender))
        with listener.accept() as other:
            try:
                return send(other, rounds, f"{sender} -> {receiver}")
            finally:
                other.close()
                child.wait(60)


def send(other: Connection, rounds: int, title: str) -> int:
    torch = import_torch()
    settled: list[Any] = []
    failures: list[str] = []
    for number in range(rounds):
        for nbytes in SIZES:
            sent = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
            fill(sent, number % 100 + 1)
            other.send((nbytes, number % 100 + 1, sent))
            answer = received(other)
            outcome, theirs = (f"on the way back: {answer}", None) if isinstance(answer, str) else answer
            if outcome != "fine":
                failures.append(f"{nbytes} bytes: {outcome}")
            elif values(sent) != {number % 100 + 101}:
                failures.append(f"{nbytes} bytes: what was written there is not seen here")
            elif theirs is not None and values(theirs) != {7}:
                failures.append(f"{nbytes} bytes: what came back is not what was sent")
            del sent, theirs, answer
            other.send("dropped")
        if number in (rounds // 10, rounds - 1):
            torch.cuda.ipc_collect()
            other.send("figures")
            settled.append((figures(torch), other.recv()))
    other.send("end")
    grown = [
        f"{name} {after[name] - before[name]:+}"
        for befores, afters in pairwise(settled)
        for before, after in zip(befores, afters, strict=True)
        for name in before
        if after[name] > before[name] + SPARE.get(name, 0)
    ]
    passed = rounds * len(SIZES) - len(failures)
    print(f"{title}: {passed} of {rounds * len(SIZES)} exchanges, grown: {', '.join(grown) or 'nothing'}", flush=True)
    for text in dict.fromkeys(failures):
        print(f"    {text}", flush=True)
    return 1 if failures or grown else 0


def receive(address: str) -> int:
    torch = import_torch()
    with Client(address) as other:
        while True:
            message = received(other)
            if message == "end":
                return 0
            if message == "figures":
                torch.cuda.ipc_collect()
                other.send(figures(torch))
                continue
            if isinstance(message, str):
                other.send((message, None))
                assert other.recv() == "dropped"
                continue
            nbytes, value, theirs = message
            outcome = "fine" if values(theirs) == {value} else f"it holds {values(theirs)} and not {value}"
            fill(theirs, value + 100)
            ours = None
            if not STAND_IN or os.environ["CUPLUG_SHARING"] in WITH_PAGES:
                ours = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
                fill(ours, 7)
            del message, theirs
            other.send((outcome, ours))
            assert other.recv() == "dropped"
            del ours


def received(other: Connection) -> Any:
    """What the other end has sent, or the error in words that opening it gives."""
    try:
        return other.recv()
    except EOFError:
        raise
    except Exception as error:
        return f"{type(error).__name__} {str(error).splitlines()[0]}"


def environment(kind: str) -> dict[str, str]:
    """The variables that put a process on this kind of memory."""
    made = {name: text for name, text in os.environ.items() if name not in ("CUPLUG_TORCH", "PYTORCH_CUDA_ALLOC_CONF")}
    made["CUPLUG_SHARING"] = kind
    if kind == "native-expandable":
        made["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    elif kind != "native":
        made["CUPLUG_TORCH"] = kind
    return made


def import_torch() -> Any:
    """PyTorch, on cuplug's memory where ``CUPLUG_TORCH`` says so, and with its ways of sending tensors."""
    import torch
    import torch.multiprocessing  # it teaches pickles of connections what a tensor is

    if os.environ.get("CUPLUG_TORCH"):
        from cuplug.interop.torch import install, is_installed

        if not is_installed():
            install(os.environ["CUPLUG_TORCH"])
        assert is_installed()
    torch.cuda.init()
    return torch


def fill(tensor: Any, value: int) -> None:
    if STAND_IN:
        for place in places(tensor):
            ctypes.memset(place, value, 1)
    else:
        tensor.fill_(value)
        sys.modules["torch"].cuda.synchronize()


def values(tensor: Any) -> set[int]:
    if STAND_IN:
        return {ctypes.string_at(place, 1)[0] for place in places(tensor)}
    return {int(tensor.min()), int(tensor.max())}


def places(tensor: Any) -> list[int]:
    """Addresses all over a tensor, its last byte among them."""
    last = tensor.data_ptr() + tensor.numel() - 1
    return [*range(tensor.data_ptr(), last, MIB), last]


def figures(torch: Any) -> dict[str, int]:
    """What must not grow."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    with open("/proc/self/maps") as maps:
        mappings = sum(1 for _ in maps)
    return {"files": len(os.listdir("/proc/self/fd")), "mappings": mappings, "device bytes": total - free}


if __name__ == "__main__":
    sys.exit(main())
