"""CUDA tensors that go to another process and come back: ``python sharing.py SENDER RECEIVER [ROUNDS]``.

Each of the two is ``native``, ``native-expandable``, ``caching``, ``expandable``, or ``expandable-confined``, which the
kernel forbids to take files from other processes (pidfd_getfd), as containers do. Both ends write into what the other
has sent, and look at what was written. At the end neither has more open files, mappings or device memory than after
half of the rounds. Runs on a GPU, or on several in turn, and under the stand-in of ``fake_cuda``, where
memory without pages is not sent. Prints what was shared, and ends with 1 where something is wrong.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from itertools import pairwise
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

MIB = 1 << 20
SIZES = [700, 3 * MIB, 40 * MIB + 4096, 100 * MIB, 256 * MIB]
STAND_IN = "CUPLUG_FAKE_CUDA" in os.environ
WITH_PAGES = ("expandable", "expandable-confined", "native-expandable")
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
        device = torch.device("cuda", number % torch.cuda.device_count())
        for nbytes in SIZES:
            sent = torch.empty(nbytes, dtype=torch.uint8, device=device)
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
        if number in (rounds // 2, rounds - 1):  # by then the driver has what it needs for itself
            for _ in range(2):  # each end gives back at first what the other has let go of, or it stands in the figures
                other.send("figures")
                theirs_now = other.recv()
                torch.cuda.ipc_collect()
                ours_now = figures(torch)
            settled.append((ours_now, theirs_now))
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
            for index in range(torch.cuda.device_count() if not STAND_IN else 0):  # read from there, too
                if values(theirs.cuda(index)) != {value}:
                    outcome = f"device {index} does not see it"
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
        made["CUPLUG_TORCH"] = kind.partition("-")[0]
    return made


def forbid_pidfd_getfd() -> None:
    """Have the kernel answer "operation not permitted", for this thread and all that come of it."""
    loads_number, jumps_if, answers = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ, BPF_RET
    pidfd_getfd, not_permitted, allowed = 438, 0x00050001, 0x7FFF0000
    steps = [
        (loads_number, 0, 0, 0),
        (jumps_if, 0, 1, pidfd_getfd),
        (answers, 0, 0, not_permitted),
        (answers, 0, 0, allowed),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    library = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, by_filter = 38, 22, 2
    assert library.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert library.prctl(seccomp, by_filter, program) == 0, os.strerror(ctypes.get_errno())


def import_torch() -> Any:
    """PyTorch, on cuplug's memory where ``CUPLUG_TORCH`` says so, and with its ways of sending tensors."""
    if os.environ["CUPLUG_SHARING"].endswith("-confined"):
        forbid_pidfd_getfd()
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
        sys.modules["torch"].cuda.synchronize(tensor.device)


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
    used = sum(total - free for free, total in map(torch.cuda.mem_get_info, range(torch.cuda.device_count())))
    with open("/proc/self/maps") as maps:
        mappings = sum(1 for _ in maps)
    return {"files": len(os.listdir("/proc/self/fd")), "mappings": mappings, "device bytes": used}


if __name__ == "__main__":
    sys.exit(main())
