from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug import CuplugError, DriverError, PluginError, Runtime, UnknownAllocatorError
from cuplug.allocators.direct import DirectAllocator
from cuplug.plugins.bundled import Bundled
from cuplug.plugins.manager import PluginManager, default_manager
from cuplug.plugins.specs import hookimpl
from cuplug.runtime.drivers.base import driver_error
from cuplug.runtime.drivers.sim import SimDriver
from cuplug.runtime.machine.process import leave_open
from cuplug.runtime.memory.copies import memcpy, memset
from cuplug.runtime.memory.pinned import alloc_pinned
from cuplug.runtime.streams.stream import Event, Stream, stream

pytestmark = [pytest.mark.one_schedule, pytest.mark.needs_sim]


@pytest.fixture(autouse=True)
def _no_default_left() -> Any:
    yield
    cuplug.shutdown()


# --- the default runtime


def test_the_default_runtime_starts_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUPLUG_DRIVER", "sim:devices=3")
    assert cuplug.cuda.device_count() == 3
    assert cuplug.cuda.alloc(100).device == 0


def test_starting_again_with_the_same_settings_gives_the_same_runtime() -> None:
    first = cuplug.init(driver="sim", allocator="direct")
    cuplug.cuda.alloc(100)
    assert cuplug.init(driver="sim", allocator="direct") is first
    assert cuplug.init() is first
    assert cuplug.default_runtime() is first


def test_starting_again_with_other_settings_while_in_use_is_refused() -> None:
    first = cuplug.init(driver="sim", allocator="direct")
    cuplug.cuda.alloc(100)
    with pytest.raises(
        CuplugError, match=r"in use and cannot go on with allocator='bump' instead of 'direct'; call shutdown\(\) first"
    ):
        cuplug.init(driver="sim", allocator="bump")
    assert cuplug.default_runtime() is first
    cuplug.shutdown()
    assert cuplug.init(driver="sim", allocator="bump") is not first


def test_a_runtime_that_nobody_used_makes_way() -> None:
    first = cuplug.init(driver="sim")
    assert cuplug.cuda.is_available()
    second = cuplug.init(driver="sim:devices=2")
    assert not first.usable
    assert cuplug.cuda.device_count() == 2
    assert cuplug.default_runtime() is second


def test_a_runtime_that_nobody_used_is_replaced_by_one_of_the_settings_that_are_not_said_anew() -> None:
    cuplug.init(driver="sim:devices=2")
    changed = cuplug.init(allocator="expandable").settings
    assert (changed.driver, changed.allocator) == ("sim:devices=2", "expandable")


def test_shutting_down_twice_or_before_anything_is_harmless() -> None:
    cuplug.shutdown()
    cuplug.init(driver="sim")
    cuplug.shutdown()
    cuplug.shutdown()


def test_a_thread_goes_on_with_the_runtime_started_after_a_shutdown() -> None:
    cuplug.init(driver="sim:devices=2")
    cuplug.cuda.set_device(1)
    cuplug.cuda.alloc(100)
    cuplug.shutdown()
    runtime = cuplug.init(driver="sim:devices=2")
    buffer = cuplug.cuda.alloc(100)
    assert buffer.device == 0
    assert runtime.allocator(0).statistics().all.allocation.current == 1


# --- choosing


def test_an_argument_goes_before_the_environment_and_that_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    with Runtime(driver="sim") as runtime:
        assert runtime.settings.allocator == "caching"
    monkeypatch.setenv("CUPLUG_ALLOCATOR", "direct")
    monkeypatch.setenv("CUPLUG_DRIVER", "sim:devices=4")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with Runtime() as runtime:
        assert isinstance(runtime.allocator(3), DirectAllocator)
        assert runtime.launch_blocking
    with Runtime(allocator="bump", driver="sim:devices=2", launch_blocking=False) as runtime:
        assert type(runtime.allocator(0)).__name__ == "BumpAllocator"
        assert runtime.device_count() == 2
        assert not runtime.launch_blocking


