"""What makes no sense is refused where it is passed, in one sentence that says what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import Buffer, CuplugError, PinnedBuffer, PluginError, Runtime

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]

NUMBER = ["zz", b"x", 2.5, float("nan"), [], object()]
"""Not whole numbers."""
SIZE = [*NUMBER, -1]
HANDLE = [*NUMBER, True, -1, 1 << 64]
DEVICE = [*NUMBER, True, 99]
NOT_ONE = [5, "zz", 2.5, True, object()]
"""Not one of cuplug's objects."""
FLAG = ["zz", 2, -1, 2.5, object()]


class Fixtures:
    """What a call of the table may need."""

    def __init__(self) -> None:
        self.cuda = cuplug.cuda
        self.stream, self.event = self.cuda.Stream(), self.cuda.Event(enable_timing=True)
        self.event.record()
        self.buffer, self.pinned = self.cuda.alloc(100), self.cuda.alloc_pinned(100)
        self.runtime = cuplug.default_runtime()


Call = Callable[[Fixtures, Any], Any]


def _enter(manager: Any) -> None:
    with manager:
        pass


# By function and argument: the call, and what makes no sense there.
TABLE: dict[str, tuple[Call, list[Any]]] = {
    "alloc(nbytes)": (lambda f, wrong: f.cuda.alloc(wrong), [None, *SIZE]),
    "alloc(stream)": (lambda f, wrong: f.cuda.alloc(10, stream=wrong), HANDLE),
    "alloc_managed(nbytes)": (lambda f, wrong: f.cuda.alloc_managed(wrong), [None, *SIZE, 0]),
    "alloc_pinned(nbytes)": (lambda f, wrong: f.cuda.alloc_pinned(wrong), [None, *SIZE]),
    "arena(device)": (lambda f, wrong: _enter(f.cuda.arena(wrong)), DEVICE),
    "arena(force)": (lambda f, wrong: f.cuda.arena(force=wrong), FLAG),
    "Buffer.of(block)": (lambda _, wrong: Buffer.of(wrong), [None, *NOT_ONE]),
    "Buffer.record_stream(stream)": (lambda f, wrong: f.buffer.record_stream(wrong), [None, *HANDLE]),
    "PinnedBuffer(memory)": (lambda _, wrong: PinnedBuffer(wrong), [None, *NOT_ONE]),
    "Stream(device)": (lambda f, wrong: f.cuda.Stream(wrong), DEVICE),
    "Stream(priority)": (lambda f, wrong: f.cuda.Stream(priority=wrong), [None, *NUMBER]),
    "Stream.wait_event(event)": (lambda f, wrong: f.stream.wait_event(wrong), [None, *NUMBER]),
    "Stream.wait_stream(stream)": (lambda f, wrong: f.stream.wait_stream(wrong), HANDLE),
    "Stream.record_event(event)": (lambda f, wrong: f.stream.record_event(wrong), NOT_ONE),
    "ExternalStream(stream_ptr)": (lambda f, wrong: f.cuda.ExternalStream(wrong), [None, *HANDLE]),
    "ExternalStream(device)": (lambda f, wrong: f.cuda.ExternalStream(0, wrong), DEVICE),
    "StreamContext(stream)": (lambda f, wrong: _enter(f.cuda.StreamContext(wrong)), HANDLE),
    "stream(stream)": (lambda f, wrong: _enter(f.cuda.stream(wrong)), HANDLE),
    "set_stream(stream)": (lambda f, wrong: f.cuda.set_stream(wrong), HANDLE),
    "current_stream(device)": (lambda f, wrong: f.cuda.current_stream(wrong), DEVICE),
    "default_stream(device)": (lambda f, wrong: f.cuda.default_stream(wrong), DEVICE),
    "Event(enable_timing)": (lambda f, wrong: f.cuda.Event(wrong), FLAG),
    "Event(blocking)": (lambda f, wrong: f.cuda.Event(blocking=wrong), FLAG),
    "Event(interprocess)": (lambda f, wrong: f.cuda.Event(interprocess=wrong), [*FLAG, True]),
    "Event.record(stream)": (lambda f, wrong: f.event.record(wrong), HANDLE),
    "Event.wait(stream)": (lambda f, wrong: f.event.wait(wrong), HANDLE),
    "Event.elapsed_time(end_event)": (lambda f, wrong: f.event.elapsed_time(wrong), [None, *NOT_ONE]),
    "device(device)": (lambda f, wrong: _enter(f.cuda.device(wrong)), DEVICE),
    "set_device(device)": (lambda f, wrong: f.cuda.set_device(wrong), DEVICE),
    "synchronize(device)": (lambda f, wrong: f.cuda.synchronize(wrong), DEVICE),
    "get_device_properties(device)": (lambda f, wrong: f.cuda.get_device_properties(wrong), DEVICE),
    "get_device_name(device)": (lambda f, wrong: f.cuda.get_device_name(wrong), DEVICE),
    "get_device_capability(device)": (lambda f, wrong: f.cuda.get_device_capability(wrong), DEVICE),
    "can_device_access_peer(peer_device)": (lambda f, wrong: f.cuda.can_device_access_peer(0, wrong), DEVICE),
    "enable_peer_access(peer_device)": (lambda f, wrong: f.cuda.enable_peer_access(0, wrong), DEVICE),
    "disable_peer_access(peer_device)": (lambda f, wrong: f.cuda.disable_peer_access(0, wrong), DEVICE),
    "memcpy(dst)": (lambda f, wrong: f.cuda.memcpy(wrong, f.buffer), [None, 5, "zz", 2.5]),
    "memcpy(src)": (lambda f, wrong: f.cuda.memcpy(f.buffer, wrong), [None, 5, "zz", 2.5]),
    "memcpy(nbytes)": (lambda f, wrong: f.cuda.memcpy(f.pinned, f.buffer, wrong), [*SIZE, 101]),
    "memcpy(stream)": (lambda f, wrong: f.cuda.memcpy(f.pinned, f.buffer, stream=wrong), HANDLE),
    "memset(dst)": (lambda f, wrong: f.cuda.memset(wrong, 0), [None, 5, "zz", 2.5, bytearray(4)]),
    "memset(value)": (lambda f, wrong: f.cuda.memset(f.buffer, wrong), [None, *SIZE, 256]),
    "memset(nbytes)": (lambda f, wrong: f.cuda.memset(f.buffer, 0, wrong), [*SIZE, 101]),
    "memset(width)": (lambda f, wrong: f.cuda.memset(f.buffer, 0, width=wrong), [None, *SIZE, 3, 2.0]),
    "memset(stream)": (lambda f, wrong: f.cuda.memset(f.buffer, 0, stream=wrong), HANDLE),
    "caching_allocator_alloc(size)": (lambda f, wrong: f.cuda.caching_allocator_alloc(wrong), [None, *SIZE]),
    "caching_allocator_alloc(device)": (lambda f, wrong: f.cuda.caching_allocator_alloc(8, wrong), DEVICE),
    "caching_allocator_alloc(stream)": (lambda f, wrong: f.cuda.caching_allocator_alloc(8, None, wrong), HANDLE),
    "caching_allocator_delete(mem_ptr)": (lambda f, wrong: f.cuda.caching_allocator_delete(wrong), [None, *SIZE]),
    "get_stream_from_external(data_ptr)": (lambda f, wrong: f.cuda.get_stream_from_external(wrong), [None, *HANDLE]),
    "check_error(res)": (lambda f, wrong: f.cuda.check_error(wrong), [None, *SIZE]),
    "mem_get_info(device)": (lambda f, wrong: f.cuda.mem_get_info(wrong), DEVICE),
    "memory_tag(name)": (lambda f, wrong: _enter(f.cuda.memory_tag(wrong)), [None, *NUMBER[1:], "", 5]),
    "sleep(tag)": (lambda f, wrong: f.cuda.sleep(wrong), [None, *NUMBER, ""]),
    "sleep(keep)": (lambda f, wrong: f.cuda.sleep("zz", wrong), FLAG),
    "wake(tag)": (lambda f, wrong: f.cuda.wake(wrong), [None, *NUMBER, ""]),
    "move(tag)": (lambda f, wrong: f.cuda.move(wrong, "host"), [None, *NUMBER, ""]),
    "memory_snapshot(device)": (lambda f, wrong: f.cuda.memory_snapshot(wrong), DEVICE),
    "memory_summary(abbreviated)": (lambda f, wrong: f.cuda.memory_summary(abbreviated=wrong), FLAG),
    "set_per_process_memory_fraction(fraction)": (
        lambda f, wrong: f.cuda.set_per_process_memory_fraction(wrong),
        [None, "0.5", b"x", [], True, -0.5, 1.5, 2, float("nan")],
    ),
    "set_per_process_memory_fraction(device)": (
        lambda f, wrong: f.cuda.set_per_process_memory_fraction(0.5, wrong),
        DEVICE,
    ),
    **{
        f"{name}(device)": (lambda f, wrong, name=name: getattr(f.cuda, name)(wrong), DEVICE)  # type: ignore[misc]
        for name in cuplug.cuda.__all__
        if (
            "memory" in name or name in ("clock_rate", "list_gpu_processes", "power_draw", "temperature", "utilization")
        )
        and name not in ("memory", "memory_snapshot", "memory_tag", "set_per_process_memory_fraction")
        and not name.startswith("host")
    },
    **{
        f"{name}(runtime)": (lambda f, wrong, name=name: getattr(f.cuda, name)(runtime=wrong), [*NOT_ONE, []])  # type: ignore[misc]
        for name in ("Event", "Stream", "current_device", "current_stream", "default_stream", "synchronize")
    },
    **{
        f"{name}(runtime)": (lambda f, wrong, name=name: getattr(f.cuda, name)(0, runtime=wrong), [*NOT_ONE, []])  # type: ignore[misc]
        for name in ("alloc_pinned", "ExternalStream", "set_device", "mem_get_info", "memory_stats", "memory_snapshot")
    },
    "device(runtime)": (lambda f, wrong: _enter(f.cuda.device(0, runtime=wrong)), NOT_ONE),
    "arena(runtime)": (lambda f, wrong: _enter(f.cuda.arena(runtime=wrong)), NOT_ONE),
    "empty_cache(runtime)": (lambda f, wrong: f.cuda.empty_cache(runtime=wrong), NOT_ONE),
    "memcpy(runtime)": (lambda f, wrong: f.cuda.memcpy(f.pinned, f.buffer, runtime=wrong), NOT_ONE),
    "memset(runtime)": (lambda f, wrong: f.cuda.memset(f.buffer, 0, runtime=wrong), NOT_ONE),
    "Runtime(allocator)": (lambda _, wrong: Runtime(wrong, "sim"), [5, 2.5, b"x", "zz", True]),
    "Runtime(driver)": (lambda _, wrong: Runtime(driver=wrong), [5, 2.5, b"x", "zz", True, object()]),
    "Runtime(trace)": (lambda _, wrong: Runtime(driver="sim", trace=wrong), [5, 2.5, b"x", True, object()]),
    "Runtime(launch_blocking)": (lambda _, wrong: Runtime(driver="sim", launch_blocking=wrong), FLAG),
    "Runtime(plugins)": (lambda _, wrong: Runtime(driver="sim", plugins=wrong), NOT_ONE),
    "Runtime.alloc(nbytes)": (lambda f, wrong: f.runtime.alloc(wrong), [None, *SIZE]),
    "Runtime.alloc(stream)": (lambda f, wrong: f.runtime.alloc(10, stream=wrong), HANDLE),
    "Runtime.device(ordinal)": (lambda f, wrong: f.runtime.device(wrong), [None, *SIZE, 99]),
    "Runtime.allocator(ordinal)": (lambda f, wrong: f.runtime.allocator(wrong), [None, *SIZE, 99]),
    "Runtime.find_allocator(ordinal)": (lambda f, wrong: f.runtime.find_allocator(wrong), [None, *NUMBER]),
    "Runtime.properties(ordinal)": (lambda f, wrong: f.runtime.properties(wrong), [None, *SIZE, 99]),
    "Runtime.at_close(closer)": (lambda f, wrong: f.runtime.at_close(wrong), [None, *NOT_ONE]),
    "allocator_handle(device)": (lambda f, wrong: f.cuda.allocator_handle(wrong), DEVICE),
    "allocator_handle(runtime)": (lambda f, wrong: f.cuda.allocator_handle(runtime=wrong), NOT_ONE),
    "allocator_functions(runtime)": (lambda f, wrong: f.cuda.allocator_functions(runtime=wrong), NOT_ONE),
    "Runtime.keep(allocator)": (lambda f, wrong: f.runtime.keep(wrong), [None, *NOT_ONE]),
    "init(allocator)": (lambda _, wrong: cuplug.init(wrong), [5, 2.5, b"x", "zz"]),
    "init(driver)": (lambda _, wrong: cuplug.init(driver=wrong), [5, 2.5, b"x", "zz"]),
    "init(trace)": (lambda _, wrong: cuplug.init(trace=wrong), [5, 2.5, b"x"]),
    "init(launch_blocking)": (lambda _, wrong: cuplug.init(launch_blocking=wrong), FLAG),
    "init(plugins)": (lambda _, wrong: cuplug.init(plugins=wrong), NOT_ONE),
}
TAKES_NOTHING = {
    "CudaError",
    "OutOfMemoryError",
    "cudart",
    "is_current_stream_capturing",
    "is_tf32_supported",
    "nvtx",
    "profiler",
    "device_of",
    "get_allocator_backend",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "ipc_collect",
    "is_bf16_supported",
    "is_initialized",
    "memory",
    "is_available",
    "device_count",
}
OF_PYTHON = ("has no attribute", "not supported between", "cannot be interpreted", "unhashable", "expected str, bytes")
"""How Python's own errors begin, which name neither the argument nor what to pass."""


