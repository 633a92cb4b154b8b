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
_NEAR, _FAR = 4096, 1 << 30
"""Bytes to another allocation that are worth telling: where there is one before the address already, and where not."""
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
    line = f" in {fault.line}" if fault.line else ""
    if fault.text:
        named = _ADDRESS.sub(lambda match: _variable(kernel, int(match[1], 16), parameters, find), fault.text)
        return f"{where}: {named}{line}"
    verb = {True: "writes", False: "reads", None: "accesses"}[fault.writes]
    what = f"{fault.nbytes} bytes" if fault.nbytes > 1 else "memory"
    names = _Names(kernel, parameters)
    return f"{where} {verb} {what} at {fault.address:#x}{line}: {_neighbours(fault.address, ranges(), names)}"


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
        self._pointers = [
            (parameter.name, int.from_bytes(parameters[parameter.offset : parameter.offset + _POINTER], "little"))
            for parameter in kernel.parameters
            if parameter.kind == "p"
        ]

    def __call__(self, start: int, size: int) -> str:
        """The ``size`` bytes at ``start``, in words."""
        names = [f"'{name}'" for name, address in self._pointers if start <= address < start + size]
        what = f"the {size} bytes at {start:#x}"
        return f"{what} that {' and '.join(names)} point{'s' * (len(names) == 1)} to" if names else what


def _neighbours(address: int, accessible: list[Extent], names: _Names) -> str:
    if address < 1 << 16:
        return "a null pointer, or an index from one"
    position = bisect_right(accessible, (address, 1 << 63)) - 1
    notes = []
    if position >= 0:
        start, size = accessible[position]
        if address < start + size:
            notes.append(f"across the end of {names(start, size)}")
        elif address - start - size < _FAR:
            notes.append(f"{address - start - size} bytes behind the end of {names(start, size)}")
    if position + 1 < len(accessible):
        start, size = accessible[position + 1]
        if start - address < (_NEAR if notes else _FAR):
            notes.append(f"{start - address} bytes before {names(start, size)}")
    return f"no live allocation holds it ({', '.join(notes)})" if notes else "no live allocation holds it"
