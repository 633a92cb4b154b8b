"""The C functions that CuPy allocates by, called as CuPy calls them; CuPy itself is not needed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from cuplug.allocators.native import is_available
from cuplug.runtime.drivers.base import PER_THREAD_STREAM

SIGNATURE = b"intptr_t (void)"
LEGACY = 1  # the stream's name in CUDA: cudaStreamLegacy
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


@pytest.mark.skipif(not is_available(), reason="needs the native allocators")
def test_memory_is_for_cupys_current_stream(make_simulated: Callable[..., Any]) -> None:
    from cuplug.allocators import _native

    runtime = make_simulated()
    other = runtime.driver.stream_create(non_blocking=True)
    own = runtime.current.key(PER_THREAD_STREAM)
    current = [0]
    tell = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: current[0])
    capsule = new_capsule(ctypes.cast(tell, ctypes.c_void_p), SIGNATURE, None)
    _native.cupy_publish(0, runtime.allocator(0))
    addresses = _native.cupy_functions(capsule, SIGNATURE.decode(), lambda: own)
    malloc = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(addresses[0])
    free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(addresses[1])
    for current[0], stream in ((0, 0), (LEGACY, 0), (other, other), (PER_THREAD_STREAM, own)):
        address = malloc(None, 100, 0)
        assert [(block.address, block.stream) for block in runtime.allocator(0).live_blocks()] == [(address, stream)]
        free(None, address, 0)
    assert not runtime.allocator(0).live_blocks()
    _native.cupy_publish(0, None)
