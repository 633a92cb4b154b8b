"""Page-locked host memory out of pages that this process maps itself: made several times as fast as CUDA makes it."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from contextlib import suppress
from typing import Any

from ....allocators.errors import OutOfMemoryError
from .calls import Calls, Made
from .host_room import LEFT_BYTES, free_host_bytes

LEAST_BYTES = 16 << 20
"""The least worth it: below, starting threads takes as long as what they do."""
_HUGE_PAGE = 2 << 20
_PORTABLE = 1  # CU_MEMHOSTREGISTER_PORTABLE: page-locked for every device
_MOST_THREADS = 16


class RegisteredMemory:
    """Host memory that is mapped here, touched by several threads, and then locked by CUDA in one call.

    ``cuMemHostAlloc`` makes 1 GB/s (H200, driver 580, Linux 6.18), in however many threads: it takes one page of
    4 KiB after the other. Huge pages, touched by 16 threads, come at 20 GB/s, and are locked at 15 GB/s.

    The pages are this process's alone. A forked child does not have them: Linux would copy locked pages at the fork,
    all of them.
    """

    def __init__(self, calls: Calls) -> None:
        self._made = Made(calls, "cuMemHostRegister", "cuMemHostUnregister", invalid=1)
        self._mappings: dict[int, mmap.mmap] = {}
        """What each address that is locked lies in."""

    @staticmethod
    def suits(nbytes: int) -> bool:
        """Whether so much memory is better made here, and there is room for it on this system."""
        return nbytes >= LEAST_BYTES and sys.platform == "linux" and nbytes <= free_host_bytes() - LEFT_BYTES

    def make(self, nbytes: int, *, device: int | None, detail: str) -> int:
        """Make page-locked memory and return its address.

        Raises:
            OutOfMemoryError: the system, or CUDA, has no more of it.
            DriverError: CUDA does not lock pages of others here, or a device is in a sticky error state.
        """
        mapping, address = _map(nbytes, detail)
        _touch(mapping, address, nbytes)
        self._mappings[address] = mapping
        try:
            return self._made.make(nbytes, _PORTABLE, at=address, device=device, detail=detail)
        except BaseException:
            self._made.forget(address)  # if an interrupt came after it was locked
            del self._mappings[address]
            raise

    def destroy(self, address: int, *, device: int | None) -> None:
        """Give back what ``make`` returned. No work that is queued may use it any more.

        Raises:
            DriverError: ``CUDA_ERROR_INVALID_VALUE``: it is not from ``make``, or was given back before.
        """
        self._made.destroy(address, device=device)
        # No call: after one an interrupt could come, and hide that all is done.
        if address in self._mappings:
            del self._mappings[address]

    def destroy_all(self) -> None:
        """Give back what is left. Errors are ignored."""
        self._made.destroy_all()
        self._mappings.clear()

    def __contains__(self, address: int) -> bool:
        return address in self._mappings


def _map(nbytes: int, detail: str) -> tuple[mmap.mmap, int]:
    """New memory, huge pages where the system has them, and an address in it from which on ``nbytes`` are whole ones.

    It is unmapped with the object.
    """
    try:
        mapping = mmap.mmap(-1, nbytes + _HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise OutOfMemoryError(f"the system gives no more memory ({error}): {detail}") from None
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    for advice in (mmap.MADV_HUGEPAGE, mmap.MADV_DONTFORK):
        with suppress(OSError):  # a system built without huge pages does not know the first
            mapping.madvise(advice)
    return mapping, -(-start // _HUGE_PAGE) * _HUGE_PAGE


def _touch(mapping: mmap.mmap, address: int, nbytes: int) -> None:
    """Let the system give every page, in several threads, each with a piece of its own and without the interpreter.

    An interrupt leaves the threads at work: ``mapping``, which each of them holds, stays until the last one ends.
    """
    share = -(-nbytes // min(_MOST_THREADS, len(os.sched_getaffinity(0))))
    piece = -(-share // _HUGE_PAGE) * _HUGE_PAGE
    threads = [
        threading.Thread(target=_fill, args=(mapping, address + at, min(piece, nbytes - at)), daemon=True)
        for at in range(0, nbytes, piece)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fill(_mapping: Any, address: int, nbytes: int) -> None:
    ctypes.memset(address, 0, nbytes)
