"""The simulator's memory: addresses, contents, capacity."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Callable
from itertools import pairwise

import pytest
from cuplug.allocators.errors import DriverError, OutOfMemoryError
from cuplug.runtime.drivers.base import LEGACY_STREAM
from cuplug.runtime.drivers.sim import POISON, SimDriver, mapping
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.needs_sim

MakeSim = Callable[..., SimDriver]
MIB = 1 << 20
PAGE = 2 * MIB


def resident() -> int:
    """Bytes of memory that this process really has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def page_file_bytes() -> int:
    """Bytes of memory behind pages, mapped or not."""
    files = [entry.path for entry in os.scandir("/proc/self/fd")]
    return sum(os.stat(file).st_blocks * 512 for file in files if "cuplug-pages" in link(file))


def link(file: str) -> str:
    try:
        return os.readlink(file)
    except FileNotFoundError:  # the descriptor with which the directory was read
        return ""


def mapped_virtual(driver: SimDriver, npages: int) -> tuple[int, list[int]]:
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    base = virtual.reserve_range(npages * PAGE)
    pages = [virtual.create_page(PAGE) for _ in range(npages)]
    for position, page in enumerate(pages):
        virtual.map(base + position * PAGE, PAGE, page)
    virtual.set_access(base, npages * PAGE)
    return base, pages


def test_the_same_program_gets_the_same_addresses(make_sim: MakeSim) -> None:
    def addresses() -> list[int]:
        driver = make_sim(devices=2)
        found = [driver.mem_alloc(nbytes) for nbytes in (1, 5 * MIB, 700, PAGE)]
        found += [driver.host_alloc(100), mapped_virtual(driver, 2)[0]]
        driver.mem_free(found[1])
        driver.set_device(1)
        found += [driver.mem_alloc(1), driver.mem_alloc(PAGE)]
        driver.close()
        return found

    assert addresses() == addresses()
    assert addresses()[0] % (1 << 32) == 0


ADDRESSES = """
from cuplug.runtime.drivers.sim import SimDriver
driver = SimDriver()
driver.set_device(0)
print(hex(driver.mem_alloc(512)))
"""


def test_the_first_device_of_a_process_has_its_place(run_python: Callable[..., str]) -> None:
    assert run_python(ADDRESSES) == "0x200000000000\n"


LITTLE_ADDRESS_SPACE = """
import resource
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.runtime.drivers.sim import SimDriver
limit = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (400 << 30, limit[1]))
driver = SimDriver(memory=1 << 30)
driver.set_device(0)
driver.mem_alloc(512 << 20)
try:
    SimDriver(memory=1 << 40).set_device(0)
except OutOfMemoryError as error:
    print("ulimit -v" in str(error))
"""


def test_where_address_space_is_limited_less_must_do_and_the_error_says_so(run_python: Callable[..., str]) -> None:
    assert run_python(LITTLE_ADDRESS_SPACE) == "True\n"


def test_a_device_of_140_gib_costs_nothing_until_touched(make_sim: MakeSim) -> None:
    driver = make_sim(memory=140 << 30)
    before = resident()
    address = driver.mem_alloc(139 << 30)
    ends = driver.view(address, 139 << 30)
    assert ends[0] == ends[70 << 30] == ends[-1] == POISON
    ends[-1] = 1
    assert resident() - before < 300 * MIB
    del ends
    driver.mem_free(address)


