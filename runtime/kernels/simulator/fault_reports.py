"""What an error says of a kernel that touched memory it must not touch, or failed otherwise: where, which thread, what
lies there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from .engine import Fault, HostKernel

if TYPE_CHECKING:
    from ...drivers.sim.simulated_device import Extent

__all__ = ["explained"]

_POINTER = 8
_TIMED_OUT = 702


def explained(
    kernel: HostKernel,
    fault: Fault,
    parameters: bytes,
    find: Callable[[int], Extent | None],
    ranges: Callable[[], list[Extent]],
) -> str:
    """The text of the error that a fault raises.

    Args:
        kernel: what was launched.
        fault: what went wrong, where and in which thread.
        parameters: the bytes of its arguments: their pointers name what they point to.
        find: the piece of memory, of those that the kernel might touch, in which an address lies.
        ranges: all these pieces, address and size of each, in order of address.
    """
    if fault.code == _TIMED_OUT:
        return f"kernel {kernel.name} {fault.text}"
    where = f"kernel {kernel.name}, block {fault.block}, thread {fault.thread}"
    if fault.text:
        named = _ADDRESS.sub(lambda match: _variable(kernel, int(match[1], 16), parameters, find), fault.text)
        return f"{where}: {named}"
    verb = {True: "writes", False: "reads", None: "accesses"}[fault.writes]
    what = f"{fault.nbytes} bytes" if fault.nbytes > 1 else "memory"
    return f"{where} {verb} {what} at {fault.address:#x}: {_neighbours(fault.address, ranges())}"


_ADDRESS = re.compile(r"\{(0x[0-9a-f]+)\}")
"""How the engine writes an address of global memory whose name it does not know."""


def _variable(kernel: HostKernel, address: int, parameters: bytes, find: Callable[[int], Extent | None]) -> str:
    """What a program calls the memory at an address: by a symbol of the module, or a pointer that the kernel got."""
    for name, (start, nbytes, _) in kernel.module.symbols.items():
        if start <= address < start + nbytes:
            return f"{name}[+{address - start} bytes of {nbytes}] ({address:#x})"
    held = find(address)
    for parameter in kernel.parameters:
        if parameter.kind != "p" or held is None:
            continue
        start = int.from_bytes(parameters[parameter.offset : parameter.offset + _POINTER], "little")
        if held[0] <= start <= address < sum(held):
            return f"{parameter.name}[+{address - start} bytes] ({address:#x})"
    return f"global memory at {address:#x}"


def _neighbours(address: int, accessible: list[Extent]) -> str:
    if address < 1 << 16:
        return "a null pointer, or an index from one"
    position = bisect_right(accessible, (address, 1 << 63)) - 1
    notes = []
    if position >= 0:
        start, size = accessible[position]
        if address < start + size:
            notes.append(f"across the end of the {size} bytes at {start:#x}")
        elif address - start - size < 1 << 30:
            notes.append(f"{address - start - size} bytes behind the end of the {size} bytes at {start:#x}")
    if not notes and position + 1 < len(accessible):
        start, size = accessible[position + 1]
        if start - address < 1 << 30:
            notes.append(f"{start - address} bytes before the {size} bytes at {start:#x}")
    return f"no live allocation holds it ({notes[0]})" if notes else "no live allocation holds it"
