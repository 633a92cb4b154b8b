"""Allocations between a program's other work: caches emptied, sizes as recorded, most of them no cache hits.

Before each allocation 64 MiB of host memory are touched, so that little of the allocator is left in the processor's
caches. The calls follow a recorded history, frees included. Its first half is gone through untimed, as a program warms
up; of the second half allocations are timed, each by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from ... import cuda
from ...allocators.native import is_available, why_not
from ...runtime.machine.default_runtime import default_runtime
from ..foreign.load import load
from ..replaying.program import Program, decode

EVICTED = 64 << 20
"""Bytes that are touched before each call."""
Allocate = Callable[[int], Any]
Free = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class Spread:
    """What single calls took, in nanoseconds."""

    median: float
    p99: float

    @classmethod
    def of(cls, times: Any) -> Spread:
        """From the times of all calls."""
        return cls(float(np.median(times)), float(np.percentile(times, 99)))


def default_history() -> Path:
    """GPT-2 with texts of several lengths, where the repository is there; else the history that is installed."""
    root = Path(__file__).resolve().parents[2]
    varlen = root / "tests" / "data" / "traces" / "gpt2_varlen.pickle.xz"
    return varlen if varlen.exists() else root / "tools" / "data" / "resnet_multiscale.pickle.xz"


def cold(path: Path, *, calls: int) -> tuple[dict[str, Spread], dict[str, str]]:
    """Allocations of a recorded history, ``calls`` of them from its middle on, by each contender; and why others are
    left out."""
    program = decode(load(path))[0]
    found: dict[str, Spread] = {}
    missing: dict[str, str] = {}
    for name, make in (("cuplug", _cuplug), ("cuplug Buffer", _buffer), ("PyTorch raw_alloc", _torch)):
        try:
            allocate, free = make()
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
            continue
        found[name] = Spread.of(_follow(program, allocate, free, calls))
    return found, missing


def from_threads(path: Path, *, calls: int, threads: int = 8) -> tuple[dict[str, Spread], dict[str, str]]:
    """The same sizes from threads of C at once, with and without a thread that computes in Python without pause."""
    if not is_available():
        return {}, {"cuplug from C threads": str(why_not())}
    from ...allocators import _native

    program = decode(load(path))[0]
    sizes = [min(nbytes, 16 << 20) for nbytes in program.sizes[: calls * threads].tolist()]
    handle = cuda.allocator_handle()
    found = {}
    for name, beside in (("alone", _nothing), ("beside Python", _computing)):
        with beside():
            times = _native.time_threads(handle, sizes, threads, calls, 16, EVICTED // threads)
        found[f"cuplug from {threads} C threads, {name}"] = Spread.of(times)
    return found, {}


def _follow(program: Program, allocate: Allocate, free: Free, calls: int) -> list[int]:
    blocks: dict[int, Any] = {}
    memory = np.ones(EVICTED, np.uint8)
    times: list[int] = []
    sizes, steps = program.sizes.tolist(), program.steps.tolist()
    half = len(steps) // 2
    for number, step in enumerate(steps):
        if len(times) == calls:
            break
        if step == 0:
            continue  # the cache is emptied
        if step < 0:
            free(blocks.pop(-step))
        elif number < half:
            blocks[step] = allocate(sizes[step - 1])
        else:
            memory[::64] += 1
            nbytes = sizes[step - 1]
            start = perf_counter_ns()
            block = allocate(nbytes)
            times.append(perf_counter_ns() - start)
            blocks[step] = block
    for block in blocks.values():
        free(block)
    return times


def _cuplug() -> tuple[Allocate, Free]:
    allocator = default_runtime().allocator(0)
    return lambda nbytes: allocator.allocate(nbytes, stream=0), allocator.free


def _buffer() -> tuple[Allocate, Free]:
    return cuda.alloc, lambda buffer: buffer.close()


def _torch() -> tuple[Allocate, Free]:
    import torch

    torch.cuda.init()
    allocate: Any = torch._C._cuda_cudaCachingAllocator_raw_alloc
    return lambda nbytes: allocate(nbytes, 0), torch._C._cuda_cudaCachingAllocator_raw_delete


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _computing() -> Iterator[None]:
    """With a thread that computes in Python without pause."""
    end = threading.Event()

    def compute() -> None:
        total = 0
        while not end.is_set():
            for number in range(1000):
                total += number * number

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
