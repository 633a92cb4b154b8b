"""A program that uses the binding in every way, from several threads: ``... EXTENSION FOLDER [alone]``.

``EXTENSION`` stands in the place of the installed one. ``alone``: without the simulator, whose addresses are those
of ThreadSanitizer's own tables."""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

NAME = "cuplug.allocators._native"


class Finder:
    """Finds the extension at the path that the program was given."""

    @staticmethod
    def find_spec(name: str, *_rest: object) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, sys.argv[1]) if name == NAME else None


sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]

import cuplug  # noqa: E402
from cuplug import cuda  # noqa: E402
from cuplug.allocators import _native  # noqa: E402
from cuplug.allocators.upstreams.null import NullUpstream  # noqa: E402
from cuplug.plugins.manager import default_manager  # noqa: E402
from cuplug.plugins.tracing.reader import read_trace  # noqa: E402
from cuplug.plugins.tracing.recorder import TraceRecorder  # noqa: E402

assert _native.__file__ == sys.argv[1]
KIB, MIB = 1 << 10, 1 << 20
SIZES = [1000, 3 * MIB, 700 * KIB, 12 * MIB, 20, 5 * MIB]


def work(shared: list[Any], rounds: int) -> None:
    """Allocates, frees, hands over; streams, tags, statistics, maps; errors."""
    for number in range(rounds):
        own = cuda.Stream()
        with cuda.stream(own), cuda.memory_tag(f"tag {number % 3}"):
            held = [cuda.alloc(size) for size in SIZES]
        held[number % 6].record_stream(cuda.default_stream())
        shared.append(held.pop())
        if len(shared) > 4:
            shared.pop(0).close()
        held.pop().close()
        cuda.memory_stats()
        cuda.memory_snapshot()
        with suppress(cuplug.OutOfMemoryError):
            cuda.alloc(1 << 50)
        if number % 5 == 0:
            cuda.empty_cache()
        del held, own


def on_the_simulator(selection: str, path: Path) -> None:
    """A whole runtime, which begins and ends."""
    cuplug.init(driver="sim:memory=1GiB", allocator=selection, trace=path)
    shared: list[Any] = []
    in_threads(lambda: work(shared, 8))
    for _ in range(40):
        for size in SIZES:
            cuda.alloc(size).close()  # what repeats is planned
    kept = [cuda.alloc(size) for size in SIZES]
    kept.append(kept)
    shared.clear()
    cuplug.shutdown()


def alone(selection: str, path: Path) -> None:
    """An allocator over an upstream of Python's, and its trace."""
    allocator = default_manager().make_allocator(selection, NullUpstream(1 << 30))
    recorder = TraceRecorder(path)
    allocator.attach(recorder.observer(0))
    shared: list[Any] = []

    def use() -> None:
        stream = threading.get_ident() % 97
        for _ in range(40):
            held = [allocator.allocate(size, stream=stream) for size in SIZES]
            allocator.record_stream(held[0], 1)
            shared.append(held.pop())
            if len(shared) > 4:
                allocator.free(shared.pop(0))
            for block in held:
                allocator.free(block)
            with suppress(cuplug.OutOfMemoryError):
                allocator.allocate(1 << 50, stream=stream)
            allocator.statistics()
            allocator.segments()
            allocator.live_blocks()
        allocator.release_cached()
        allocator.forget_stream(stream)

    in_threads(use)
    allocator.close()
    recorder.close()


def in_threads(use: Callable[[], None]) -> None:
    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    use()
    for thread in threads:
        thread.join()


for selection in ("caching", "caching:preset=torch", "expandable:host=64MiB", "planned:learn=3"):
    path = Path(sys.argv[2], "trace.cuplug")
    for run in (alone,) if sys.argv[3:] else (alone, on_the_simulator):
        run(selection, path)
        gc.collect()
        assert len(read_trace(path).events) > 500
print("went well")