def test_freed_memory_goes_back_to_the_system(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(256 * MIB)
    base, pages = mapped_virtual(driver, 32)
    before = resident()
    driver.memset(address, 1, 256 * MIB, stream=LEGACY_STREAM)
    driver.memset(base, 1, 32 * PAGE, stream=LEGACY_STREAM)
    assert page_file_bytes() == 32 * PAGE
    assert resident() - before > 250 * MIB
    driver.mem_free(address)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    virtual.unmap(base, 32 * PAGE)
    for page in pages:
        virtual.release_page(page)
    assert driver.mem_info()[0] == driver.mem_info()[1]  # any call finishes what earlier ones gave back
    assert resident() - before < 50 * MIB
    assert page_file_bytes() == 0


@pytest.mark.parametrize("nbytes", [100, 70_000, MIB, MIB + 1, 9 * MIB])
def test_fresh_and_reused_memory_is_poisoned(make_sim: MakeSim, nbytes: int) -> None:
    driver = make_sim()
    driver.mem_alloc(512)
    for value in (1, 2):
        address = driver.mem_alloc(nbytes)
        assert bytes(driver.view(address, nbytes)) == bytes([POISON]) * nbytes
        driver.memset(address, value, nbytes, stream=LEGACY_STREAM)
        driver.mem_free(address)


def test_pages_are_poisoned_once_and_keep_what_was_written(make_sim: MakeSim) -> None:
    driver = make_sim()
    base, _ = mapped_virtual(driver, 3)
    driver.memset(base + PAGE, 1, 10, stream=LEGACY_STREAM)
    assert bytes(driver.view(base, 3 * PAGE)) == (
        bytes([POISON]) * PAGE + bytes([1]) * 10 + bytes([POISON]) * (2 * PAGE - 10)
    )
    driver.memset(base, 2, 3 * PAGE, stream=LEGACY_STREAM)
    assert bytes(driver.view(base, 3 * PAGE)) == bytes([2]) * (3 * PAGE)


def test_a_new_page_does_not_show_what_an_old_one_held(make_sim: MakeSim) -> None:
    driver = make_sim(memory=PAGE)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    for _ in range(2):
        base, pages = mapped_virtual(driver, 1)
        assert bytes(driver.view(base, PAGE)) == bytes([POISON]) * PAGE
        driver.memset(base, 1, PAGE, stream=LEGACY_STREAM)
        virtual.unmap(base, PAGE)
        virtual.release_page(pages[0])
        virtual.free_range(base, PAGE)


def test_host_code_can_follow_pointers_stored_on_the_device(make_sim: MakeSim) -> None:
    driver = make_sim()
    table, data = driver.mem_alloc(8), driver.mem_alloc(8)
    driver.view(table, 8)[:] = data.to_bytes(8, "little")
    driver.memset(data, 7, 8, stream=LEGACY_STREAM)
    pointer = ctypes.cast(table, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint8)))
    assert pointer.contents[3] == 7


@pytest.mark.parametrize("nbytes", [100, 3 * MIB])
def test_a_freed_address_is_given_out_again_as_soon_as_it_fits(make_sim: MakeSim, nbytes: int) -> None:
    driver = make_sim()
    addresses = [driver.mem_alloc(nbytes) for _ in range(3)]
    driver.mem_free(addresses[1])
    assert driver.mem_alloc(nbytes) == addresses[1]


def test_small_allocations_share_pages_and_give_them_back_with_the_last(make_sim: MakeSim) -> None:
    driver = make_sim(memory=64 * MIB)
    total = driver.mem_info()[1]
    addresses = [driver.mem_alloc(512) for _ in range(4096)]
    assert driver.mem_info() == (total - PAGE, total)
    one_more = driver.mem_alloc(1)
    assert driver.mem_info()[0] == total - 2 * PAGE
    driver.mem_free(one_more)
    for address in addresses[1:]:
        driver.mem_free(address)
    assert driver.mem_info()[0] == total - PAGE
    driver.mem_free(addresses[0])
    assert driver.mem_info()[0] == total


def test_large_allocations_have_pages_of_their_own(make_sim: MakeSim) -> None:
    driver = make_sim(memory=64 * MIB)
    addresses = [driver.mem_alloc(MIB + 1) for _ in range(32)]
    assert driver.mem_info()[0] == 0
    with pytest.raises(OutOfMemoryError, match=r"1 bytes.*0 bytes of 64.00 MiB.*memory="):
        driver.mem_alloc(1)
    driver.mem_free(addresses.pop())
    driver.mem_alloc(1)