@pytest.fixture(scope="module")
def fixtures() -> Iterator[Fixtures]:
    cuplug.shutdown()
    cuplug.init("caching", "sim:devices=2")
    yield Fixtures()
    cuplug.shutdown()


@pytest.mark.parametrize("what", TABLE)
def test_a_wrong_argument_is_refused_in_one_clear_sentence(fixtures: Fixtures, what: str) -> None:
    call, values = TABLE[what]
    for wrong in values:
        with pytest.raises((TypeError, ValueError, CuplugError)) as caught:
            call(fixtures, wrong)
        message = str(caught.value)
        assert "\n" not in message, (wrong, message)
        assert len(message) > 20, (wrong, message)
        assert not any(phrase in message for phrase in OF_PYTHON), (wrong, message)


def test_a_refused_argument_changes_nothing(fixtures: Fixtures) -> None:
    cuda, before = fixtures.cuda, fixtures.cuda.memory_stats()
    for call, values in TABLE.values():
        for wrong in values:
            with pytest.raises((TypeError, ValueError, CuplugError)):
                call(fixtures, wrong)
    assert cuda.current_device() == 0
    assert cuda.current_stream() is cuda.default_stream()
    assert cuda.memory_stats() == before
    assert cuplug.default_runtime() is fixtures.runtime
    cuda.synchronize()


