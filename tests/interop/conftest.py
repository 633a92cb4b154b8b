from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cuplug.runtime.machine.runtime import Runtime

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUPLUG_ALLOCATOR", "CUPLUG_DRIVER", "CUPLUG_TRACE", "CUPLUG_TRACE_STACKS", "CUPLUG_NATIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def make_simulated() -> Iterator[Callable[..., Runtime]]:
    """Makes runtimes on the simulator: ``make_simulated("caching", devices=2)``."""
    made: list[Runtime] = []

    def make(allocator: Any = "caching", devices: int = 1, memory: str = "1GiB", **settings: Any) -> Runtime:
        driver = f"sim:devices={devices},memory={memory},schedule=lazy"
        made.append(Runtime(allocator=allocator, driver=driver, **settings))
        made[-1].driver.set_device(0)
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def run_program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python code, or a file of ``programs``, in a process of its own."""

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAMS / program)] if program.endswith(".py") else ["-c", program]
        return subprocess.run(
            [sys.executable, *command, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    return run
