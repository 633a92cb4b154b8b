from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cuplug
import pytest
from cuplug.runtime.machine.runtime import Runtime


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUPLUG_ALLOCATOR", "CUPLUG_DRIVER", "CUPLUG_TRACE", "CUPLUG_TRACE_STACKS", "CUDA_LAUNCH_BLOCKING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_runtime(make_driver: Any) -> Iterator[Callable[..., Runtime]]:
    """Makes runtimes under each schedule: ``make_runtime(devices=2, allocator="direct")``."""
    made: list[Runtime] = []

    def make(allocator: Any = None, devices: int = 1, **options: object) -> Runtime:
        made.append(Runtime(allocator=allocator, driver=make_driver(devices=devices, **options)))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(make_runtime: Any) -> Runtime:
    """A runtime with one device, under each schedule."""
    made: Runtime = make_runtime()
    return made


@pytest.fixture
def cuda(make_driver: Any) -> Iterator[Any]:
    """``cuplug.cuda`` over two devices, under each schedule."""
    cuplug.init(driver=make_driver(devices=2))
    yield cuplug.cuda
    cuplug.shutdown()
