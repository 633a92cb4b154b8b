"""The plugin for Numba's external memory management, over Numba's own classes, on the simulator."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
from cuplug import CuplugError, OutOfMemoryError
from cuplug.interop import numba as under_numba

pytestmark = pytest.mark.needs_numba


@pytest.fixture
def manager(make_simulated):
    pytest.importorskip("numba.cuda")
    kind = under_numba.memory_manager(runtime=make_simulated())
    return kind(context=SimpleNamespace(device=SimpleNamespace(id=0)))


def blocks(manager):
    return manager.cuplug_memory.runtime.allocator(0).live_blocks()


def test_numba_takes_memory_and_gives_it_back_when_nobody_holds_it(manager):
    pointer = manager.memalloc(1000)
    assert [block.address for block in blocks(manager)] == [pointer.device_pointer_value]
    del pointer
    gc.collect()
    assert not blocks(manager)


def test_memory_is_for_cuplugs_current_stream(manager):
    import cuplug

    runtime = manager.cuplug_memory.runtime
    stream = cuplug.cuda.Stream(runtime=runtime)
    with cuplug.cuda.stream(stream):
        pointer = manager.memalloc(1000)
    assert [block.stream for block in blocks(manager)] == [stream.cuda_stream]
    del pointer


def test_lack_of_memory_is_our_error(manager):
    with pytest.raises(OutOfMemoryError):
        manager.memalloc(1 << 40)


def test_numba_is_told_the_devices_memory(manager):
    free, total = manager.get_memory_info()
    assert total == 1 << 30
    assert 0 < free <= total


def test_numba_accepts_the_plugins_version(manager):
    from numba.cuda.cudadrv import driver

    assert type(manager)(context=None).interface_version == driver._SUPPORTED_EMM_INTERFACE_VERSION


def test_virtual_memory_has_no_handle_for_other_processes(make_simulated):
    pytest.importorskip("numba.cuda")
    kind = under_numba.memory_manager(runtime=make_simulated("expandable"))
    manager = kind(context=SimpleNamespace(device=SimpleNamespace(id=0)))
    with pytest.raises(CuplugError, match="the allocator caching can"):
        manager.get_ipc_handle(manager.memalloc(1000))


def test_an_array_of_numbas_own_memory_is_not_ours():
    array = SimpleNamespace(gpu_data=SimpleNamespace(context=SimpleNamespace(memory_manager=object())))
    with pytest.raises(CuplugError, match="was not allocated from cuplug"):
        under_numba.record_stream(array, 0)
