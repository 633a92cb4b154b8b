"""Tensors on the CPU and on a device: the simulator's, or what ``--driver`` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cuplug
import pytest


@pytest.fixture(autouse=True)
def _as_at_the_start() -> Iterator[None]:
    yield
    cuplug.set_printoptions(profile="default")
    cuplug.set_default_dtype(cuplug.float32)


@pytest.fixture(autouse=True, scope="module")
def _leaves_no_runtime() -> Iterator[None]:
    """A default runtime that a module leaves behind would be in the way of those that the same process runs next."""
    yield
    assert not cuplug.cuda.is_initialized()


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[str]:
    """A default runtime on ``--driver`` for a module's tests: of the simulator under a random schedule."""
    selection = request.config.getoption("--driver")
    if selection == "sim":
        selection = "sim:devices=2,schedule=random,seed=11"
    cuplug.init(driver=selection)
    yield selection
    cuplug.shutdown()


@pytest.fixture(params=["cpu", "cuda"], scope="module")
def device(request: pytest.FixtureRequest, running: str) -> str:
    """The CPU, and a device."""
    del running
    return str(request.param)


@pytest.fixture
def torch(make_driver: Any) -> Iterator[Any]:
    """The package under the name that programs know, on one device, under each schedule."""
    cuplug.init(driver=make_driver())
    yield cuplug
    cuplug.shutdown()


@pytest.fixture
def torch3(make_driver: Any) -> Iterator[Any]:
    """As ``torch``, on three devices."""
    cuplug.init(driver=make_driver(devices=3))
    yield cuplug
    cuplug.shutdown()
