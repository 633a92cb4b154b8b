"""The native core by itself, through its C interface: built by the tests, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.allocators.native import is_available
from cuplug.allocators.statistics import Counter, Counters, Statistics

if is_available():
    from cuplug.allocators import _native

ROOT = Path(__file__).parents[2]
CUDA_STAND_IN = ROOT / "tests" / "interop" / "torch" / "fake_cuda" / "driver.c"
NATIVE = ROOT / "allocators" / "native"
ROOMS = [NATIVE, *(ROOT / room / "native" for room in ("runtime/drivers/cuda", "plugins/tracing", "tools/replaying"))]
FLAGS = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", f"-I{NATIVE}"]
OK, OUT_OF_MEMORY, FAILED, NOT_LIVE = 0, 1, 2, 3
NO_LIMIT = (1 << 64) - 1

_U64, _P = ctypes.c_uint64, ctypes.c_void_p
_NUMBER = ctypes.POINTER(_U64)


def sources() -> list[Path]:
    """The files of the core and of what is linked to it, without the interpreter's binding."""
    return [path for room in ROOMS for path in sorted(room.glob("*.cpp")) if not path.name.startswith("python_")]


def compiler() -> str | None:
    """A C++ compiler, or None."""
    return shutil.which("g++") or shutil.which("c++")


def build_cuda_stand_in(source: Path, folder: Path) -> None:
    """Compile a stand-in for CUDA's driver to ``folder``, which is what ``LD_LIBRARY_PATH`` has to name."""
    command = ["gcc", "-shared", "-fPIC", "-O1", str(source), "-Wl,-soname,libcuda.so.1", "-o"]
    subprocess.run([*command, str(folder / "libcuda.so.1")], check=True)


def build(made: Path, *flags: str, program: Path | None = None) -> Path:
    """Compile the core, with ``program`` if there is one, and link all to ``made``.

    Compilers spend most of their time on the headers that every file includes. So the files are compiled together, but
    for the upstreams, whose functions share names: it takes a fifth of the time. With a program, CUDA's is
    left out.
    """
    found = compiler()
    assert found is not None
    apart = [path for path in sources() if path.stem.endswith("_upstream")]
    together = made.with_suffix(".together.cpp")
    together.write_text("".join(f'#include "{path}"\n' for path in sources() if path not in apart))
    objects = []
    for path in (together, *apart, *([program] if program else [])):
        if program and path.stem == "cuda_upstream":
            continue
        objects.append(str(made.with_suffix(f".{path.stem}.o")))
        subprocess.run([found, *FLAGS, *flags, "-c", str(path), "-o", objects[-1]], check=True)
    subprocess.run([found, *flags, *objects, "-ldl", "-pthread", "-o", str(made)], check=True)
    return made


@functools.cache
def library() -> ctypes.CDLL:
    """The core as a shared library: what ``CUPLUG_CORE`` names, the installed one, or one that is compiled now."""
    built = os.environ.get("CUPLUG_CORE") or (_native.__file__ if is_available() else None)
    if built:
        loaded = ctypes.CDLL(built)
    else:
        with tempfile.TemporaryDirectory(prefix="cuplug-core-") as folder:
            loaded = ctypes.CDLL(str(build(Path(folder) / "core.so", "-O1", "-shared")))
    loaded.cuplug_block_address.restype = loaded.cuplug_block_nbytes.restype = _U64
    loaded.cuplug_set_memory_tag.restype = _U64
    loaded.cuplug_take_events.restype = ctypes.c_size_t
    return loaded


