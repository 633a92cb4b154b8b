"""An upstream whose streams do what the test says, and the histories of real programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.base import Allocator
from cuplug.allocators.block import Block
from cuplug.allocators.bump import BumpAllocator
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.direct import DirectAllocator
from cuplug.allocators.errors import DriverError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import is_available
from cuplug.allocators.upstream import Upstream
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.tools.foreign.load import load
from cuplug.tools.replaying.program import Program, decode
from cuplug.tools.replaying.replayer import ReplayResult, replay

TESTS = Path(__file__).resolve().parent.parent

FACTORIES: dict[str, Callable[..., Allocator]] = {
    "direct": DirectAllocator,
    "bump": BumpAllocator,
    "caching": CachingAllocator,
    "torch": lambda upstream, **options: CachingAllocator(upstream, preset="torch", **options),
}
CACHING = ["caching", "torch"]
if is_available():  # the same tests of the same strategies in C++
    from cuplug.allocators.native.strategies import NativeCaching

    FACTORIES["native"] = NativeCaching
    FACTORIES["native torch"] = lambda upstream, **options: NativeCaching(upstream, preset="torch", **options)
    CACHING += ["native", "native torch"]


class ManualUpstream(NullUpstream):
    """A device whose streams have finished what the test says, or what somebody has waited for.

    ``queue`` puts work on a stream that touches a block; ``finish`` lets a stream's work be done.
    """

    def __init__(self, total_bytes: int = 1 << 34) -> None:
        super().__init__(total_bytes)
        self.queued: defaultdict[int, int] = defaultdict(int)
        self.finished: defaultdict[int, int] = defaultdict(int)
        self.uses: list[tuple[int, int, int, int]] = []  # address, end, stream, its number there
        self.gone: set[int] = set()
        self.made: list[ManualFence] = []
        self.waits = 0
        self.faults: list[str] = []

    def queue(self, block: Block, stream: int) -> None:
        self.queued[stream] += 1
        self.uses.append((block.address, block.address + block.nbytes, stream, self.queued[stream]))

    def finish(self, stream: int) -> None:
        self.finished[stream] = self.queued[stream]

    def pending(self, address: int, nbytes: int) -> list[int]:
        """The streams on which work that touches the range is still queued."""
        self.uses = [use for use in self.uses if use[3] > self.finished[use[2]]]
        return [stream for start, end, stream, _ in self.uses if start < address + nbytes and end > address]

    def release(self, address: int) -> None:
        if self.pending(address, self._sizes.get(address, 0)):
            self.faults.append(f"{address:#x} was released under queued work")
        super().release(address)

    def fence(self, stream: int) -> ManualFence:
        if stream in self.gone:
            raise DriverError(400, "CUDA_ERROR_INVALID_HANDLE", f"stream {stream} was destroyed")
        self.fences += 1
        self.made.append(ManualFence(self, stream, self.queued[stream]))
        return self.made[-1]

    def rename(self, old: int, new: int) -> None:
        """A stream was destroyed: what is known of it goes by another name, and the handle is free."""
        for fence in self.made:
            if fence.stream == old:
                fence.stream = new


class ManualFence:
    def __init__(self, upstream: ManualUpstream, stream: int, number: int) -> None:
        self.upstream, self.stream, self.number = upstream, stream, number

    def done(self) -> bool:
        return self.upstream.finished[self.stream] >= self.number

    def wait(self) -> None:
        self.upstream.waits += 1
        self.upstream.finished[self.stream] = max(self.upstream.finished[self.stream], self.number)


@pytest.fixture
def manual() -> ManualUpstream:
    return ManualUpstream()


@pytest.fixture
def make_manual() -> Callable[..., ManualUpstream]:
    return ManualUpstream


@pytest.fixture(params=sorted(FACTORIES))
def make_allocator(request: pytest.FixtureRequest) -> Callable[[Upstream], Allocator]:
    return FACTORIES[request.param]


@pytest.fixture(params=CACHING)
def make_caching(request: pytest.FixtureRequest) -> Callable[..., CachingAllocator]:
    return FACTORIES[request.param]  # type: ignore[return-value]


@pytest.fixture(scope="session")
def history() -> Callable[[str], list[Program]]:
    """The recorded history of a real program, by name, decoded once."""
    known: dict[str, list[Program]] = {}

    def find(name: str) -> list[Program]:
        if name not in known:
            folders = TESTS.parent / "tools" / "data", TESTS / "data" / "traces", TESTS / "data" / "corpus"
            paths = [folder / f"{name}.pickle.xz" for folder in folders]
            known[name] = decode(load(next(path for path in paths if path.exists())))
        return known[name]

    return find


@pytest.fixture(scope="session")
def replayed(history: Callable[[str], list[Program]]) -> Callable[..., ReplayResult]:
    """What an allocator does with a recorded history, or with programs: ``replayed(name, "caching", memory=None)``.

    In the native core where there is one, in a tenth of the time: tests/native holds the two forms together on these
    histories, to the byte. CUPLUG_NATIVE=0 chooses Python.
    """
    upstream: Any = NullUpstream
    forms = {
        "caching": CachingAllocator, "torch": FACTORIES["torch"], "expandable": ExpandableAllocator,
        "expandable torch": partial(ExpandableAllocator, preset="torch"),
    }  # fmt: skip
    if is_available():
        from cuplug.allocators.native.strategies import NativeExpandable
        from cuplug.allocators.native.without_device import NativeNullUpstream

        upstream = NativeNullUpstream
        forms = {
            "caching": NativeCaching, "torch": FACTORIES["native torch"], "expandable": NativeExpandable,
            "expandable torch": partial(NativeExpandable, preset="torch"),
        }  # fmt: skip

    def find(name: str | list[Program], form: str, memory: int | None = None) -> ReplayResult:
        capacity = () if memory is None else (memory,)
        return replay(
            history(name) if isinstance(name, str) else name,
            forms[form],
            allocator=form,
            make_upstream=lambda ordinal: upstream(*capacity, ordinal=ordinal),
        )

    return find
