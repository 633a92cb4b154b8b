"""What an error says of a kernel that touched memory it must not touch, or failed otherwise: where, which thread, what
lies there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .engine import Fault, HostKernel

if TYPE_CHECKING:
    from ...drivers.sim.simulated_device import Extent

_POINTER = 8
_NEAR, _FAR, _WRAPPED = 4096, 1 << 30, 1 << 36
"""Bytes to another allocation that are worth telling: where there is one before the address already, where not, and
where an index of 32 bits may have wrapped around."""
_GUARDED = 512
_OF_SIMULATOR = range(1 << 44, 5 << 44)
"""Where the memory of the simulator's first hundred devices lies, and no other memory of a process."""
_TIMED_OUT = 702


def explained(
    kernel: HostKernel,
    fault: Fault,
    parameters: bytes,
    find: Callable[[int], Extent | None],
    pieces: Callable[[], list[Extent]],
    segments: list[range],
) -> str:
    """The text of the error that a fault raises.

    Args:
        kernel: what was launched.
        fault: what went wrong, where and in which thread.
        parameters: the bytes of its arguments: their pointers name what they point to.
        find: the piece of memory, of those that the kernel might touch, in which an address lies.
        pieces: all of them, address and size of each, in order of address.
        segments: the addresses that allocators hold.
    """
    if fault.code == _TIMED_OUT:
        return f"kernel {kernel.name} {fault.text}"
    where = f"kernel {kernel.name}, block {fault.block}, thread {fault.thread}"
    line = f" in {fault.line}" if fault.line else ""
    if fault.text:
        named = _ADDRESS.sub(lambda match: _variable(kernel, int(match[1], 16), parameters, find), fault.text)
        return f"{where}: {named}{line}"
    verb = {True: "writes", False: "reads", None: "accesses"}[fault.writes]
    what = f"{fault.nbytes} bytes" if fault.nbytes > 1 else "memory"
    names = _Names(kernel, parameters)
    around = _neighbours(fault.address, pieces(), segments, names)
    return f"{where} {verb} {what} at {fault.address:#x}{line}: {around}"


_ADDRESS = re.compile(r"\{(0x[0-9a-f]+)\}")
"""How the engine writes an address of global memory whose name it does not know."""


def _variable(kernel: HostKernel, address: int, parameters: bytes, find: Callable[[int], Extent | None]) -> str:
    """What a program calls the memory at an address: by a symbol of the module, or a pointer that the kernel got."""
    for name, (start, nbytes, _) in kernel.module.symbols.items():
        if start <= address < start + nbytes:
            return f"{name}[+{address - start} bytes of {nbytes}]"
    held = find(address)
    for parameter in kernel.parameters:
        if parameter.kind != "p" or held is None:
            continue
        start = int.from_bytes(parameters[parameter.offset : parameter.offset + _POINTER], "little")
        if held[0] <= start <= address < sum(held):
            index, rest = divmod(address - start, int(parameter.pointee[1:] or 1))
            if not parameter.pointee:
                return f"{parameter.name}[+{index} bytes]"
            return f"{parameter.name}[{index}]" + (f" + {rest} bytes" if rest else "")
    return f"global memory at {address:#x}"


class _Names:
    """What a program calls pieces of memory: by the kernel's parameters that point into them."""

    def __init__(self, kernel: HostKernel, parameters: bytes) -> None:
        self.has_heap = bool(re.search(r"\bmalloc\s*\(|(=|return)\s*new\b", kernel.module.source))
        self.pointers = [
            (parameter.name, int.from_bytes(parameters[parameter.offset : parameter.offset + _POINTER], "little"))
            for parameter in kernel.parameters
            if parameter.kind == "p"
        ]

    def __call__(self, start: int, size: int) -> str:
        """The ``size`` bytes at ``start``, in words."""
        names = [f"'{name}'" for name, address in self.pointers if start <= address < start + size]
        what = f"the {size} bytes at {start:#x}"
        return f"{what} that {' and '.join(names)} point{'s' * (len(names) == 1)} to" if names else what


def _neighbours(address: int, pieces: list[Extent], segments: list[range], names: _Names) -> str:
    if address < 1 << 16:
        full = " (malloc and new give one when their heap is full, which has 8 MiB by default)" * names.has_heap
        return f"a null pointer, or an index from one{full}"
    if address not in _OF_SIMULATOR and _is_mapped(address):
        if any(abs(address - start) < _FAR for _, start in names.pointers):
            return "it is memory of the host: copy it to the device, and pass the address there"
        return (
            "it is memory of the host: the kernel follows a pointer to that, or leaves a variable of the source, or "
            "what malloc or new gave"
        )
    position = bisect_right(pieces, (address, 1 << 63)) - 1
    is_reserved = any(address in segment for segment in segments)
    notes = []
    if position >= 0:
        start, size = pieces[position]
        if address < start + size:
            notes.append(f"across the end of {names(start, size)}")
        elif address - start - size < _FAR:
            is_reserved = is_reserved and address - start - size >= _GUARDED
            notes.append(f"{address - start - size} bytes behind the end of {names(start, size)}")
    if position + 1 < len(pieces):
        start, size = pieces[position + 1]
        if start - address < (_NEAR if notes else _FAR):
            notes.append(f"{start - address} bytes before {names(start, size)}")
    if not notes:
        far = [(name, address - start) for name, start in names.pointers if _FAR <= abs(address - start) < _WRAPPED]
        notes = [f"{distance:+} bytes from where '{name}' points" for name, distance in far]
        notes += ["did an index wrap around at 32 bits?"] * bool(far)
    if is_reserved:
        notes.append("in memory that was freed, or not given out yet")
    return f"no live allocation holds it ({', '.join(notes)})" if notes else "no live allocation holds it"


def _is_mapped(address: int) -> bool:
    """Whether this process has memory at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if start <= address < end:
            return True
    return False