def test_memory_in_pieces_is_memory_all_the_same(make_sim: MakeSim) -> None:
    """Address space is plentiful, as on GPUs: capacity does not fragment, only addresses do."""
    driver = make_sim(memory=64 * MIB)
    addresses = [driver.mem_alloc(PAGE) for _ in range(32)]
    for address in addresses[::2]:
        driver.mem_free(address)
    driver.mem_alloc(32 * MIB)
    assert driver.mem_info()[0] == 0


def test_pages_and_allocations_share_the_capacity(make_sim: MakeSim) -> None:
    driver = make_sim(memory=8 * MIB)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    page = virtual.create_page(3 * PAGE)
    driver.mem_alloc(PAGE)
    with pytest.raises(OutOfMemoryError):
        driver.mem_alloc(1)
    with pytest.raises(OutOfMemoryError):
        virtual.create_page(PAGE)
    virtual.release_page(page)
    driver.mem_alloc(3 * PAGE)


SIZES = st.one_of(st.integers(1, 2000), st.integers(1, 4 * MIB), st.sampled_from((512, MIB, MIB + 1, PAGE, PAGE + 1)))


@given(steps=st.lists(st.one_of(SIZES, st.integers(-50, -1)), max_size=60))
def test_allocations_never_overlap_and_capacity_is_exact(steps: list[int]) -> None:
    """A positive step allocates that many bytes, a negative one frees the live allocation of that number."""
    driver = SimDriver(memory=32 * MIB)
    driver.set_device(0)
    live: dict[int, int] = {}
    fill = 0
    for step in steps:
        if step < 0:
            if live:
                address = sorted(live)[step % len(live)]
                contents = driver.view(address, live[address])
                assert contents[0] == contents[-1] == (address >> 9) & 0xFF
                del contents
                driver.mem_free(address)
                del live[address]
            continue
        large = sum(-(-nbytes // PAGE) for nbytes in live.values() if nbytes > MIB)
        shared = {address // PAGE for address, nbytes in live.items() if nbytes <= MIB}
        free = 16 - large - len(shared)
        assert driver.mem_info() == (free * PAGE, 32 * MIB)
        try:
            address = driver.mem_alloc(step)
        except OutOfMemoryError:
            assert free < -(-step // PAGE)
            continue
        assert address % 512 == 0
        assert step > MIB or address // PAGE == (address + step - 1) // PAGE
        live[address] = step
        fill += 1
        driver.memset(address, address >> 9, step, stream=LEGACY_STREAM)
        for earlier, later in pairwise(sorted(live)):
            assert earlier + live[earlier] <= later
    for address in live:
        driver.mem_free(address)
    assert driver.mem_info() == (32 * MIB, 32 * MIB)
    assert driver.live.allocations == 0
    driver.close()


@given(steps=st.lists(st.tuples(st.sampled_from(("map", "unmap", "release")), st.integers(0, 7)), max_size=40))
def test_mappings_follow_a_model(steps: list[tuple[str, int]]) -> None:
    """Eight pages and a range of eight places: page ``n`` holds its number, wherever it is mapped."""
    driver = SimDriver(memory=16 * MIB)
    driver.set_device(0)
    virtual = driver.virtual_memory(0)
    assert virtual is not None
    base = virtual.reserve_range(8 * PAGE)
    pages: dict[int, int] = {}
    mapped: dict[int, int] = {}
    unreachable: set[int] = set()
    for turn, (step, number) in enumerate(steps):
        place = base + (number * 5 + turn) % 8 * PAGE
        if step == "map" and place not in mapped and number not in unreachable:
            new = number not in pages
            if new:
                pages[number] = virtual.create_page(PAGE)
            virtual.map(place, PAGE, pages[number])
            virtual.set_access(place, PAGE)
            if new:
                driver.memset(place, number, PAGE, stream=LEGACY_STREAM)
            mapped[place] = number
        elif step == "unmap" and place in mapped:
            virtual.unmap(place, PAGE)
            del mapped[place]
        elif step == "release" and number in pages:
            virtual.release_page(pages.pop(number))
            unreachable.add(number)
        unreachable &= set(mapped.values())
        assert driver.mem_info()[0] == (8 - len(set(pages) | set(mapped.values()))) * PAGE
        for address, content in mapped.items():
            assert driver.view(address, PAGE)[turn] == content
    for place in mapped:
        virtual.unmap(place, PAGE)
    for page in pages.values():
        virtual.release_page(page)
    virtual.free_range(base, 8 * PAGE)
    live = driver.live
    assert (live.ranges, live.pages, live.mappings) == (0, 0, 0)
    assert driver.mem_info()[0] == 16 * MIB
    driver.close()


def test_a_view_needs_live_memory(make_sim: MakeSim) -> None:
    driver = make_sim()
    address = driver.mem_alloc(100)
    for start, nbytes in ((address, 101), (address - 1, 1), (12345, 1)):
        with pytest.raises(DriverError, match="view of"):
            driver.view(start, nbytes)
    pinned = driver.host_alloc(10)
    assert bytes(driver.view(pinned, 10)) == bytes([POISON]) * 10


def test_pinned_memory_is_reachable_for_queued_functions(make_sim: MakeSim) -> None:
    driver = make_sim()
    pinned = driver.host_alloc(64)
    driver.launch_host(lambda: ctypes.memset(pinned, 9, 64), stream=LEGACY_STREAM, writes=[(pinned, 64)])
    driver.synchronize()
    assert bytes(driver.view(pinned, 64)) == bytes([9]) * 64


def test_freeing_pinned_memory_waits_for_every_device(make_sim: MakeSim) -> None:
    driver = make_sim(devices=2, schedule="lazy")
    driver.set_device(1)
    address, pinned = driver.mem_alloc(64), driver.host_alloc(64)
    driver.memcpy_htod(address, pinned, 64, stream=driver.stream_create())
    driver.set_device(0)
    driver.host_free(pinned)
    assert driver.operations_executed == 1
    driver.set_device(1)
    driver.synchronize()


def test_dropped_drivers_give_their_address_space_back() -> None:
    def addresses() -> set[int]:
        driver = SimDriver(memory=1 << 36)
        driver.set_device(0)
        return {driver.mem_alloc(512)}

    found = [addresses() for _ in range(200)]
    assert len(found) == 200


def test_freeing_works_where_the_system_allows_no_more_mappings(
    make_sim: MakeSim, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = make_sim(memory=64 * MIB)
    address = driver.mem_alloc(32 * MIB)
    driver.memset(address, 1, 32 * MIB, stream=LEGACY_STREAM)
    before = resident()

    def refuse(*_: int) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(mapping, "_map", refuse)
        driver.mem_free(address)
        with pytest.raises(OutOfMemoryError, match="cannot back"):
            driver.mem_alloc(32 * MIB)
    assert before - resident() > 30 * MIB
    assert driver.mem_info()[0] == 64 * MIB
    address = driver.mem_alloc(32 * MIB)
    assert bytes(driver.view(address, 32 * MIB)) == bytes([POISON]) * (32 * MIB)


def test_files_are_closed_with_the_driver(make_sim: MakeSim) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        driver = make_sim()
        mapped_virtual(driver, 1)
        driver.close()
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the poison, once for the process


def test_nothing_is_given_out_where_the_tables_of_checks_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a process has so many drivers that their usual places are taken."""
    kept = mapping._map
    low: list[int] = []

    def crowded(address: int, nbytes: int, protection: int, flags: int, file: int = -1, offset: int = 0) -> int:
        if nbytes < 1 << 32:
            return kept(address, nbytes, protection, flags, file, offset)
        if address:
            raise OSError(errno.EEXIST, "taken")
        low.append(kept(0x0123_4000_0000, nbytes, protection, flags | mapping._FIXED_NOREPLACE))
        return low[-1]

    monkeypatch.setattr(mapping, "_map", crowded)
    with pytest.raises(OutOfMemoryError, match="close drivers that are done"):
        SimDriver().set_device(0)
    monkeypatch.undo()
    with open("/proc/self/maps") as maps:
        assert not any(line.startswith(f"{low[0]:x}-") for line in maps)
