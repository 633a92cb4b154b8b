from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from cuplug.runtime.drivers.base import LEGACY_STREAM, Driver
from cuplug.runtime.drivers.sim import SimDriver


@dataclass
class Host:
    """Host memory for a test's copies, kept alive until the test ends."""

    driver: Driver
    _kept: list[object] = field(default_factory=list)

    def pageable(self, data: bytes) -> int:
        """The address of ordinary memory that holds ``data``."""
        buffer = ctypes.create_string_buffer(data, len(data))
        self._kept.append(buffer)
        return ctypes.addressof(buffer)

    def pinned(self, data: bytes) -> int:
        """The address of page-locked memory that holds ``data``."""
        address = self.driver.host_alloc(len(data))
        ctypes.memmove(address, data, len(data))
        return address

    def at(self, address: int, nbytes: int) -> bytes:
        """What host memory holds."""
        return ctypes.string_at(address, nbytes)

    def write(self, address: int, data: bytes, *, stream: int = LEGACY_STREAM) -> None:
        """Copy ``data`` to the device and wait."""
        self.driver.memcpy_htod(address, self.pageable(data), len(data), stream=stream)
        self.driver.stream_synchronize(stream)

    def read(self, address: int, nbytes: int, *, stream: int = LEGACY_STREAM) -> bytes:
        """What device memory holds once ``stream`` is done."""
        target = self.pageable(bytes(nbytes))
        self.driver.memcpy_dtoh(target, address, nbytes, stream=stream)
        return self.at(target, nbytes)


@pytest.fixture
def host(driver: Driver) -> Host:
    return Host(driver)


@pytest.fixture
def host_of() -> Callable[[Driver], Host]:
    return Host


@pytest.fixture
def make_sim() -> Iterator[Callable[..., SimDriver]]:
    """Makes simulators with given options, device 0 current. They are closed after the test."""
    made: list[SimDriver] = []

    def make(**options: object) -> SimDriver:
        driver = SimDriver(**options)  # type: ignore[arg-type]
        made.append(driver)
        if driver.device_count():
            driver.set_device(0)
        return driver

    yield make
    for driver in made:
        driver.close()


@pytest.fixture
def run_python() -> Callable[..., str]:
    """Runs a script in a process of its own, and gives what it prints."""

    def run(script: str, *arguments: str, **environment: str) -> str:
        import os

        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", script, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=300,
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return run


@pytest.fixture
def run_quietly() -> Callable[..., str]:
    """Runs a script in a process of its own, which must end well and print no error; gives what it prints."""

    def run(script: str, *arguments: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=300
        )
        assert finished.stderr == ""
        assert finished.returncode == 0, finished.stdout
        return finished.stdout

    return run