class _Table(ctypes.Structure):
    """``cuplug_upstream``."""

    _fields_ = [
        ("context", _P),
        ("reserve", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _NUMBER)),
        ("release", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64)),
        ("memory_info", ctypes.CFUNCTYPE(ctypes.c_int, _P, _NUMBER, _NUMBER)),
        ("fence", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, ctypes.POINTER(_P))),
        ("fence_done", ctypes.CFUNCTYPE(ctypes.c_int, _P, _P, ctypes.POINTER(ctypes.c_int))),
        ("fence_wait", ctypes.CFUNCTYPE(ctypes.c_int, _P, _P)),
        ("fence_drop", ctypes.CFUNCTYPE(None, _P, _P)),
        ("granularity", _U64),
        ("page_granularity", _U64),
        ("reserve_range", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _NUMBER)),
        ("free_range", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64)),
        ("create_page", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _NUMBER)),
        ("release_page", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64)),
        ("map", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64, _U64)),
        ("set_access", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64)),
        ("unmap", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64)),
        ("close", ctypes.CFUNCTYPE(None, _P)),
        ("fence_everything", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, ctypes.POINTER(_P))),
        ("create_host_page", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _NUMBER)),
        ("export_page", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, ctypes.POINTER(ctypes.c_int))),
    ]  # fmt: skip


class _Option(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        *((name, _U64) for name in ("time_ns", "thread", "stream", "address", "nbytes", "requested", "context")),
    ]


class _Counter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("current", "peak", "allocated", "freed")]


class _Counters(ctypes.Structure):
    _fields_ = [(name, _Counter) for name in Counters.__slots__]


class _Statistics(ctypes.Structure):
    _fields_ = [
        *((name, _Counters) for name in ("all", "small", "large")),
        *((name, ctypes.c_int64) for name in Statistics.__slots__[3:]),
    ]


class _Piece(ctypes.Structure):
    _fields_ = [*((name, _U64) for name in ("address", "nbytes", "requested")), ("state", ctypes.c_int)]


class _Segment(ctypes.Structure):
    _fields_ = [
        *((name, _U64) for name in ("address", "nbytes", "stream")),
        ("first", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
        ("small", ctypes.c_int),
        ("expandable", ctypes.c_int),
    ]


class _Map(ctypes.Structure):
    _fields_ = [
        ("segment_count", ctypes.c_size_t),
        ("piece_count", ctypes.c_size_t),
        ("segments", ctypes.POINTER(_Segment)),
        ("pieces", ctypes.POINTER(_Piece)),
    ]


class _Keeper(ctypes.Structure):
    """``cuplug_keeper``."""

    _fields_ = [
        ("context", _P),
        ("save", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64, ctypes.POINTER(_P))),
        ("restore", ctypes.CFUNCTYPE(ctypes.c_int, _P, _P)),
        ("wait", ctypes.CFUNCTYPE(ctypes.c_int, _P, _P)),
        ("drop", ctypes.CFUNCTYPE(None, _P, _P)),
    ]  # fmt: skip


class _Copier(ctypes.Structure):
    """``cuplug_copier``."""

    _fields_ = [
        ("context", _P),
        ("copy", ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64, _U64)),
        ("wait", ctypes.CFUNCTYPE(ctypes.c_int, _P)),
    ]  # fmt: skip


class _Sleeping(ctypes.Structure):
    _fields_ = [(name, _U64) for name in ("tag", "blocks", "nbytes", "kept_bytes")]


class _NullCounts(ctypes.Structure):
    _fields_ = [
        *((name, _U64) for name in (
            "cuMemAlloc", "cuMemFree", "cuMemAddressReserve", "cuMemAddressFree", "cuMemCreate", "cuMemMap",
            "cuMemSetAccess", "cuMemUnmap", "cuMemRelease", "fences",
        )),
        ("driver_time_us", ctypes.c_double),
        ("used_bytes", _U64),
        ("total_bytes", _U64),
        ("pages", _U64),
        ("cuMemCreate (host)", _U64),
        ("used_host_bytes", _U64),
    ]  # fmt: skip


class _Shortage(ctypes.Structure):
    _fields_ = [(name, _U64) for name in (
        "requested", "stream", "free_bytes", "total_bytes", "memory_limit", "allocated_bytes", "requested_bytes",
        "reserved_bytes", "largest_free", "lost_bytes",
    )]  # fmt: skip


