"""The core as other languages reach it: its header, its functions, its handle; and replays, which never leave it."""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.address_spaces import AddressSpaces
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError, OutOfMemoryError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import get_include, is_available, why_not
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.native_functions import allocator_functions, allocator_handle

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators import _native
from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable
from cuplug.allocators.native.without_device import NativeNullUpstream, calls_of

from . import native_core


def test_the_header_is_installed_with_the_package() -> None:
    with open(os.path.join(get_include(), "cuplug_allocator.h")) as header:
        assert "cuplug_allocate(" in header.read()


def test_functions_for_c_allocate_on_the_devices_of_a_runtime() -> None:
    with Runtime(driver="sim:devices=2") as runtime:
        addresses = allocator_functions(runtime=runtime)
        malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[0])
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[1])
        allocator = runtime.allocator(1)
        address = malloc(1000, 1, None)
        (block,) = allocator.live_blocks()
        assert (block.address, block.requested) == (address, 1000)
        free(address, 1000, 1, None)
        assert allocator.live_blocks() == []
        assert malloc(1 << 60, 0, None) is None
        assert malloc(1000, 5, None) is None
    assert malloc(1000, 1, None) is None


def test_a_handle_is_that_of_the_devices_allocator() -> None:
    with Runtime(driver="sim") as runtime:
        assert allocator_handle(0, runtime=runtime) == allocator_handle(runtime=runtime) > 0
    with Runtime(driver="sim", allocator="bump") as runtime, pytest.raises(CuplugError, match="choose caching"):
        allocator_handle(runtime=runtime)


@pytest.mark.parametrize("strategy", ["caching", "expandable"])
def test_a_replay_in_the_core_does_what_one_in_python_does(strategy: str) -> None:
    python, native = {
        "caching": (CachingAllocator, NativeCaching),
        "expandable": (ExpandableAllocator, NativeExpandable),
    }[strategy]
    chance = random.Random(7)
    steps: list[int] = []
    sizes: list[int] = []
    live: list[int] = []
    for _ in range(2000):
        if not live or chance.random() < 0.55:
            sizes.append(int(2 ** (chance.random() * 25)))
            live.append(len(sizes))
            steps.append(len(sizes))
        else:
            steps.append(-live.pop(chance.randrange(len(live))))
    upstream: Any = NullUpstream()
    allocator: Any = python(upstream)
    blocks: dict[int, Any] = {}
    for step in steps:
        if step > 0:
            blocks[step] = allocator.allocate(sizes[step - 1], stream=0)
        else:
            allocator.free(blocks.pop(-step))
    replayed: Any = native(NativeNullUpstream())
    columns = [np.array(column, np.int64) for column in (steps, sizes, [0] * len(sizes))]
    assert _native.replay(replayed, *columns, True, None, None)[:4] == (0, len(steps), 0, 0)
    assert replayed.statistics() == allocator.statistics()
    assert replayed.segments() == allocator.segments()
    counts = calls_of(replayed)
    assert {name: counts[name] for name in upstream.calls} == dict(upstream.calls)
    assert (counts["fences"], counts["used_bytes"]) == (upstream.fences, upstream.used_bytes)
    with pytest.raises(ValueError, match="replay takes"):
        _native.replay(replayed, np.array([5000]), columns[1], columns[2], True, None, None)


NOTHING_LIKE_IT = [0, 1, 511, (1 << 44) + 512, (1 << 62) - 1, (1 << 63), (1 << 64) - 512, (1 << 64) - 1]


