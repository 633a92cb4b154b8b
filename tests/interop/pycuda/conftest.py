from __future__ import annotations

from collections.abc import Iterator

import cuplug
import pytest
from cuplug.runtime.machine.runtime import Runtime


@pytest.fixture
def sim() -> Iterator[Runtime]:
    """The default runtime on a simulator that runs work as late as it may: the stand-in's modules use it."""
    cuplug.shutdown()
    runtime = cuplug.init(driver="sim:devices=2,memory=1GiB,schedule=lazy", allocator="caching")
    yield runtime
    cuplug.shutdown()