def test_an_unknown_allocator_is_refused_at_the_start() -> None:
    with pytest.raises(UnknownAllocatorError, match="caching"):
        Runtime(driver="sim", allocator="cachign")
    with pytest.raises(CuplugError, match="memory_limit"):
        Runtime(driver="sim", allocator="caching:memory_limt=1GiB")
    with pytest.raises(CuplugError, match="sim"):
        Runtime(driver="simm")


def test_an_allocator_may_be_given_as_a_factory() -> None:
    with Runtime(driver="sim", allocator=lambda upstream: DirectAllocator(upstream, memory_limit=4096)) as runtime:
        with pytest.raises(cuplug.OutOfMemoryError):
            runtime.alloc(8192)
        assert runtime.alloc(100).nbytes == 100


def test_a_driver_that_was_passed_in_stays_open() -> None:
    driver = SimDriver(devices=2)
    with Runtime(driver=driver) as first, Runtime(driver=driver) as second:
        assert first.alloc(100).address != second.alloc(100).address
    driver.set_device(1)
    assert driver.mem_alloc(100)
    driver.close()


class _NoPycuda(PluginManager):
    """A manager whose CUDA driver is missing, or finds no device."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found

    def make_driver(self, selection: str) -> Any:
        if selection != "cuda":
            return default_manager().make_driver(selection)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def check_allocator(self, selection: str) -> None:
        default_manager().check_allocator(selection)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (cuplug.PluginError("No module named 'pycuda'"), "No module named 'pycuda'"),
        (driver_error(100, "no device"), "CUDA_ERROR_NO_DEVICE"),
        (SimDriver(devices=0), "the CUDA driver finds none"),
    ],
)
def test_without_a_gpu_there_is_no_device_and_the_error_names_the_simulator(found: Any, why: str) -> None:
    with Runtime(plugins=_NoPycuda(found)) as runtime:
        assert runtime.device_count() == 0
        with pytest.raises(CuplugError, match=why) as caught:
            runtime.alloc(100)
        assert 'driver="sim"' in str(caught.value)
        assert "CUPLUG_DRIVER=sim" in str(caught.value)


def test_without_a_gpu_programs_that_ask_first_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cuplug.init(plugins=_NoPycuda(driver_error(100, "no device")))
    assert not cuplug.cuda.is_available()
    assert cuplug.cuda.device_count() == 0
    assert cuplug.cuda.memory_allocated() == 0
    assert cuplug.cuda.memory_snapshot() == []
    cuplug.cuda.empty_cache()
    for use in (cuplug.cuda.current_device, cuplug.cuda.Stream, cuplug.cuda.synchronize, cuplug.cuda.current_stream):
        with pytest.raises(CuplugError, match="there is no CUDA device"):
            use()
    with pytest.raises(CuplugError, match="there is no CUDA device"), cuplug.cuda.device(0):
        pass


# --- observers and hooks


class _Plugin:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.asked: list[Any] = []
        self.spare: Any = None

    @hookimpl
    def cuplug_observers(self, runtime: Any) -> Any:
        def make(ordinal: int) -> Any:
            return lambda *event: self.events.append((ordinal, event[0].name))

        return [make]

    @hookimpl
    def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
        self.asked.append((device, nbytes, stream))
        had, self.spare = self.spare, None
        return had is not None


@pytest.fixture
def plugin() -> Any:
    plugin = _Plugin()
    default_manager().register(plugin, "a test's plugin")
    yield plugin
    default_manager().unregister("a test's plugin")


def test_observers_of_plugins_hear_of_every_device(plugin: _Plugin) -> None:
    with Runtime(driver="sim:devices=2", allocator="direct") as runtime:
        runtime.alloc(100).close()
        runtime.alloc(100, stream=Stream(1, runtime=runtime)).close()
    assert (0, "ALLOCATE") in plugin.events
    assert (1, "FREE") in plugin.events


def test_plugins_are_asked_when_memory_runs_out(plugin: _Plugin) -> None:
    with Runtime(driver="sim:devices=2,memory=64MiB") as runtime:
        queue = Stream(1, runtime=runtime)
        plugin.spare = runtime.alloc(48 << 20, stream=queue)
        assert runtime.alloc(48 << 20, stream=queue).nbytes == 48 << 20
        assert plugin.asked == [(1, 48 << 20, queue.cuda_stream)]
        with pytest.raises(cuplug.OutOfMemoryError):
            runtime.alloc(80 << 20)


def _full(runtime: Runtime) -> list[Any]:
    """All the memory of a device with 64 MiB."""
    return [runtime.alloc(32 << 20), runtime.alloc(32 << 20)]


def test_a_hook_that_allocates_what_is_not_there_is_told_so_once() -> None:
    class Hungry:
        asked = 0

        @hookimpl
        def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
            self.asked += 1
            runtime.alloc(nbytes)
            return True

    hungry, manager = Hungry(), PluginManager()
    manager.register(Bundled(), "cuplug")
    manager.register(hungry, "hungry")
    with Runtime(driver="sim:memory=64MiB", plugins=manager) as runtime:
        held = _full(runtime)
        for times in (1, 2):
            with pytest.raises(PluginError, match=r"'hungry': .* has itself asked for 1000 bytes of device 0"):
                runtime.alloc(1000)
            assert hungry.asked == times
        held.pop()
        assert runtime.alloc(1000).nbytes == 1000


def test_a_hook_may_allocate_what_is_there_and_catch_the_error_where_it_is_not() -> None:
    class Careful:
        spare: Any = None
        errors = 0

        @hookimpl
        def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
            try:
                runtime.alloc(nbytes)
            except cuplug.OutOfMemoryError:
                self.errors += 1
            self.spare = None
            runtime.alloc(nbytes // 2).close()
            return True

    careful, manager = Careful(), PluginManager()
    manager.register(Bundled(), "cuplug")
    manager.register(careful, "careful")
    with Runtime(driver="sim:memory=64MiB", plugins=manager) as runtime:
        first, careful.spare = _full(runtime)
        assert runtime.alloc(32 << 20).nbytes == 32 << 20
        assert careful.errors == 1
        del first


def test_a_hook_that_frees_and_takes_for_ever_is_stopped() -> None:
    class Juggler:
        asked = 0
        held: Any = None

        @hookimpl
        def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
            self.asked += 1
            self.held = None
            self.held = runtime.alloc((32 << 20) - self.asked * 4096)
            return True

    juggler, manager = Juggler(), PluginManager()
    manager.register(Bundled(), "cuplug")
    manager.register(juggler, "juggler")
    with Runtime(allocator="direct", driver="sim:memory=64MiB", plugins=manager) as runtime:
        juggler.held = runtime.alloc(32 << 20)
        with pytest.raises(cuplug.OutOfMemoryError):
            runtime.alloc(48 << 20)
        assert 1 <= juggler.asked <= 64  # as Allocator.allocate says
        juggler.held = None
        assert runtime.alloc(48 << 20).nbytes == 48 << 20


def test_threads_ask_hooks_each_for_itself() -> None:
    """The one in the middle of a hook does not keep another's hook from being asked."""
    inside, done = threading.Event(), threading.Event()

    class Slow:
        @hookimpl
        def cuplug_out_of_memory(self, device: int, nbytes: int, stream: int) -> bool:
            inside.set()
            assert done.wait(300)
            return False

    manager = PluginManager()
    manager.register(Slow(), "slow")
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(manager.out_of_memory(0, 1, 0)))
    thread.start()
    assert inside.wait(300)
    done.set()
    assert manager.out_of_memory(0, 2, 0) is False
    thread.join()
    assert answers == [False]