@pytest.mark.parametrize("name", ["caching", "expandable", "bump", "direct"])
def test_sizes_and_addresses_that_no_device_has_are_answered_by_an_error(name: str) -> None:
    core = native_core.library()
    table, allocator, block = native_core._Table(), ctypes.c_void_p(), ctypes.c_void_p()
    assert core.cuplug_null_upstream(ctypes.c_uint64(1 << 62), ctypes.c_uint64(2 << 20), ctypes.byref(table)) == 0
    made = core.cuplug_allocator_create(name.encode(), None, 0, ctypes.byref(table), ctypes.byref(allocator))
    assert made == 0
    number = ctypes.c_uint64
    assert core.cuplug_allocate(allocator, number(1 << 20), number(0), number(0), ctypes.byref(block)) == 0
    live = ctypes.c_void_p(block.value)
    for nbytes in NOTHING_LIKE_IT[3:]:
        assert core.cuplug_allocate(allocator, number(nbytes), number(0), number(0), ctypes.byref(block)) == 1, nbytes
    for address in (core.cuplug_block_address(live), *NOTHING_LIKE_IT):
        for nbytes in (*NOTHING_LIKE_IT, 512):
            for requested in (0, 1, nbytes, (1 << 64) - 1):
                given = (number(address), number(nbytes), number(requested), number(0), number(0))
                answer = core.cuplug_allocate_at(allocator, *given, ctypes.byref(block))
                wrong = nbytes in NOTHING_LIKE_IT or address % 512 or not 0 < requested <= nbytes
                assert answer in ((7,) if wrong else (1, 7)), (address, nbytes, requested)
    assert core.cuplug_allocate(None, number(1), number(0), number(0), ctypes.byref(block)) == 7
    assert core.cuplug_allocate(allocator, number(1), number(0), number(0), None) == 7
    assert core.cuplug_free(allocator, None, number(0)) == 7
    assert core.cuplug_get_statistics(allocator, None) == 7
    assert core.cuplug_free(allocator, live, number(0)) == 0
    core.cuplug_allocator_close(allocator)
    core.cuplug_allocator_destroy(allocator)


def test_a_second_free_of_a_block_of_zero_bytes_is_noticed() -> None:
    core = native_core.library()
    table, allocator, block = native_core._Table(), ctypes.c_void_p(), ctypes.c_void_p()
    number = ctypes.c_uint64
    assert core.cuplug_null_upstream(number(1 << 40), number(2 << 20), ctypes.byref(table)) == 0
    assert core.cuplug_allocator_create(b"caching", None, 0, ctypes.byref(table), ctypes.byref(allocator)) == 0
    assert core.cuplug_allocate(allocator, number(0), number(0), number(0), ctypes.byref(block)) == 0
    first = block.value
    assert core.cuplug_free(allocator, block, number(0)) == 0
    assert core.cuplug_free(allocator, block, number(0)) == 3  # CUPLUG_NOT_LIVE
    assert core.cuplug_allocate(allocator, number(0), number(0), number(0), ctypes.byref(block)) == 0
    assert block.value == first  # the object is used again
    assert core.cuplug_free(allocator, block, number(0)) == 0
    core.cuplug_allocator_close(allocator)
    core.cuplug_allocator_destroy(allocator)


@pytest.mark.parametrize("host", [0, 1 << 30])
def test_no_page_is_planned_where_the_device_never_has_so_many(
    host: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*_arguments: object, **_named: object) -> None:
        raise AssertionError("8 million pages")

    monkeypatch.setattr(AddressSpaces, "new_pages", planned)
    for total in (0, 1 << 40):
        allocator = ExpandableAllocator(NullUpstream(total), host=host)
        with pytest.raises(OutOfMemoryError, match="out of memory"):
            allocator.allocate(1 << 44, stream=0)


@pytest.mark.parametrize("strategy", [CachingAllocator, ExpandableAllocator])
@pytest.mark.parametrize("nbytes", [(1 << 44) + 1, 1 << 50, (1 << 62) - 1, 1 << 80])
def test_the_specification_has_no_memory_for_what_no_device_has(strategy: Any, nbytes: int) -> None:
    allocator = strategy(NullUpstream(1 << 62))
    with pytest.raises(OutOfMemoryError, match="out of memory"):
        allocator.allocate(nbytes, stream=0)
    assert allocator.statistics().num_ooms == 1
    allocator.free(allocator.allocate(1 << 20, stream=0))
    upstream = NullUpstream(1 << 62)
    upstream.reserve(1 << 46)
    with pytest.raises(OutOfMemoryError, match="address space"):
        upstream.reserve(1 << 46)
    assert upstream.used_bytes == 1 << 46