def test_the_table_holds_every_public_function() -> None:
    in_table = {what.partition("(")[0].partition(".")[0] for what in TABLE}
    assert set(cuplug.cuda.__all__) - TAKES_NOTHING <= in_table


def test_numpys_numbers_and_flags_are_numbers_and_flags(fixtures: Fixtures) -> None:
    cuda = fixtures.cuda
    assert cuda.alloc(np.int64(100)).nbytes == 100
    assert cuda.Event(np.bool_(True)).enable_timing is True
    assert cuda.Stream(priority=np.int8(-1)).priority == -1
    cuda.memset(fixtures.buffer, np.uint8(3), np.uint16(4))
    cuda.set_per_process_memory_fraction(np.float32(1.0))
    cuda.set_per_process_memory_fraction(1)


# --- settings


@pytest.mark.parametrize("said", ["zz", "2", "-1", "true", "1.0"])
def test_a_variable_of_the_environment_that_cannot_be_understood_is_named(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", said)
    with pytest.raises(CuplugError, match=rf"CUDA_LAUNCH_BLOCKING is '{said}'; set it to 1 or 0, or unset it"):
        Runtime(driver="sim")


@pytest.mark.parametrize(("said", "blocks"), [("", False), ("0", False), ("1", True), (" 1 ", True)])
def test_launches_block_where_the_environment_says_so(said: str, blocks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", said)
    with Runtime(driver="sim") as runtime:
        assert runtime.launch_blocking is blocks


@pytest.mark.parametrize(
    ("driver", "message"),
    [
        ("sim:devices=1e9", "'1e9' is no whole number"),
        ("sim:devices=many", "'many' is no whole number"),
        ("sim:memory=12parsecs", "'12parsecs' is no whole number"),
        ("sim:peer_access=perhaps", "neither true nor false"),
        ("sim:seed=-1", "seed"),
    ],
)
def test_a_wrong_option_is_named_with_what_was_expected(driver: str, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        Runtime(driver=driver)


@pytest.mark.parametrize("allocator", ["direct", "bump", "caching", "expandable"])
def test_a_memory_limit_below_one_byte_is_refused(allocator: str) -> None:
    with Runtime(f"{allocator}:memory_limit=-1", "sim") as runtime, pytest.raises(PluginError, match="memory_limit"):
        runtime.alloc(1)
