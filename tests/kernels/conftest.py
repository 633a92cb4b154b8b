from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels import SourceModule
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler
from cuplug.runtime.machine.buffer import Buffer
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.copies import memcpy

SOURCES = Path(__file__).parent / "sources"


class Machine:
    """A runtime with one device, and how tests move arrays to and from it."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def module(self, source: str, **options: Any) -> SourceModule:
        """Compile a source, or a file of ``sources``."""
        text = (SOURCES / source).read_text() if source.endswith(".cu") else source
        return SourceModule(text, runtime=self.runtime, **options)

    def up(self, array: Any) -> Buffer:
        """The array on the device."""
        array = np.ascontiguousarray(array)
        buffer = self.runtime.alloc(array.nbytes)
        memcpy(buffer, array, runtime=self.runtime)
        return buffer

    def empty(self, shape: Any, dtype: Any) -> Buffer:
        """Room for such an array."""
        return self.runtime.alloc(np.empty(shape, dtype).nbytes)

    def zeros(self, shape: Any, dtype: Any) -> Buffer:
        """Such an array of zeros on the device."""
        return self.up(np.zeros(shape, dtype))

    def down(self, buffer: Buffer, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
        """What a buffer holds, as an array."""
        array = np.empty(shape, dtype)
        memcpy(array, buffer, runtime=self.runtime)
        return array

    def synchronize(self) -> None:
        """Wait for the device."""
        with self.runtime.on_device(0):
            self.runtime.driver.synchronize()


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, kernel_cache: Path) -> None:
    for name in ("CUPLUG_ALLOCATOR", "CUPLUG_DRIVER", "CUPLUG_TRACE", "CUPLUG_CACHE_SIZE", "CUDA_LAUNCH_BLOCKING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(kernel_cache))


@pytest.fixture
def make_machine(make_driver: Any) -> Iterator[Callable[..., Machine]]:
    """Makes machines: ``make_machine(devices=2, allocator="direct")``. Skips where kernels cannot be compiled."""
    made: list[Runtime] = []

    def make(allocator: Any = None, launch_blocking: bool | None = None, **options: object) -> Machine:
        driver = make_driver(**options)
        if driver.name == "sim":
            _need_compiler()
        made.append(Runtime(allocator=allocator, driver=driver, launch_blocking=launch_blocking))
        return Machine(made[-1])

    yield make
    for runtime in made:
        try:
            runtime.close()
        except Exception:
            if runtime.usable:
                raise


@pytest.fixture
def machine(make_machine: Callable[..., Machine]) -> Machine:
    """A machine with one device."""
    return make_machine()


@pytest.fixture
def needs_compiler() -> None:
    """For tests that compile for this machine without a driver."""
    _need_compiler()


def _need_compiler() -> None:
    try:
        find_compiler()
    except CompileError as error:
        pytest.skip(str(error))
