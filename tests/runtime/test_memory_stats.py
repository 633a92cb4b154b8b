from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cuplug import OutOfMemoryError, Runtime
from cuplug.runtime.memory import memory_stats as stats
from cuplug.runtime.memory.copies import memset

pytestmark = pytest.mark.one_schedule
MIB = 1 << 20


def test_the_sequence_of_the_pytorch_notes_gives_its_figures(cuda: Any) -> None:
    assert cuda.max_memory_allocated() == 0
    array = cuda.alloc(300 * 300 * 300 * 4)
    cuda.reset_max_memory_allocated()
    assert cuda.max_memory_allocated() == 108_000_256
    assert cuda.memory_allocated() == 108_000_256
    cuda.alloc(4)
    assert cuda.memory_cached() == cuda.memory_reserved() == 111_149_056
    cuda.reset_max_memory_cached()
    assert cuda.max_memory_cached() == cuda.max_memory_reserved() == 111_149_056
    del array
    assert cuda.memory_allocated() == 0


def test_peaks_start_again_when_reset(cuda: Any) -> None:
    cuda.alloc(30 * MIB)
    cuda.empty_cache()
    assert cuda.memory_reserved() == 0
    assert cuda.max_memory_reserved() >= 30 * MIB
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_reserved() == cuda.max_memory_allocated() == 0


def test_figures_are_kept_for_each_device(cuda: Any) -> None:
    with cuda.device(1):
        held = cuda.alloc(1000)
        assert cuda.memory_allocated() == 1024
    assert cuda.memory_allocated() == 0
    assert cuda.memory_allocated(1) == cuda.memory_allocated("cuda:1") == 1024
    del held


def test_stats_have_the_names_of_pytorch(cuda: Any) -> None:
    held = cuda.alloc(1000), cuda.alloc(5 * MIB)
    found = cuda.memory_stats()
    assert found["allocation.all.current"] == 2
    assert found["allocated_bytes.small_pool.current"] == 1024
    assert found["requested_bytes.small_pool.current"] == 1000
    assert found["allocated_bytes.large_pool.peak"] == 5 * MIB
    assert found["reserved_bytes.all.allocated"] == found["reserved_bytes.all.current"]
    assert found["segment.all.current"] == 2
    assert (found["num_ooms"], found["num_alloc_retries"]) == (0, 0)
    assert list(found) == sorted(found)
    assert all(isinstance(value, int) for value in found.values())
    del held


def test_accumulated_figures_start_again_when_reset(cuda: Any) -> None:
    held = cuda.alloc(1000)
    cuda.alloc(1000)
    assert cuda.memory_stats()["allocation.all.allocated"] == 2
    cuda.reset_accumulated_memory_stats()
    found = cuda.memory_stats()
    assert (found["allocation.all.allocated"], found["allocation.all.current"]) == (0, 1)
    del held


def test_nothing_used_means_zero_everywhere(cuda: Any) -> None:
    assert cuda.memory_allocated(1) == cuda.max_memory_reserved(1) == 0
    assert not any(cuda.memory_stats(1).values())
    assert cuda.memory_snapshot() == []
    cuda.reset_peak_memory_stats(1)
    cuda.empty_cache()


def test_the_summary_is_a_table_with_the_figures(cuda: Any) -> None:
    held = cuda.alloc(20 * MIB)
    table = cuda.memory_summary()
    assert "memory of device 0, allocator caching" in table
    assert any(line.split()[:4] == ["allocated", "memory", "20", "MiB"] for line in table.splitlines())
    assert "small pool" in table
    assert "small pool" not in cuda.memory_summary(abbreviated=True)
    del held


def test_the_snapshot_maps_every_byte_that_is_held(cuda: Any) -> None:
    held = cuda.alloc(1000), cuda.alloc(30 * MIB)
    segments = cuda.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == cuda.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == cuda.memory_allocated()
    for segment in segments:
        assert segment["device"] == 0
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    live = {block["address"] for segment in segments for block in segment["blocks"] if block["state"] != "inactive"}
    assert live == {int(buffer) for buffer in held}
    assert cuda.memory_snapshot(1) == []


def test_free_and_total_bytes_are_the_devices(runtime: Runtime) -> None:
    free, total = stats.mem_get_info(runtime=runtime)
    held = runtime.alloc(64 * MIB)
    assert stats.mem_get_info(runtime=runtime)[0] <= free - 64 * MIB
    assert stats.mem_get_info(runtime=runtime)[1] == total
    del held


@pytest.mark.needs_sim
def test_the_part_of_the_memory_can_be_limited(make_runtime: Any) -> None:
    runtime = make_runtime(memory="256MiB")
    stats.set_per_process_memory_fraction(0.25, runtime=runtime)
    held = runtime.alloc(48 * MIB)
    with pytest.raises(OutOfMemoryError):
        runtime.alloc(48 * MIB)
    stats.set_per_process_memory_fraction(1.0, runtime=runtime)
    assert runtime.alloc(48 * MIB).nbytes == 48 * MIB
    with pytest.raises(ValueError, match="from 0 to 1"):
        stats.set_per_process_memory_fraction(1.5, runtime=runtime)
    del held


@pytest.mark.needs_sim
def test_emptying_the_cache_waits_for_queued_work() -> None:
    with Runtime(driver="sim:schedule=lazy") as runtime:
        buffer = runtime.alloc(30 * MIB)
        memset(buffer, 1, runtime=runtime)
        del buffer
        stats.empty_cache(runtime=runtime)
        assert stats.memory_reserved(runtime=runtime) == 0
        assert runtime.driver.live.allocations == 0


@pytest.mark.one_schedule
def test_a_fraction_is_of_the_memory_of_the_device_that_it_is_for(
    make_runtime: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(devices=2)
    properties = runtime.properties

    def unequal(ordinal: int) -> Any:
        return replace(properties(ordinal), total_memory=(ordinal + 1) << 30)

    monkeypatch.setattr(runtime, "properties", unequal)
    for ordinal in range(2):
        stats.set_per_process_memory_fraction(0.5, ordinal, runtime=runtime)
    assert [runtime.allocator(ordinal).memory_limit for ordinal in range(2)] == [1 << 29, 1 << 30]
