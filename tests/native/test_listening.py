"""What a listener in the core's own terms is told, and when."""

from __future__ import annotations

import ctypes

from . import native_core as core

MIB = 1 << 20
PROGRAM_KINDS = {5: "reserved", 6: "released"}


class Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("waits", ctypes.c_int32)] + [
        (name, ctypes.c_uint64) for name in ("time_ns", "thread", "stream", "address", "nbytes", "requested", "context")
    ]


def test_the_release_of_a_segment_is_told_before_upstream_is_called_and_taken_back_if_it_fails() -> None:
    library, told = core.library(), []
    table = core._Table()
    kinds = dict(core._Table._fields_)
    fails = [True]

    def reserve(_context: int, nbytes: int, address: ctypes._Pointer[ctypes.c_uint64]) -> int:
        address[0] = 1 << 40
        told.append(("upstream reserves", nbytes))
        return 0

    def release(_context: int, address: int) -> int:
        told.append(("upstream releases", address))
        return core.FAILED if fails.pop() else 0

    def memory_info(
        _context: int, free: ctypes._Pointer[ctypes.c_uint64], total: ctypes._Pointer[ctypes.c_uint64]
    ) -> int:
        free[0] = total[0] = 1 << 36
        return 0

    def fence_done(_context: int, _fence: int, done: ctypes._Pointer[ctypes.c_int]) -> int:
        done[0] = 1
        return 0

    functions = {
        "reserve": reserve,
        "release": release,
        "memory_info": memory_info,
        "fence": lambda _context, _stream, _fence: 0,
        "fence_done": fence_done,
        "fence_wait": lambda _context, _fence: 0,
        "fence_drop": lambda _context, _fence: None,
    }
    for name, function in functions.items():
        setattr(table, name, kinds[name](function))
    table.granularity = 512
    allocator = ctypes.c_void_p()
    assert (
        library.cuplug_allocator_create(
            b"caching", None, ctypes.c_size_t(0), ctypes.byref(table), ctypes.byref(allocator)
        )
        == 0
    )

    def listen(_context: int, event: ctypes._Pointer[Event]) -> None:
        if event[0].kind in PROGRAM_KINDS:
            told.append((PROGRAM_KINDS[event[0].kind], event[0].address))

    listener = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Event))(listen)
    library.cuplug_listen(allocator, listener, None)
    block = ctypes.c_void_p()
    number = ctypes.c_uint64
    assert library.cuplug_allocate(allocator, number(4 * MIB), number(0), number(0), ctypes.byref(block)) == 0
    assert library.cuplug_free(allocator, block, number(0)) == 0
    nbytes = told[0][1]
    assert told == [("upstream reserves", nbytes), ("reserved", 1 << 40)]
    del told[:]
    assert library.cuplug_release_cached(allocator, ctypes.byref(number())) == core.FAILED
    assert told == [("released", 1 << 40), ("upstream releases", 1 << 40), ("reserved", 1 << 40)]
    del told[:]
    fails.append(False)
    assert library.cuplug_release_cached(allocator, ctypes.byref(number())) == 0
    assert told == [("released", 1 << 40), ("upstream releases", 1 << 40)]
    library.cuplug_allocator_close(allocator)
    library.cuplug_allocator_destroy(allocator)