def test_a_trace_records_every_allocation(tmp_path: Path) -> None:
    from cuplug.plugins.tracing.reader import read_trace

    with Runtime(driver="sim:devices=2", trace=tmp_path / "trace") as runtime:
        buffer = runtime.alloc(1000)
        buffer.close()
        runtime.alloc(2000, stream=Stream(1, runtime=runtime))
    trace = read_trace(tmp_path / "trace")
    assert trace.complete
    assert trace.header.driver == "sim:devices=2"
    assert [entry["ordinal"] for entry in trace.header.devices] == [0, 1]
    kinds = trace.events["kind"]
    assert sorted(trace.events["requested"][kinds == 1]) == [1000, 2000]
    assert trace.devices == [0, 1]


def test_the_environment_may_ask_for_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuplug.plugins.tracing.reader import read_trace

    monkeypatch.setenv("CUPLUG_TRACE", str(tmp_path / "trace"))
    cuplug.init(driver="sim")
    cuplug.cuda.alloc(1000)
    cuplug.shutdown()
    assert len(read_trace(tmp_path / "trace").events) >= 3


# --- the end


def test_closing_gives_everything_back() -> None:
    driver = SimDriver(devices=2)
    runtime = Runtime(driver=driver)
    held = [runtime.alloc(1000), runtime.alloc(30 << 20, stream=Stream(1, runtime=runtime))]
    pinned, event = alloc_pinned(1000, runtime=runtime), Stream(runtime=runtime).record_event()
    memset(held[0], 1, runtime=runtime)
    runtime.close()
    live = driver.live
    assert (live.allocations, live.host_allocations, live.streams, live.events) == (0, 0, 0, 0)
    del held, pinned, event
    driver.close()