class _Replayed(ctypes.Structure):
    _fields_ = [
        ("done", ctypes.c_size_t),
        ("out_of_memory", ctypes.c_size_t),
        ("first_failure", ctypes.c_size_t),
        ("shortage", _Shortage),
    ]


_HOOK = ctypes.CFUNCTYPE(ctypes.c_int, _P, _U64, _U64)


class Core:
    """A native allocator over an upstream that is an object of Python's."""

    def __init__(self, strategy: str, upstream: Any, **options: object) -> None:
        """Over ``upstream``; None for the native null upstream."""
        self._library = library()
        self._upstream = upstream
        self._fences: dict[int, Any] = {}
        self._copies: dict[int, Any] = {}
        self._keepers: list[Any] = []
        if upstream is not None:
            self._table = self._make_table()
        else:
            self._table = _Table()
            self._check(self._library.cuplug_null_upstream(_U64(1 << 50), _U64(512), ctypes.byref(self._table)))
        given = [(name.encode(), str(value).encode()) for name, value in options.items() if value is not None]
        made = _P()
        code = self._library.cuplug_allocator_create(
            strategy.encode(), (_Option * len(given))(*given), ctypes.c_size_t(len(given)),
            ctypes.byref(self._table), ctypes.byref(made),
        )  # fmt: skip
        self._check(code)
        self._handle = made
        self._hook: Any = None

    def allocate(self, nbytes: int, stream: int) -> int:
        """The handle of a new block."""
        block = _P()
        self._call("cuplug_allocate", _U64(nbytes), _U64(stream), _U64(0), ctypes.byref(block))
        return block.value or 0

    def free(self, block: int) -> None:
        self._call("cuplug_free", _P(block), _U64(0))

    def record_stream(self, block: int, stream: int) -> None:
        self._call("cuplug_record_stream", _P(block), _U64(stream), _U64(0))

    def address(self, block: int) -> int:
        return int(self._library.cuplug_block_address(_P(block)))

    def nbytes(self, block: int) -> int:
        return int(self._library.cuplug_block_nbytes(_P(block)))

    def sleep(self, tag: int, keep: Callable[[int, int], Any] | None) -> int:
        """What was given back. ``keep`` as of ``Allocator.sleep``."""
        nbytes = _U64()
        keeper = None if keep is None else ctypes.byref(self._keeper(keep))
        self._call("cuplug_sleep", _U64(tag), keeper, ctypes.byref(nbytes))
        return nbytes.value

    def wake(self, tag: int) -> int:
        nbytes = _U64()
        self._call("cuplug_wake", _U64(tag), ctypes.byref(nbytes))
        return nbytes.value

    def move(self, tag: int, to_host: int, copier: Any) -> int:
        """What was taken. ``copier`` as of ``Allocator.move``."""
        nbytes = _U64()
        given = None if copier is None else ctypes.byref(self._copier(copier))
        self._call("cuplug_move", _U64(tag), ctypes.c_int(to_host), given, ctypes.byref(nbytes))
        return nbytes.value

    def asleep(self) -> list[tuple[int, ...]]:
        found, count = (_Sleeping * 8)(), ctypes.c_size_t()
        self._call("cuplug_get_sleeping", found, ctypes.c_size_t(8), ctypes.byref(count))
        return [(one.tag, one.blocks, one.nbytes, one.kept_bytes) for one in found[: count.value]]

    def set_memory_tag(self, tag: int) -> None:
        self._library.cuplug_set_memory_tag(_U64(tag))

    def forget_stream(self, stream: int) -> None:
        self._call("cuplug_forget_stream", _U64(stream))

    def release_forgotten(self, stream: int) -> int:
        released = _U64()
        self._call("cuplug_release_forgotten", _U64(stream), ctypes.byref(released))
        return released.value

    def release_cached(self) -> int:
        released = _U64()
        self._call("cuplug_release_cached", ctypes.byref(released))
        return released.value

    def set_memory_limit(self, limit: int | None) -> None:
        self._call("cuplug_allocator_set_memory_limit", _U64(NO_LIMIT if limit is None else limit))

    def set_hook(self, hook: Callable[[int, int], bool] | None) -> None:
        self._hook = _HOOK(0 if hook is None else lambda _, nbytes, stream: int(hook(nbytes, stream)))
        self._library.cuplug_allocator_set_out_of_memory_hook(self._handle, self._hook, None)

    def reset_peaks(self) -> None:
        self._call("cuplug_reset_peaks")

    def reset_accumulated(self) -> None:
        self._call("cuplug_reset_accumulated")

    def observe(self) -> None:
        self._library.cuplug_observe(self._handle, 1)

    def events(self) -> list[tuple[int, ...]]:
        """The events since the last call: kind, stream, address, nbytes, requested, context."""
        found: list[tuple[int, ...]] = []
        chunk = (_Event * 1024)()
        while count := self._library.cuplug_take_events(self._handle, chunk, ctypes.c_size_t(1024)):
            found += [(e.kind, e.stream, e.address, e.nbytes, e.requested, e.context) for e in chunk[:count]]
        return found

    def statistics(self) -> dict[str, Any]:
        counted = _Statistics()
        self._call("cuplug_get_statistics", ctypes.byref(counted))
        return flat(counted)

    def served(self) -> tuple[int, ...]:
        counted = (_U64 * 4)()
        self._call("cuplug_get_served", ctypes.byref(counted))
        return tuple(counted)

    def segments(self) -> list[tuple[Any, ...]]:
        made = ctypes.POINTER(_Map)()
        self._call("cuplug_get_segments", ctypes.byref(made))
        whole = made.contents
        states = ("active_allocated", "active_pending_free", "inactive")
        pieces = [(p.address, p.nbytes, p.requested, states[p.state]) for p in whole.pieces[: whole.piece_count]]
        result = [
            (s.address, s.nbytes, s.stream, "small" if s.small else "large", bool(s.expandable & 1),
             s.expandable >> 8, bool(s.expandable & 2), bool(s.expandable & 4),
             tuple(pieces[s.first : s.first + s.count]))
            for s in whole.segments[: whole.segment_count]
        ]  # fmt: skip
        self._library.cuplug_map_free(made)
        return result

    def replay(self, steps: list[int], sizes: list[int], streams: list[int]) -> Any:
        """Take a history's steps; what ``cuplug_replay`` says of it, and the seconds that it took."""
        count, blocks = len(sizes), (_P * len(sizes))()
        result = _Replayed()
        arguments = (
            (ctypes.c_int64 * len(steps))(*steps), ctypes.c_size_t(len(steps)), (_U64 * count)(*sizes),
            (_U64 * count)(*streams), blocks, 0, ctypes.byref(result),
        )  # fmt: skip
        began = time.perf_counter()
        self._call("cuplug_replay", *arguments)
        return result, time.perf_counter() - began

    def null_counts(self) -> dict[str, Any]:
        """What the native null upstream has counted."""
        counts = _NullCounts()
        self._check(self._library.cuplug_null_upstream_counts(ctypes.byref(self._table), ctypes.byref(counts)))
        return {name: getattr(counts, name) for name, *_ in _NullCounts._fields_}

    def close(self) -> None:
        self._call("cuplug_allocator_close")

    def destroy(self) -> None:
        self._library.cuplug_allocator_destroy(self._handle)

    @property
    def copies(self) -> int:
        """How many copies of contents it still keeps."""
        return len(self._copies)

    @property
    def fences(self) -> int:
        """How many fences it still keeps."""
        return len(self._fences)

    # --- tables of functions

    def _keeper(self, keep: Callable[[int, int], Any]) -> _Keeper:
        copies = self._copies

        def save(_context: object, address: int, nbytes: int, made: Any) -> int:
            try:
                copy = keep(address, nbytes)
            except OutOfMemoryError:
                return OUT_OF_MEMORY
            except DriverError:
                return FAILED
            copies[id(copy)] = copy
            made[0] = id(copy)
            return OK

        def called(name: str) -> Any:
            def call(_context: object, copy: int) -> int:
                try:
                    getattr(copies[copy], name)()
                except DriverError:
                    return FAILED
                return OK

            return call

        def drop(_context: object, copy: int) -> None:
            del copies[copy]

        kinds = dict(_Keeper._fields_)
        made = _Keeper(
            None, kinds["save"](save), kinds["restore"](called("restore")), kinds["wait"](called("wait")),
            kinds["drop"](drop),
        )  # fmt: skip
        self._keepers.append(made)
        return made

    def _copier(self, copier: Any) -> _Copier:
        def answered(name: str) -> Any:
            def call(_context: object, *arguments: int) -> int:
                try:
                    getattr(copier, name)(*arguments)
                except DriverError:
                    return FAILED
                return OK

            return call

        kinds = dict(_Copier._fields_)
        made = _Copier(None, kinds["copy"](answered("copy")), kinds["wait"](answered("wait")))
        self._copiers = made  # lives as long as the core may call it
        return made

    def _make_table(self) -> _Table:
        upstream, fences = self._upstream, self._fences
        table = _Table()
        table.granularity = upstream.granularity

        def answered(work: Callable[..., int | None], numbers: int) -> Any:
            """``work`` as a function of C: its result goes where the last argument points."""

            def call(_context: object, *arguments: Any) -> int:
                try:
                    result = work(*arguments[:numbers])
                except OutOfMemoryError:
                    return OUT_OF_MEMORY
                except DriverError:
                    return FAILED
                if len(arguments) > numbers:
                    arguments[numbers][0] = result
                return OK

            return call

        def memory_info(_context: object, free: Any, total: Any) -> int:
            try:
                free[0], total[0] = upstream.memory_info()
            except DriverError:
                return FAILED
            return OK

        def keep(made: Any) -> int:
            fences[id(made)] = made
            return id(made)

        def drop(_context: object, handle: int) -> None:
            del fences[handle]

        functions: dict[str, Any] = {
            "reserve": answered(upstream.reserve, 1),
            "release": answered(upstream.release, 1),
            "memory_info": memory_info,
            "fence": answered(lambda stream: keep(upstream.fence(stream)), 1),
            "fence_done": answered(lambda handle: fences[handle].done(), 1),
            "fence_wait": answered(lambda handle: fences[handle].wait(), 1),
            "fence_drop": drop,
        }
        if hasattr(upstream, "fence_everything"):
            functions["fence_everything"] = answered(lambda stream: keep(upstream.fence_everything(stream)), 1)
        virtual = upstream.virtual
        if virtual is not None:
            table.page_granularity = virtual.granularity
            for name, count in (
                ("reserve_range", 1), ("free_range", 2), ("create_page", 1), ("create_host_page", 1),
                ("release_page", 1), ("map", 3), ("set_access", 2), ("unmap", 2),
            ):  # fmt: skip
                functions[name] = answered(getattr(virtual, name), count)
        kinds = dict(_Table._fields_)
        for name, function in functions.items():
            setattr(table, name, kinds[name](function))
        return table

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(getattr(self._library, name)(self._handle, *arguments))

    def _check(self, code: int) -> None:
        if code == OUT_OF_MEMORY:
            raise OutOfMemoryError("the core")
        if code == FAILED:
            raise DriverError(0, "FAILED", "the core")
        if code != OK:
            raise RuntimeError(f"the core answers {code}")


def flat(counted: Any) -> dict[str, Any]:
    """Statistics, of either kind, as plain numbers."""
    result: dict[str, Any] = {name: getattr(counted, name) for name in Statistics.__slots__[3:]}
    for pool in Statistics.__slots__[:3]:
        for name in Counters.__slots__:
            counter: Counter | _Counter = getattr(getattr(counted, pool), name)
            result[f"{pool}.{name}"] = tuple(
                getattr(counter, part) for part in ("current", "peak", "allocated", "freed")
            )
    return result
