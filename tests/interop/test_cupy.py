"""CuPy's own memory classes over the core's C functions, without a GPU: CuPy's current stream is a stand-in."""

from __future__ import annotations

import ctypes
import gc

import pytest
from cuplug import CuplugError
from cuplug.allocators.native import is_available

pytestmark = [
    pytest.mark.needs_cupy,
    pytest.mark.skipif(not is_available(), reason="needs the native allocators"),
]

SIGNATURE = b"intptr_t (void)"
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class CurrentStream:
    """In the place of CuPy's function, which asks CUDA for the current device."""

    def __init__(self):
        self.handle = 0
        self._function = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(lambda: self.handle)
        self.capsule = new_capsule(ctypes.cast(self._function, ctypes.c_void_p), SIGNATURE, None)


@pytest.fixture
def current(monkeypatch):
    from cuplug.interop import cupy as under_cupy

    stream = CurrentStream()
    monkeypatch.setattr(under_cupy, "_current_stream", lambda: (stream.capsule, SIGNATURE.decode()))
    return stream


@pytest.fixture
def runtime(make_simulated):
    return make_simulated()


@pytest.fixture
def memory(runtime, current):
    """Makes memory as ``CFunctionAllocator.malloc`` does, which asks CUDA for the current device."""
    from cuplug.allocators import _native
    from cuplug.interop import cupy as under_cupy
    from cupy.cuda.memory import CFunctionAllocator, CFunctionAllocatorMemory

    assert type(under_cupy.allocator(runtime=runtime)) is CFunctionAllocator
    key = runtime.current.key
    malloc, free = _native.cupy_functions(current.capsule, SIGNATURE.decode(), lambda: key(2))
    return lambda nbytes, device=0: CFunctionAllocatorMemory(nbytes, 0, malloc, free, device)


def blocks(runtime):
    return runtime.allocator(0).live_blocks()


def test_cupy_takes_memory_from_the_core_and_gives_it_back(runtime, memory):
    made = memory(5000)
    assert [block.address for block in blocks(runtime)] == [made.ptr]
    del made
    assert not blocks(runtime)


def test_lack_of_memory_is_raised_through_cupy(runtime, memory):
    from cuplug import OutOfMemoryError

    with pytest.raises(OutOfMemoryError, match="Tried to allocate"):
        memory(1 << 40)
    assert not blocks(runtime)


def test_an_error_of_cupys_own_stream_is_raised(runtime, memory, monkeypatch):
    from cuplug.allocators import _native
    from cupy_backends.cuda.stream import __pyx_capi__

    malloc, free = _native.cupy_functions(__pyx_capi__["get_current_stream_ptr"], SIGNATURE.decode(), lambda: 2)
    from cupy.cuda import is_available as has_gpu
    from cupy.cuda.memory import CFunctionAllocatorMemory

    if has_gpu():
        pytest.skip("CuPy finds a GPU here, and so knows its current stream")
    with pytest.raises(Exception, match="cudaError"):
        CFunctionAllocatorMemory(100, 0, malloc, free, 0)


def test_after_the_end_of_the_runtime_cupy_is_told_so_and_its_frees_do_nothing(runtime, memory):
    made = memory(100)
    runtime.close()
    with pytest.raises(CuplugError, match="runtime was shut down"):
        memory(100)
    del made
    gc.collect()


def test_memory_of_a_device_that_is_not_there_is_refused(memory):
    with pytest.raises(CuplugError, match="does not know device 7"):
        memory(100, 7)


def test_a_trace_tells_cupys_allocations_with_the_programs_call_stacks(make_simulated, current, monkeypatch, tmp_path):
    from cuplug.allocators import _native
    from cuplug.interop import cupy as under_cupy
    from cuplug.plugins.tracing.reader import read_trace
    from cupy.cuda.memory import CFunctionAllocatorMemory

    monkeypatch.setenv("CUPLUG_TRACE_STACKS", "python")
    runtime = make_simulated(trace=tmp_path / "t.cuplug")
    under_cupy.allocator(runtime=runtime)
    malloc, free = _native.cupy_functions(current.capsule, SIGNATURE.decode(), lambda: 2)
    made = CFunctionAllocatorMemory(100, 0, malloc, free, 0)
    own = runtime.alloc(200)
    del made, own
    runtime.close()
    trace = read_trace(tmp_path / "t.cuplug")
    asked = {int(event["requested"]): event["context"] for event in trace.events if event["kind"] == 1}
    assert trace.library(asked[100]) == "cupy"
    assert trace.library(asked[200]) == "cuplug"
    assert trace.stack(asked[100])[0].filename == __file__
    assert trace.stack(asked[200])[0].filename == __file__
