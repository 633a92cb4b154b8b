"""What the bench measures of launches does what it says. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuplug.allocators.errors import CompileError
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler
from cuplug.runtime.machine.default_runtime import init, shutdown
from cuplug.tools.benchmarks.launch_speed import contenders, first_calls


@pytest.fixture(autouse=True)
def _simulated(monkeypatch: pytest.MonkeyPatch, kernel_cache: Path) -> None:
    try:
        find_compiler()
    except CompileError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("CUPLUG_CACHE_DIR", str(kernel_cache))


@pytest.mark.needs_sim
def test_each_contender_of_launches_runs_and_each_one_left_out_has_a_reason() -> None:
    init(driver="sim")
    try:
        for found, missing in (contenders(), first_calls()):
            for repeat in found.values():
                repeat(2)
            assert any(name.startswith("cuplug") for name in found)
            assert all(missing.values())
    finally:
        shutdown()
