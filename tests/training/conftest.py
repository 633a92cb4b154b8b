"""What trains: on the CPU, and on a device of the simulator, or what ``--driver`` says."""

from __future__ import annotations

from collections.abc import Iterator

import cuplug
import pytest


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[str]:
    """A default runtime on ``--driver`` for a module's tests: of the simulator two devices, under a random schedule."""
    selection = request.config.getoption("--driver")
    if selection == "sim":
        selection = "sim:devices=2,schedule=random,seed=7"
    cuplug.init(driver=selection)
    yield selection
    cuplug.shutdown()


@pytest.fixture(params=["cpu", "cuda"], scope="module")
def device(request: pytest.FixtureRequest, running: str) -> str:
    """The CPU, and a device."""
    del running
    return str(request.param)