def test_what_outlives_the_runtime_cannot_be_used_and_may_be_dropped() -> None:
    runtime = Runtime(driver="sim")
    buffer, queue, event = runtime.alloc(1000), Stream(runtime=runtime), Event(runtime=runtime)
    event.record(queue)
    context = stream(queue)
    runtime.close()
    for use in (
        lambda: int(buffer),
        lambda: memcpy(np.zeros(1000, np.uint8), buffer, runtime=runtime),
        queue.synchronize,
        queue.query,
        event.synchronize,
        event.record,
        context.__enter__,
        lambda: runtime.alloc(100),
        lambda: Stream(runtime=runtime),
        lambda: alloc_pinned(100, runtime=runtime),
        runtime.device_count,
    ):
        with pytest.raises(CuplugError, match="shut down"):
            use()
    buffer.close()
    runtime.close()


def test_another_threads_runtime_that_was_shut_down_cannot_be_used() -> None:
    runtime = Runtime(driver="sim")
    ready, closed, errors = threading.Event(), threading.Event(), []

    def work() -> None:
        runtime.alloc(100)
        ready.set()
        closed.wait()
        try:
            runtime.alloc(100)
        except CuplugError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    runtime.close()
    closed.set()
    thread.join()
    assert "shut down" in errors[0]


def _break(runtime: Runtime) -> None:
    """Queue work that runs into an illegal address."""
    with runtime.on_device(0):
        runtime.driver.memset(0x10, 0, 1, stream=0)


# --- PITFALLS: sticky errors; free must not raise and mask the original error


@pytest.mark.parametrize("allocator", ["direct", "bump", "caching"])
def test_after_a_sticky_error_finalisers_are_silent_and_the_error_stays_the_first_one(allocator: str) -> None:
    runtime = Runtime(driver="sim", allocator=allocator)
    queue = Stream(runtime=runtime)
    held = [runtime.alloc(1000) for _ in range(4)]
    held[0].record_stream(queue)
    event = queue.record_event()
    _break(runtime)
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"), held.pop():
        queue.synchronize()
    del event, queue
    held.pop().close()
    held.clear()
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        runtime.close()
    assert not runtime.usable


def test_closing_after_a_sticky_error_does_not_hide_the_error_of_the_body() -> None:
    def run() -> None:
        with Runtime(driver="sim") as runtime:
            runtime.alloc(1000)
            _break(runtime)
            raise KeyError

    with pytest.raises(KeyError):
        run()


def test_launch_blocking_raises_an_error_where_it_was_caused() -> None:
    with Runtime(driver="sim:schedule=lazy", launch_blocking=True) as runtime:
        first, second = runtime.alloc(1000), runtime.alloc(1000)
        memset(first, 1, runtime=runtime)
        memcpy(second, first, runtime=runtime)
        assert Stream(runtime=runtime).query()
        assert runtime.driver.operations_executed == 2


def test_what_another_library_uses_until_the_end_is_not_shut_down(make_driver: Any) -> None:
    runtime = cuplug.init(driver=make_driver())
    leave_open(runtime)
    with pytest.raises(cuplug.CuplugError, match="PyTorch allocates from cuplug's runtime"):
        cuplug.shutdown()
    assert runtime.usable
    runtime.close()
    cuplug.shutdown()
