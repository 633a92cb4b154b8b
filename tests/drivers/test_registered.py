"""Page-locked memory out of pages of one's own, over functions that stand in for CUDA's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.runtime.drivers.base import driver_error
from cuplug.runtime.drivers.cuda import host_room, registered
from cuplug.runtime.drivers.cuda.registered import LEAST_BYTES, RegisteredMemory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it maps memory as Linux does")
MIB = 1 << 20
NBYTES = LEAST_BYTES + 5 * MIB + 4096


class Cuda:
    """What CUDA does on a process's own pages, and the calls of a driver around it."""

    def __init__(self) -> None:
        self.locked: dict[int, int] = {}
        self.code = 0
        self.after_locking: Callable[[], None] = lambda: None
        self.cuda = self.contexts = self

    def cuMemHostRegister(self, address: ctypes.c_void_p, nbytes: int, flags: int) -> int:
        assert flags == 1
        if self.code:
            return self.code
        assert address.value
        self.locked[address.value] = nbytes
        self.after_locking()
        return 0

    def cuMemHostUnregister(self, address: int) -> int:
        return 0 if self.locked.pop(address, None) else 713

    def here(self) -> int:
        return 0

    def check(self) -> None:
        pass

    def run_in_context(self, function: Callable[..., int], *arguments: Any, ordinal: int | None) -> int:
        return function(*arguments)

    def error(self, call: str, code: int, detail: str = "") -> Exception:
        return OutOfMemoryError(detail) if code == 2 else driver_error(code, f"{call}: {detail}")


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


@pytest.fixture
def memory(cuda: Cuda) -> RegisteredMemory:
    return RegisteredMemory(cuda)  # type: ignore[arg-type]


def mapped(address: int) -> bool:
    """Whether the process has memory at an address."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    ranges = (line.split()[0].split("-") for line in lines)
    return any(int(start, 16) <= address < int(end, 16) for start, end in ranges)


def resident(address: int) -> int:
    """How many bytes of the mapping around an address have a page behind them."""
    found = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        head = line.split()[0]
        if "-" in head:
            start, end = head.split("-")
            found = int(start, 16) <= address < int(end, 16)
        elif found and head == "Rss:":
            return int(line.split()[1]) << 10
    return 0


def test_pages_are_there_when_they_are_locked_and_gone_once_given_back(cuda: Cuda, memory: RegisteredMemory) -> None:
    found: list[int] = []
    cuda.after_locking = lambda: found.extend(resident(address) for address in cuda.locked)
    address = memory.make(NBYTES, device=0, detail="")
    assert found[0] >= NBYTES
    assert address in memory
    assert address % (2 * MIB) == 0
    assert cuda.locked == {address: NBYTES}
    ctypes.memset(address, 7, NBYTES)
    assert ctypes.string_at(address + NBYTES - 1, 1) == b"\x07"
    memory.destroy(address, device=None)
    assert address not in memory
    assert not cuda.locked
    assert not mapped(address)
    with pytest.raises(DriverError) as caught:
        memory.destroy(address, device=None)
    assert caught.value.code == 1


@pytest.mark.parametrize(("code", "error"), [(2, OutOfMemoryError), (801, DriverError)])
def test_pages_that_cuda_does_not_lock_are_given_back(
    cuda: Cuda, memory: RegisteredMemory, code: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[int] = []
    monkeypatch.setattr(registered, "_touch", lambda mapping, address, nbytes: addresses.append(address))
    cuda.code = code
    with pytest.raises(error):
        memory.make(NBYTES, device=0, detail="so much")
    assert addresses[0] not in memory
    assert not mapped(addresses[0])


def test_an_interrupt_once_pages_are_locked_gives_them_back(cuda: Cuda, memory: RegisteredMemory) -> None:
    seen: list[int] = []

    def interrupt() -> None:
        seen.extend(cuda.locked)
        raise KeyboardInterrupt

    cuda.after_locking = interrupt
    with pytest.raises(KeyboardInterrupt):
        memory.make(NBYTES, device=0, detail="")
    assert not cuda.locked
    assert not mapped(seen[0])
    cuda.after_locking = lambda: None
    memory.destroy(memory.make(NBYTES, device=0, detail=""), device=0)
    assert not cuda.locked


def test_all_of_it_can_be_given_back_at_once(cuda: Cuda, memory: RegisteredMemory) -> None:
    addresses = [memory.make(NBYTES, device=0, detail="") for _ in range(2)]
    memory.destroy_all()
    assert not cuda.locked
    assert not any(map(mapped, addresses))


def test_what_is_small_or_would_fill_the_system_is_left_to_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not RegisteredMemory.suits(LEAST_BYTES - 1)
    assert not RegisteredMemory.suits(1 << 50)
    monkeypatch.setattr(registered, "free_host_bytes", lambda: LEAST_BYTES + (1 << 30))
    assert RegisteredMemory.suits(LEAST_BYTES)
    assert not RegisteredMemory.suits(LEAST_BYTES + 1)


def test_what_would_leave_the_system_less_than_1_gib_is_not_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_room, "free_host_bytes", lambda: 3 << 30)
    host_room.check_host_room(2 << 30)
    with pytest.raises(OutOfMemoryError, match=r"asked the host for 2\.00 GiB.*cgroup.* 1\.00 GiB"):
        host_room.check_host_room((2 << 30) + 1)


def test_a_group_with_a_limit_has_less_than_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < host_room.free_host_bytes() < 1 << 50
    monkeypatch.setattr(host_room, "_left_in_group", lambda limit, usage: 5 * MIB)
    assert host_room.free_host_bytes() == 5 * MIB
