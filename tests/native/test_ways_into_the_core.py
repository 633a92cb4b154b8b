"""The core as other languages reach it: its header, its functions, its handle; and replays, which never leave it."""

from __future__ import annotations

import ctypes
import os
import random
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.caching import CachingAllocator
from cuplug.allocators.errors import CuplugError
from cuplug.allocators.expandable import ExpandableAllocator
from cuplug.allocators.native import get_include, is_available, why_not
from cuplug.allocators.upstreams.null import NullUpstream
from cuplug.runtime.machine.runtime import Runtime
from cuplug.runtime.memory.native_functions import allocator_functions, allocator_handle

if not is_available():
    pytest.skip(f"the native allocators are not used: {why_not()}", allow_module_level=True)

from cuplug.allocators import _native
from cuplug.allocators.native.strategies import NativeCaching, NativeExpandable
from cuplug.allocators.native.without_device import NativeNullUpstream, calls_of


def test_the_header_is_installed_with_the_package() -> None:
    with open(os.path.join(get_include(), "cuplug_allocator.h")) as header:
        assert "cuplug_allocate(" in header.read()


def test_functions_for_c_allocate_on_the_devices_of_a_runtime() -> None:
    with Runtime(driver="sim:devices=2") as runtime:
        addresses = allocator_functions(runtime=runtime)
        malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[0])
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(addresses[1])
        allocator = runtime.allocator(1)
        address = malloc(1000, 1, None)
        (block,) = allocator.live_blocks()
        assert (block.address, block.requested) == (address, 1000)
        free(address, 1000, 1, None)
        assert allocator.live_blocks() == []
        assert malloc(1 << 60, 0, None) is None
        assert malloc(1000, 5, None) is None
    assert malloc(1000, 1, None) is None


def test_a_handle_is_that_of_the_devices_allocator() -> None:
    with Runtime(driver="sim") as runtime:
        assert allocator_handle(0, runtime=runtime) == allocator_handle(runtime=runtime) > 0
    with Runtime(driver="sim", allocator="bump") as runtime, pytest.raises(CuplugError, match="choose caching"):
        allocator_handle(runtime=runtime)


@pytest.mark.parametrize("strategy", ["caching", "expandable"])
def test_a_replay_in_the_core_does_what_one_in_python_does(strategy: str) -> None:
    python, native = {
        "caching": (CachingAllocator, NativeCaching),
        "expandable": (ExpandableAllocator, NativeExpandable),
    }[strategy]
    chance = random.Random(7)
    steps: list[int] = []
    sizes: list[int] = []
    live: list[int] = []
    for _ in range(2000):
        if not live or chance.random() < 0.55:
            sizes.append(int(2 ** (chance.random() * 25)))
            live.append(len(sizes))
            steps.append(len(sizes))
        else:
            steps.append(-live.pop(chance.randrange(len(live))))
    upstream: Any = NullUpstream()
    allocator: Any = python(upstream)
    blocks: dict[int, Any] = {}
    for step in steps:
        if step > 0:
            blocks[step] = allocator.allocate(sizes[step - 1], stream=0)
        else:
            allocator.free(blocks.pop(-step))
    replayed: Any = native(NativeNullUpstream())
    columns = [np.array(column, np.int64) for column in (steps, sizes, [0] * len(sizes))]
    assert _native.replay(replayed, *columns, True, None, None)[:4] == (0, len(steps), 0, 0)
    assert replayed.statistics() == allocator.statistics()
    assert replayed.segments() == allocator.segments()
    counts = calls_of(replayed)
    assert {name: counts[name] for name in upstream.calls} == dict(upstream.calls)
    assert (counts["fences"], counts["used_bytes"]) == (upstream.fences, upstream.used_bytes)
    with pytest.raises(ValueError, match="replay takes"):
        _native.replay(replayed, np.array([5000]), columns[1], columns[2], True, None, None)
