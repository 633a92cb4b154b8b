"""cuplug as a resource of RMM's own classes, on the simulator."""

from __future__ import annotations

import pytest
from cuplug.allocators.errors import CuplugError, PluginError
from cuplug.interop import rmm as under_rmm

pytestmark = pytest.mark.needs_rmm


def allocated(runtime):
    return runtime.allocator(0).statistics().all.requested_bytes.current


def test_rmm_takes_memory_from_cuplug_and_gives_it_back(make_simulated):
    runtime = make_simulated()
    resource = under_rmm.memory_resource(runtime=runtime)
    address = resource.allocate(1000)
    assert allocated(runtime) == 1000
    assert address == runtime.allocator(0).live_blocks()[0].address
    resource.deallocate(address, 1000)
    assert allocated(runtime) == 0


def test_a_stream_of_rmm_is_the_same_stream_to_the_allocator(make_simulated):
    from rmm.pylibrmm.stream import Stream

    runtime = make_simulated()
    own = runtime.driver.stream_create(non_blocking=True)

    class Foreign:
        def __cuda_stream__(self):
            return 0, own

    resource = under_rmm.memory_resource(runtime=runtime)
    resource.allocate(1000, Stream(obj=Foreign()))
    assert runtime.allocator(0).live_blocks()[0].stream == own


def test_rmm_raises_its_own_error_with_our_figures(make_simulated):
    resource = under_rmm.memory_resource(runtime=make_simulated())
    with pytest.raises(MemoryError, match=r"out_of_memory.*Tried to allocate 1\.00 TiB"):
        resource.allocate(1 << 40)


def test_rmms_adaptors_work_over_it(make_simulated):
    import rmm

    runtime = make_simulated()
    resource = rmm.mr.LimitingResourceAdaptor(under_rmm.memory_resource(runtime=runtime), 1 << 20)
    address = resource.allocate(1 << 19)
    with pytest.raises(MemoryError):
        resource.allocate(1 << 20)
    assert allocated(runtime) == 1 << 19
    resource.deallocate(address, 1 << 19)


def test_a_device_that_is_not_there_is_refused(make_simulated):
    with pytest.raises(CuplugError, match="there is no device 3"):
        under_rmm.memory_resource(3, runtime=make_simulated())


def test_cuplug_over_a_resource_of_rmm_reserves_there(make_simulated):
    import rmm

    below = make_simulated("direct")
    resource = rmm.mr.StatisticsResourceAdaptor(under_rmm.memory_resource(runtime=below))
    runtime = make_simulated(under_rmm.over(resource, "caching"))
    block = runtime.alloc(1000)
    assert resource.allocation_counts.current_bytes == runtime.allocator(0).statistics().all.reserved_bytes.current
    assert allocated(below) == 2 << 20
    del block
    runtime.allocator(0).release_cached()
    assert allocated(below) == 0


def test_buffers_over_a_resource_are_copied_as_any(make_simulated):
    import cuplug
    import numpy as np

    resource = under_rmm.memory_resource(runtime=(below := make_simulated("direct")))
    out = np.zeros(1000, np.uint8)
    with cuplug.Runtime(allocator=under_rmm.over(resource), driver=below.driver) as runtime:
        buffer = runtime.alloc(1000)
        cuplug.cuda.memset(buffer, 7, runtime=runtime)
        cuplug.cuda.memcpy(out, buffer, runtime=runtime)
        assert (out == 7).all()
        assert buffer.device == 0


def test_lack_of_memory_in_the_resource_is_an_error_of_ours(make_simulated):
    import rmm
    from cuplug import OutOfMemoryError

    limited = rmm.mr.LimitingResourceAdaptor(under_rmm.memory_resource(runtime=make_simulated()), 1 << 20)
    runtime = make_simulated(under_rmm.over(limited))
    with pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        runtime.alloc(1000)


def test_expandable_over_a_resource_is_refused(make_simulated):
    import rmm

    runtime = make_simulated(under_rmm.over(rmm.mr.CudaMemoryResource(), "expandable"))
    with pytest.raises((CuplugError, PluginError), match="virtual memory"):
        runtime.alloc(1000)
