"""The engine that runs kernels compiled for the host, and the modules loaded into it (``headers/abi.h``)."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from array import array
from collections.abc import Sequence
from ctypes import c_char, c_char_p, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from itertools import count

from ....allocators.environment import read_count
from ....allocators.errors import CompileError
from ...drivers.base import driver_error
from ..compile.compile_cache import Cache
from .code_lines import lines_of, quoted
from .host_compiler import compile_engine

ABI = 12
_MAX_WORKERS = 64
_MOST_STANDING = 16
_TIMED_OUT = 702


class _Dim(ctypes.Structure):
    _fields_ = [("x", c_uint32), ("y", c_uint32), ("z", c_uint32)]


class _Parameter(ctypes.Structure):
    _fields_ = [
        ("offset", c_uint32),
        ("nbytes", c_uint32),
        ("alignment", c_uint32),
        ("kind", c_char),
        ("constant", c_char),
        ("pointee_kind", c_char),
        ("pointee", c_uint32),
    ]


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("run", c_void_p),
        ("parameters", ctypes.POINTER(_Parameter)),
        ("parameter_count", c_uint32),
        ("parameter_bytes", c_uint32),
        ("fibres", c_uint32),
        ("max_threads", c_uint32),
        ("habits", c_uint32),
    ]


class _Symbol(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("address", c_void_p), ("nbytes", c_uint64), ("constant", c_uint32)]


class _Module(ctypes.Structure):
    _fields_ = [
        ("abi", c_uint32),
        ("kernel_count", c_uint32),
        ("symbol_count", c_uint32),
        ("kernels", ctypes.POINTER(ctypes.POINTER(_Kernel))),
        ("symbols", ctypes.POINTER(_Symbol)),
        ("begin", c_void_p),
        ("end", c_void_p),
    ]


class _FaultRecord(ctypes.Structure):
    _fields_ = [
        ("code", c_int),
        ("write", c_int),
        ("address", c_uint64),
        ("nbytes", c_uint64),
        ("block_index", c_uint64),
        ("block", _Dim),
        ("thread", _Dim),
        ("places", c_uint64 * 2),
        ("text", c_char * 1024),
    ]


class _Standing(ctypes.Structure):
    _fields_ = [("block", _Dim), ("thread", _Dim), ("line", c_uint32), ("code", c_uint64 * 6)]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("kernel", c_void_p),
        ("parameters", c_char_p),
        ("grid", _Dim),
        ("block", _Dim),
        ("shared_nbytes", c_uint32),
        ("workers", c_uint32),
        ("shared_limit", c_uint32),
        ("checked", c_uint32),
        ("races", c_uint32),
        ("cooperative", c_uint32),
        ("constant_count", c_uint32),
        ("constants", c_void_p),
        ("block_count", c_uint64),
        ("chunk", c_uint64),
        ("number", c_uint64),
        ("next_block", c_uint64),
        ("stop_at", c_uint64),
        ("fault", _FaultRecord),
        ("static_shared", c_uint32),
        ("ended", c_uint32),
        ("timeout_ns", c_uint64),
        ("interrupts_seen", c_uint64),
        ("code_begin", c_uint64),
        ("code_end", c_uint64),
        ("standing_count", c_uint32),
        ("standing", _Standing * _MOST_STANDING),
    ]


class _Record:
    """What the engine is told of one launch at a time of a kernel."""

    def __init__(self, kernel: HostKernel) -> None:
        module = kernel.module
        self.launch = _Launch(
            kernel=kernel.address,
            checked=module.checked,
            races=module.races,
            constant_count=len(module.constants) // 2,
            constants=module.constants.buffer_info()[0],
            code_begin=module.begin,
            code_end=module.end,
        )
        self.text, self.length = c_void_p(), c_uint64()
        """Where the engine says what was printed."""
        self.references = ctypes.byref(self.launch), ctypes.byref(self.text), ctypes.byref(self.length)
        self.geometry: tuple[object, ...] = ()

    def set_geometry(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        workers: int,
        shared_limit: int,
        cooperative: bool,
    ) -> None:
        launch = self.launch
        launch.grid, launch.block = _Dim(*grid), _Dim(*block)
        launch.shared_nbytes, launch.workers, launch.shared_limit = shared, workers, shared_limit
        launch.cooperative = cooperative
        self.geometry = grid, block, shared, workers, shared_limit, cooperative


@dataclass(frozen=True)
class HostParameter:
    """One parameter of a kernel. ``kind``: p pointer, i signed, u unsigned, b bool, f floating, h half, g bfloat16,
    s anything else."""

    name: str
    offset: int
    nbytes: int
    kind: str
    constant: bool
    pointee: str
    """As that of ``Parameter``."""


@dataclass(frozen=True)
class Fault:
    """What stopped a kernel. ``address`` is 0 and ``writes`` None where it is no access, or not known."""

    code: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int
    nbytes: int
    writes: bool | None
    text: str
    line: str = ""
    """Where in the source: ``line 7``, with what stands there as far as it is known; or nothing."""


class HostKernel:
    """A kernel in a loaded module."""

    def __init__(self, module: HostModule, record: _Kernel, address: int, names: Sequence[str]) -> None:
        self.module = module
        self.address = address
        self.name: str = record.name.decode()
        self.fibres = bool(record.fibres)
        self.max_threads: int = record.max_threads
        self.parameter_bytes: int = record.parameter_bytes
        self.records: list[_Record] = []
        """What launches that have ended were told to the engine by. Taking one and giving it back are single
        operations of a list: safe with threads."""
        self.static_shared = 0
        """Bytes of static shared memory that a launch used, once there was one."""
        self.parameters = [
            HostParameter(
                names[index] if index < len(names) else f"parameter {index}",
                record.parameters[index].offset,
                record.parameters[index].nbytes,
                record.parameters[index].kind.decode(),
                record.parameters[index].constant != b"\0",
                _pointee(record.parameters[index]),
            )
            for index in range(record.parameter_count)
        ]


def _pointee(record: _Parameter) -> str:
    kind = record.pointee_kind.decode()
    return f"{kind}{record.pointee}" if record.pointee else ""


class HostModule:
    """A shared library of kernels, with variables of its own: loading it again gives others."""

    def __init__(
        self,
        owner: Engine,
        image: bytes,
        names: dict[str, list[str]],
        *,
        source: str,
        checked: bool,
        races: bool = False,
    ) -> None:
        self.engine = owner
        self.checked = checked
        self.races = races
        self.image = image
        self.source = source
        """What it was compiled from, for messages."""
        self.program = ""
        """The Python file that called for it, for messages; or nothing."""
        self._library = _load(image)
        self._library.cuplug_module.restype = ctypes.POINTER(_Module)
        table = self._library.cuplug_module().contents
        if table.abi != ABI:
            raise CompileError(f"a module for version {table.abi} of the engine, which is {ABI}: compile it again")
        self.begin, self.end = int(table.begin), int(table.end)
        self.kernels: dict[str, HostKernel] = {}
        for index in range(table.kernel_count):
            record = table.kernels[index].contents
            name = record.name.decode()
            self.kernels[name] = HostKernel(self, record, ctypes.addressof(record), names.get(name, []))
        self.symbols: dict[str, tuple[int, int, bool]] = {}
        self.constants = array("Q")
        """Addresses and sizes, in turn, of ``__constant__`` memory."""
        for index in range(table.symbol_count):
            symbol = table.symbols[index]
            self.symbols[symbol.name.decode()] = symbol.address, symbol.nbytes, bool(symbol.constant & 1)
            if symbol.constant & 2:
                self.constants.extend((symbol.address, symbol.nbytes))
        owner.allow(self.begin, self.end - self.begin)

    def unload(self) -> None:
        """Forget the module. Its code stays in the process, which has no safe way to take it away."""
        if self.end:
            self.engine.allow(self.begin, self.end - self.begin, allowed=False)
            self.end = 0


class Engine:
    """One for the process."""

    def __init__(self, image: bytes) -> None:
        library = _load(image)
        if library.cuplug_abi() != ABI:
            raise CompileError("the engine for kernels is of another version than this Python code; reinstall cuplug")
        library.cuplug_interrupts.restype = c_uint64
        library.cuplug_image.argtypes = (c_void_p, c_int)
        library.cuplug_allow.argtypes = (c_uint64, c_uint64, c_int)
        library.cuplug_watch.argtypes = (c_uint64, c_uint64, c_int)
        library.cuplug_watch.restype = c_uint64
        library.cuplug_run.argtypes = (c_void_p, c_void_p, c_void_p, c_void_p, c_uint64)
        self._library = library
        self.can_check = bool(library.cuplug_can_check())
        """Whether checked kernels can run: their tables of accessible memory can be mapped."""

    def allow(self, address: int, nbytes: int, *, allowed: bool = True) -> None:
        """Let checked kernels touch memory that is no device's, or no more."""
        self._library.cuplug_allow(address, nbytes, int(allowed))

    def watch(self, address: int, nbytes: int, *, closed: bool) -> int:
        """Close memory of whole pages to the program, or open it: an address that it touched meanwhile, or 0."""
        return int(self._library.cuplug_watch(address, nbytes, int(closed)))

    def set_heap(self, nbytes: int) -> None:
        """How much memory kernels may hold by ``malloc`` and ``new``."""
        self._library.cuplug_set_heap(c_uint64(nbytes))

    def fail_at_exit(self) -> None:
        """Let the process end with status 1 where it would end with 0."""
        self._library.cuplug_fail_at_exit()

    def show_image(self, address: int, *, shown: bool = True) -> None:
        """Let texture and surface functions know the ``Image`` at an address, or no more.

        Raises:
            MemoryError: this machine has no memory left to know one more.
        """
        if not self._library.cuplug_image(address, int(shown)):
            raise MemoryError("no memory is left on this machine to know one more texture")

    def run(
        self,
        kernel: HostKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        *,
        shared: int,
        shared_limit: int,
        parameters: bytes,
        ranges: array[int] | None,
        workers: int,
        cooperative: bool = False,
        timeout_s: float | None = None,
    ) -> tuple[Fault | None, str]:
        """Run a kernel to its end.

        Args:
            kernel: which.
            grid: blocks in x, y and z.
            block: threads in x, y and z.
            shared: bytes of dynamic shared memory.
            shared_limit: bytes of shared memory that a block may have in all.
            parameters: the parameter block.
            ranges: addresses and sizes, alternating, of the memory that a checked kernel may touch, in order.
            workers: how many threads run blocks.
            cooperative: whether blocks may wait for one another: then each has a thread of its own.
            timeout_s: how many seconds it may run.

        Returns:
            What stopped it, if anything did, and what it printed.

        Raises:
            KeyboardInterrupt: a second interrupt came meanwhile (or what else the program's handler of it raises; the
                simulator holds the first one back). If the kernel did not end soon by itself, it was ended: then a
                ``DriverError``, ``CUDA_ERROR_LAUNCH_TIMEOUT``, is the cause.
        """
        record = kernel.records.pop() if kernel.records else _Record(kernel)
        launch, text, length = record.launch, record.text, record.length
        geometry = grid, block, shared, workers, shared_limit, cooperative
        if record.geometry != geometry:
            record.set_geometry(*geometry)
        launch.parameters = parameters
        launch.timeout_ns = int((timeout_s or 0) * 1e9)
        launch.interrupts_seen = self._library.cuplug_interrupts()
        pointer, pairs = (ranges.buffer_info()[0], len(ranges) // 2) if ranges is not None else (None, 0)
        try:
            code = self._library.cuplug_run(*record.references, pointer, pairs)
        except BaseException as interrupt:  # raised by Python once the call is over
            code = launch.fault.code
            if code == _TIMED_OUT:
                why = f"kernel {kernel.name} was ended by an interrupt{_where(kernel, launch)}"
                raise interrupt from driver_error(code, why)
            raise
        printed = ctypes.string_at(text, length.value).decode(errors="replace") if length.value and text else ""
        kernel.static_shared = max(kernel.static_shared, launch.static_shared)
        if not code:
            kernel.records.append(record)
            return None, printed
        found = launch.fault
        block_index = found.block.x, found.block.y, found.block.z
        thread = found.thread.x, found.thread.y, found.thread.z
        writes = None if found.write < 0 else bool(found.write)
        text_of_fault = found.text.decode(errors="replace")
        line = ""
        text_of_fault = _LINE.sub(lambda match: quoted(match[1], kernel.module), text_of_fault)
        if kernel.module.races and "[0]" in text_of_fault:
            text_of_fault = _with_lines(text_of_fault, kernel.module, found.places)
        elif found.places[0]:
            line = quoted(lines_of(kernel.module.image, found.places[:1]).get(found.places[0], ""), kernel.module)
        if code == _TIMED_OUT:
            limit = "" if timeout_s is None else f" (the driver's timeout is {timeout_s:g} s)"
            text_of_fault += limit + _where(kernel, launch)
        return Fault(code, block_index, thread, found.address, found.nbytes, writes, text_of_fault, line), printed


_LINE = re.compile(r"\{(line \d+)\}")
"""How the engine writes a line of the source that it knows."""


def _with_lines(text: str, module: HostModule, places: Sequence[int]) -> str:
    """A fault's text with the lines that it calls ``in [0]`` and ``in [1]``."""
    wanted = [place for number, place in enumerate(places) if f"in [{number}]" in text]
    lines = lines_of(module.image, wanted)
    told = [quoted(lines[place], module) if place in lines else f"the code at {place:#x}" for place in places]
    if len(wanted) == len(places) and told[0] == told[1]:
        told[1] = "the same line"
        text = text.replace("a barrier is missing", "a barrier or an atomic operation is missing")
    for number, line in enumerate(told):
        text = text.replace(f"in [{number}]", f"in {line}")
    return text


def _where(kernel: HostKernel, launch: _Launch) -> str:
    """Where each worker was when a kernel was ended: block, thread and, where debuggers' tools are at hand, line."""
    standing = launch.standing[: min(launch.standing_count, _MOST_STANDING)]
    standing.sort(key=lambda place: (place.block.z, place.block.y, place.block.x))
    module, found = kernel.module, []
    lines = lines_of(module.image, [code - module.begin for place in standing for code in place.code if code])
    for place in standing:
        block, thread = ((it.x, it.y, it.z) for it in (place.block, place.thread))
        known = [line for code in place.code if code and (line := lines.get(code - kernel.module.begin))]
        if not known and place.line:
            known = [f"line {place.line}"]
        known = [quoted(line, module) for line in known[:1]]
        found.append(
            f"; block {block}, thread {thread} stands {f'in {known[0]}' if known else 'outside of the source'}"
        )
    return "".join(found)


def default_workers() -> int:
    """The processors that this process may use, or what ``CUPLUG_SIM_THREADS`` says; 16 at most by default.

    Raises:
        CuplugError: ``CUPLUG_SIM_THREADS`` is no whole number from 1 to 64.
    """
    said = read_count("CUPLUG_SIM_THREADS", _MAX_WORKERS)
    if said is not None:
        return said
    try:
        return max(1, min(len(os.sched_getaffinity(0)), 16))
    except AttributeError:
        return max(1, min(os.cpu_count() or 1, 16))


_loads = count(1)
_engine: Engine | None = None
_lock = threading.Lock()


def engine(cache: Cache | None) -> Engine:
    """The process's engine, compiled at its first use.

    Raises:
        CompileError: there is no C++ compiler.
    """
    global _engine  # one for the process: it owns threads and signal handlers
    if _engine is None:
        with _lock:
            if _engine is None:
                _engine = Engine(compile_engine(cache))
    return _engine


def _load(image: bytes) -> ctypes.CDLL:
    """Load a shared library from memory. The same bytes give a new library each time."""
    descriptor = os.memfd_create("cuplug-module")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(image)
        # The loader takes equal names for one library, and descriptors are used again: spell each path in its own way.
        spelling = "".join("/." if bit == "1" else "/" for bit in f"{next(_loads):b}")
        return ctypes.CDLL(f"/proc/self/fd{spelling}/{descriptor}")
    finally:
        os.close(descriptor)
