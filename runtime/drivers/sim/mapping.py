"""Address space and memory from the operating system, at chosen addresses."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from errno import EEXIST, EINVAL, ENOMEM

POISON = 0xCB
"""The byte that uninitialised device memory is filled with: -53, -26711958.0 as float32, -3.4e57 as float64."""

_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_NOTHING = 0  # PROT_NONE
# Constants of Linux that the module mmap does not give on every supported Python (<asm-generic/mman.h>).
_FIXED, _NORESERVE, _FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02  # <linux/falloc.h>
_FAILED = ctypes.c_void_p(-1).value
_LOWEST = 1 << 44  # of what the simulator gives out, see runtime/kernels/simulator/headers/engine/shadow.h
_FIRST_WINDOW, _LAST_WINDOW = 2 << 20, 64 << 20

if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.argtypes = (
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    )
    _libc.mmap.restype = ctypes.c_void_p
    _libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    _libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    _libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _map(address: int, nbytes: int, protection: int, flags: int, file: int = -1, offset: int = 0) -> int:
    result = _libc.mmap(address, nbytes, protection, flags, file, offset)
    if result == _FAILED:
        errno = ctypes.get_errno()
        raise OSError(errno, f"mmap of {nbytes} bytes at {address:#x}: {os.strerror(errno)}")
    return int(result or 0)


class Reservation:
    """A piece of this process's address space that nothing else gets, inaccessible but for what is mapped into it.

    It is taken at ``base`` plus a multiple of its size, the first place free before ``end``, so that a program that
    does the same gets the same addresses in every run. Only where none of those is free, it lies where the system
    likes, but never below 16 TiB: the tables lie there that say what kernels may touch. It goes back when it
    is closed, or when nothing refers to it any more.
    """

    def __init__(self, base: int, end: int, nbytes: int) -> None:
        if sys.platform != "linux":
            raise NotImplementedError(f"the simulated device needs Linux's memory mapping, and this is {sys.platform}")
        self.nbytes = nbytes
        self.address = self._reserve(base, end, nbytes)
        self._give_back = weakref.finalize(self, _libc.munmap, self.address, nbytes)
        self._give_back.atexit = False  # views may still be in use; the system takes everything back anyway

    @staticmethod
    def _reserve(base: int, end: int, nbytes: int) -> int:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        for address in range(base, end - nbytes + 1, nbytes):
            try:
                found = _map(address, nbytes, _NOTHING, flags | _FIXED_NOREPLACE)
            except OSError as error:
                if error.errno == EEXIST:
                    continue
                if error.errno in (EINVAL, ENOMEM):
                    break  # not on this system: anywhere, then
                raise
            if found == address:
                return found
            _libc.munmap(found, nbytes)  # Linux before 4.17 takes the address for a hint
        found = _map(0, nbytes, _NOTHING, flags)
        if found < _LOWEST:
            _libc.munmap(found, nbytes)
            raise OSError(ENOMEM, f"{nbytes} bytes of address space are left only where the simulator's own tables lie")
        return found

    def fill_with_poison(self, address: int, nbytes: int) -> None:
        """Make the range (whole OS pages) accessible and poisoned. It takes memory only where it is written."""
        try:
            _poison.map(address, nbytes)
        except OSError:
            self.take_poison_back(address, nbytes)
            raise

    def take_poison_back(self, address: int, nbytes: int) -> None:
        """Undo ``fill_with_poison``. The address space stays reserved."""
        self.clear(address, nbytes)
        _poison.unmap(nbytes)

    def map_file(self, address: int, nbytes: int, file: PageFile, offset: int) -> None:
        """Let the range show a part of a file. Not accessible yet."""
        _map(address, nbytes, _NOTHING, mmap.MAP_SHARED | _FIXED, file.descriptor, offset)

    def make_accessible(self, address: int, nbytes: int) -> None:
        """Allow reading and writing a mapped range."""
        if _libc.mprotect(address, nbytes, _READ_WRITE):
            errno = ctypes.get_errno()
            raise OSError(errno, f"mprotect of {nbytes} bytes at {address:#x}: {os.strerror(errno)}")

    def clear(self, address: int, nbytes: int) -> None:
        """Give what is mapped in the range back to the system. The address space stays reserved."""
        try:
            _map(address, nbytes, _NOTHING, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | _FIXED)
        except OSError:
            # A hole in a large mapping is one mapping more, which the system may refuse. Then the range stays
            # accessible to wild pointers, but its memory goes back all the same.
            _libc.madvise(address, nbytes, mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give the address space back. Idempotent."""
        self._give_back()


class _Poison:
    """A file full of poison, of which uninitialised memory is a copy-on-write view.

    It is repeated in windows. The more is mapped, the larger the window gets, since the system allows a process only
    about 65,000 mappings. Where the same window meets itself, neighbours merge into one mapping. Interrupted calls and
    threads may leave the count of what is mapped slightly wrong, which only changes when the window grows.
    """

    def __init__(self) -> None:
        self._filled: tuple[PageFile, int] | None = None
        """The file and how many bytes of it are poison. Replaced as a whole, so that no lock is needed: of two threads
        that make it larger at once, each uses its own."""
        self._mapped = 0

    def map(self, address: int, nbytes: int) -> None:
        self._mapped += nbytes
        file, window = self._grow(self._mapped // 1024)
        end = address + nbytes
        while address < end:
            offset = address % window
            length = min(window - offset, end - address)
            _map(address, length, _READ_WRITE, mmap.MAP_PRIVATE | _NORESERVE | _FIXED, file.descriptor, offset)
            address += length

    def unmap(self, nbytes: int) -> None:
        self._mapped -= nbytes

    def _grow(self, wanted: int) -> tuple[PageFile, int]:
        filled = self._filled
        file, filled_window = filled or (PageFile("cuplug-poison"), 0)
        window = filled_window or _FIRST_WINDOW
        while window < min(wanted, _LAST_WINDOW):
            window *= 2
        if filled is None or window > filled_window:
            filling = bytes([POISON]) * _FIRST_WINDOW
            for offset in range(filled_window, window, _FIRST_WINDOW):
                os.pwrite(file.descriptor, filling, offset)
            filled = self._filled = file, window
        return filled


class PageFile:
    """A file in memory: takes memory only where it is written, and vanishes with the object."""

    def __init__(self, name: str, nbytes: int = 0) -> None:
        self.descriptor = os.memfd_create(name)
        self._close = weakref.finalize(self, os.close, self.descriptor)
        self._close.atexit = False
        os.truncate(self.descriptor, nbytes)

    def punch_hole(self, offset: int, nbytes: int) -> None:
        """Give the memory behind a part of the file back to the system. It reads as zero afterwards."""
        if _libc.fallocate(self.descriptor, _KEEP_SIZE_PUNCH_HOLE, offset, nbytes):
            errno = ctypes.get_errno()
            raise OSError(errno, f"fallocate of {nbytes} bytes at {offset}: {os.strerror(errno)}")

    def close(self) -> None:
        """Idempotent."""
        self._close()


_poison = _Poison()
