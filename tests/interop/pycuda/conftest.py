from __future__ import annotations

from collections.abc import Iterator

import cuplug
import pytest
from cuplug.runtime.interop.pycuda.stand_in.device_contexts import Device
from cuplug.runtime.machine.runtime import Runtime


@pytest.fixture
def sim() -> Iterator[Runtime]:
    """The default runtime on a simulator that runs work as late as it may: the stand-in's modules use it."""
    cuplug.shutdown()
    runtime = cuplug.init(driver="sim:devices=2,memory=1GiB,schedule=lazy", allocator="caching")
    context = Device(0).make_context()
    yield runtime
    while context.get_current() is not None:
        context.pop()
    cuplug.shutdown()
