"""``expandable`` on a GPU: replays with real calls, and what the driver sees come back. Run with ``--driver cuda``."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.runtime.drivers.device_upstream import DeviceUpstream
from cuplug.tools.replaying.program import Program
from cuplug.tools.replaying.replayer import replay

pytestmark = pytest.mark.needs_gpu

MIB = 1 << 20


@pytest.mark.parametrize("aliases", [0, 4])
@pytest.mark.parametrize("name", ["resnet_multiscale", "gpt2_varlen", "stream_prefetch"])
def test_a_replay_on_the_gpu_reserves_what_the_estimate_says(
    name: str,
    aliases: int,
    history: Callable[[str], list[Program]],
    make_driver: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = history(name)
    driver = make_driver()
    driver.set_device(0)
    streams: dict[int, int] = {}

    def stream(_ordinal: int, recorded: int) -> int:
        if recorded not in streams:
            streams[recorded] = driver.stream_create() if recorded else 0
        return streams[recorded]

    make = partial(ExpandableAllocator, aliases=aliases)
    estimate = replay(programs, make, allocator="expandable")
    measured = replay(
        programs,
        make,
        allocator="expandable",
        make_upstream=lambda ordinal: DeviceUpstream(driver, ordinal),
        stream=stream,
    )
    with capsys.disabled():
        print(
            f"\n{name}: reserved {measured.peak_reserved_bytes} (estimate {estimate.peak_reserved_bytes}) bytes, "
            f"driver {measured.driver_time_us / 1000:.1f} (estimate {estimate.driver_time_us / 1000:.1f}) ms, "
            f"{sum(measured.driver_calls.values())} (estimate {sum(estimate.driver_calls.values())}) calls"
        )
    assert (measured.failure, measured.out_of_memory_events) == ("", 0)
    assert measured.peak_reserved_bytes == pytest.approx(estimate.peak_reserved_bytes, rel=0.01)
    # What a call costs is the machine's affair, and printed; how many there are is the allocator's.
    calls, expected = sum(measured.driver_calls.values()), sum(estimate.driver_calls.values())
    assert calls == pytest.approx(expected, rel=0.1)


def test_release_cached_gives_the_memory_back_to_the_device(make_driver: Any) -> None:
    driver = make_driver()
    driver.set_device(0)
    allocator = ExpandableAllocator(DeviceUpstream(driver, 0))
    kept = [allocator.allocate(64 * MIB, stream=0) for _ in range(64)]
    for block in kept:
        driver.memset(block.address, 1, block.nbytes, stream=0)
    for block in kept[1:]:
        allocator.free(block)
    held, used = allocator.statistics().all.reserved_bytes.current, seen_by_nvidia_smi()
    released = allocator.release_cached()
    assert released == held - allocator.statistics().all.reserved_bytes.current >= 63 * 64 * MIB
    after = seen_by_nvidia_smi()
    if used is not None and after is not None:
        assert used - after == pytest.approx(released, abs=64 * MIB)
    allocator.close()


@pytest.mark.parametrize("aliases", [0, 4])
def test_contents_stay_in_place_while_pages_move_around_them(make_driver: Any, aliases: int) -> None:
    driver = make_driver()
    driver.set_device(0)
    allocator = ExpandableAllocator(DeviceUpstream(driver, 0), memory_limit=256 * MIB, aliases=aliases)
    stream = driver.stream_create()
    host = driver.host_alloc(64)
    blocks = [allocator.allocate(6 * MIB, stream=stream) for _ in range(40)]
    for value, block in enumerate(blocks, 1):
        driver.memset(block.address, value, block.nbytes, stream=stream)
    for block in blocks[::2]:
        allocator.free(block)
    big = allocator.allocate(90 * MIB, stream=stream)
    driver.memset(big.address, 255, big.nbytes, stream=stream)
    for value, block in list(enumerate(blocks, 1))[1::2]:
        for address in (block.address, block.address + block.nbytes - 64):
            driver.memcpy_dtoh(host, address, 64, stream=stream)
            driver.stream_synchronize(stream)
            assert _bytes_at(host, 64) == bytes([value]) * 64
    allocator.close()
    driver.host_free(host)
    driver.stream_destroy(stream)


def seen_by_nvidia_smi() -> int | None:
    """The device's used bytes, as ``nvidia-smi`` says; None without it, or where several devices are visible, or other
    tests use the device meanwhile."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    try:
        said = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=True, env={**os.environ, "LC_ALL": "C"},
        ).stdout.split()  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return int(said[0]) * MIB if len(said) == 1 else None


def _bytes_at(address: int, nbytes: int) -> bytes:
    return ctypes.string_at(address, nbytes)
