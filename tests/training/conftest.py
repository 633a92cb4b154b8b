"""What trains: on the CPU, and on a device of the simulator, or what ``--driver`` says."""

from __future__ import annotations

from collections.abc import Iterator

import cuplug
import pytest
from cuplug.runtime.tensor.backends.cuda_place import CudaPlace


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[str]:
    """A default runtime on ``--driver`` for a module's tests: of the simulator two devices, under a random schedule."""
    selection = request.config.getoption("--driver")
    if selection == "sim":
        selection = "sim:devices=2,schedule=random,seed=7"
    cuplug.init(driver=selection)
    before = cuplug.backends.cudnn.allow_tf32
    cuplug.backends.cudnn.allow_tf32 = False  # gradients are compared more closely than TF32 is exact
    yield selection
    cuplug.backends.cudnn.allow_tf32 = before
    cuplug.shutdown()


@pytest.fixture(params=["cpu", "cuda"], scope="module")
def device(request: pytest.FixtureRequest, running: str) -> str:
    """The CPU, and a device."""
    del running
    return str(request.param)


@pytest.fixture(scope="module")
def kernels(request: pytest.FixtureRequest, running: str) -> Iterator[str]:
    """A simulated device whose tensors run generated kernels; or the device itself."""
    if running.startswith("cuda"):
        yield "cuda"
        return
    request.getfixturevalue("quick_compiler")
    runtime = cuplug.default_runtime()
    before = runtime.device(1).objects.get("tensor.place")
    runtime.device(1).objects["tensor.place"] = CudaPlace(runtime, 1)
    yield "cuda:1"
    if before is None:
        del runtime.device(1).objects["tensor.place"]
    else:
        runtime.device(1).objects["tensor.place"] = before
