from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest
from cuplug.runtime.machine.device import device
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.streams.stream import Stream, current_stream, stream

pytestmark = pytest.mark.one_schedule


def _run(workers: list[Any]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("allocator", ["direct", "caching"])
def test_threads_on_their_own_devices_and_streams_do_not_disturb_each_other(make_runtime: Any, allocator: str) -> None:
    runtime: Runtime = make_runtime(devices=2, allocator=allocator)
    threshold = gc.get_threshold()

    def work(seed: int) -> None:
        random_ = random.Random(seed)
        streams = [Stream(ordinal, runtime=runtime) for ordinal in (0, 1)]
        held: list[Any] = []
        for step in range(300):
            ordinal = random_.randrange(2)
            with device(ordinal, runtime=runtime), stream(streams[ordinal]):
                buffer = runtime.alloc(random_.choice((100, 4096, 3 << 20)))
                assert (buffer.device, buffer.stream) == (ordinal, streams[ordinal].cuda_stream)
                assert current_stream(runtime=runtime) is streams[ordinal]
                held.append(buffer)
                cycle: list[Any] = [buffer]
                cycle.append(cycle)
                if step % 10 == 0:
                    buffer.record_stream(streams[ordinal].record_event() and Stream(ordinal, runtime=runtime))
            del held[: random_.randrange(3)]

    gc.set_threshold(20)
    try:
        _run([lambda seed=seed: work(seed) for seed in range(3)])
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    for ordinal in (0, 1):
        assert runtime.allocator(ordinal).statistics().all.allocated_bytes.current == 0


def test_many_threads_find_one_allocator_and_one_pool(make_runtime: Any) -> None:
    runtime: Runtime = make_runtime()
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def work() -> None:
        barrier.wait()
        found.append((runtime.allocator(0), runtime.device(0), runtime.alloc(100)))

    _run([work] * 4)
    assert len({id(allocator) for allocator, _, _ in found}) == 1
    assert len({id(state) for _, state, _ in found}) == 1
