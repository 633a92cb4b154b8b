"""Which library asked for an allocation: a number that travels in the context of its events.

The low bits of a context are a call stack's number, as its source gave it; the bits from ``LIBRARY_SHIFT`` up name the
library. ``cuplug_allocator.h`` has the same numbers.
"""

from __future__ import annotations

OWN = 0
"""The number of what the program allocates from cuplug itself."""
LIBRARIES = {OWN: "cuplug", 1: "torch", 2: "cupy", 3: "numba", 4: "rmm", 5: "pycuda"}
"""Names by number. The numbers stand in trace files: they are never reused or changed."""
LIBRARY_SHIFT = 24
STACK_MASK = (1 << LIBRARY_SHIFT) - 1

_NUMBERS = {name: number for number, name in LIBRARIES.items()}


def library_number(name: str) -> int:
    """The number of a library. Raises KeyError for an unknown one."""
    return _NUMBERS[name]


def split_context(context: int) -> tuple[int, int]:
    """The call stack's number and the library's in an event's context."""
    return context & STACK_MASK, context >> LIBRARY_SHIFT
