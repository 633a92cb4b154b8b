"""Memory of libraries that know addresses alone: streams, finalisers, and whose it is."""

from __future__ import annotations

import pytest
from cuplug.allocators import core_choice
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError, OutOfMemoryError
from cuplug.allocators.libraries import library_number, split_context
from cuplug.runtime.interop.library_memory import LibraryMemory


@pytest.fixture
def runtime(make_simulated):
    return make_simulated()


def stream_of(runtime):
    """A stream that does not wait for the default one."""
    return runtime.driver.stream_create(non_blocking=True)


def busy(runtime, stream):
    """Queue work on a stream, which does not run by itself."""
    with runtime.on_device(0):
        place = runtime.driver.mem_alloc(512)
        runtime.driver.memset(place, 1, 512, stream=stream)


def test_memory_freed_on_its_own_stream_is_used_again_there_at_once(runtime):
    memory = LibraryMemory(runtime, "rmm")
    with runtime.on_device(0):
        stream = stream_of(runtime)
        first = memory.allocate(1000, device=0, stream=stream)
        busy(runtime, stream)
        memory.free(first, device=0, stream=stream)
        assert memory.allocate(1000, device=0, stream=stream) == first


def test_memory_freed_on_another_stream_waits_for_the_work_queued_there(runtime):
    memory = LibraryMemory(runtime, "rmm")
    with runtime.on_device(0):
        own, other = stream_of(runtime), stream_of(runtime)
        first = memory.allocate(1000, device=0, stream=own)
        busy(runtime, other)
        memory.free(first, device=0, stream=other)
        assert memory.allocate(1000, device=0, stream=own) != first
        runtime.driver.stream_synchronize(other)
        assert memory.allocate(1000, device=0, stream=own) == first


def test_memory_of_a_library_without_a_current_stream_waits_for_every_blocking_stream(runtime):
    memory = LibraryMemory(runtime, "numba")
    with runtime.on_device(0):
        used_on = runtime.driver.stream_create(non_blocking=False)
        first = memory.allocate_unordered(1000, device=0)
        busy(runtime, used_on)
        memory.free(first, device=0)
        assert memory.allocate_unordered(1000, device=0) != first
        runtime.driver.stream_synchronize(used_on)
        assert memory.allocate_unordered(1000, device=0) == first


def test_a_stream_that_waits_for_nobody_is_named(runtime):
    memory = LibraryMemory(runtime, "numba")
    with runtime.on_device(0):
        used_on = stream_of(runtime)
        first = memory.allocate_unordered(1000, device=0)
        busy(runtime, used_on)
        memory.record_stream(first, used_on, device=0)
        memory.free(first, device=0)
        runtime.driver.stream_synchronize(0)
        assert memory.allocate_unordered(1000, device=0) != first
        runtime.driver.stream_synchronize(used_on)
        assert memory.allocate_unordered(1000, device=0) == first


def test_memory_that_is_not_known_can_have_no_further_stream(runtime):
    memory = LibraryMemory(runtime, "numba")
    with pytest.raises(CuplugError, match="no memory at address 0x10"):
        memory.record_stream(16, 0, device=0)


def test_lack_of_memory_is_raised_and_changes_nothing(runtime):
    memory = LibraryMemory(runtime, "pycuda")
    with pytest.raises(OutOfMemoryError):
        memory.allocate_unordered(1 << 40, device=0)
    assert runtime.allocator(0).statistics().all.allocated_bytes.current == 0


def test_no_bytes_have_no_address(runtime):
    memory = LibraryMemory(runtime, "rmm")
    assert memory.allocate(0, device=0, stream=0) == 0
    memory.free(0, device=0, stream=0)


def test_a_free_after_the_end_of_the_runtime_does_nothing(runtime):
    memory = LibraryMemory(runtime, "rmm")
    address = memory.allocate(100, device=0, stream=0)
    runtime.close()
    memory.free(address, device=0, stream=0)
    with pytest.raises(CuplugError, match="shut down"):
        memory.allocate(100, device=0, stream=0)


@pytest.fixture(params=["python", "native"])
def caching(request):
    """What selects one form of ``caching``."""
    if request.param == "python":
        return CachingAllocator
    if not core_choice.is_available():
        pytest.skip(f"the native core: {core_choice.why_not()}")
    return "caching"


def test_a_free_in_the_middle_of_an_operation_is_made_up_by_the_next(make_simulated, caching):
    runtime = make_simulated("direct" if caching is CachingAllocator else caching)
    memory = LibraryMemory(runtime, "rmm")
    other = runtime.driver.stream_create(non_blocking=True)
    address = memory.allocate(1000, device=0, stream=0)
    upstream = runtime.device(0).upstream
    reserve = upstream.reserve

    def reserve_after_a_finaliser(nbytes):
        memory.free(address, device=0, stream=other)
        return reserve(nbytes)

    upstream.reserve = reserve_after_a_finaliser
    memory.allocate(64 << 20, device=0, stream=0)
    upstream.reserve = reserve
    memory.allocate(100, device=0, stream=0)
    runtime.driver.synchronize()
    assert len(runtime.allocator(0).live_blocks()) == 2


def test_observers_are_told_which_library_asked(make_simulated, caching):
    runtime = make_simulated(caching)
    assert isinstance(runtime.allocator(0), CachingAllocator) == (caching is CachingAllocator)
    told = []
    runtime.allocator(0).attach(lambda *event: told.append((event[0].name, event[7])), context=lambda: 5)
    runtime.alloc(10)
    LibraryMemory(runtime, "numba").allocate(20, device=0, stream=0)
    found = [split_context(context) for kind, context in told if kind == "ALLOCATE"]
    assert found == [(5, 0), (5, library_number("numba"))]


def test_an_allocation_that_fails_names_the_library_too(make_simulated, caching):
    runtime = make_simulated(caching)
    assert isinstance(runtime.allocator(0), CachingAllocator) == (caching is CachingAllocator)
    told = []
    runtime.allocator(0).attach(lambda *event: told.append((event[0].name, event[7])))
    with pytest.raises(OutOfMemoryError):
        LibraryMemory(runtime, "rmm").allocate(1 << 40, device=0, stream=0)
    assert ("OUT_OF_MEMORY", library_number("rmm") << 24) in told
