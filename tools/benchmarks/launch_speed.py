"""Launching a kernel of two arguments, and the first call of a new one: cuplug beside its peers.

Every contender queues the same kernel, which writes one number, and waits for the device once in each round. What
differs is how a program says it. A peer that is not installed, or has no device, is left out, with the reason.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ... import cuda
from ...runtime.kernels import SourceModule
from ...runtime.kernels.compile.gpu_compiler import compile_for_gpu
from ...runtime.machine.default_runtime import default_runtime
from .timing import Repeat, made_by

SOURCE = 'extern "C" __global__ void store(float *out, float value) { out[threadIdx.x] = value; }'
_THREADS = 32


def contenders() -> tuple[dict[str, Repeat], dict[str, str]]:
    """Ways to launch: the contenders, and the reasons of those left out."""
    found = {"cuplug prepared": _prepared(), "cuplug plain": _plain()}
    missing: dict[str, str] = {}
    for name, make in _PEERS.items():
        try:
            found[name] = make()
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
    return found, missing


def first_calls() -> tuple[dict[str, Repeat], dict[str, str]]:
    """A small kernel that was never seen before: compiled, loaded, launched and waited for; and compiling alone."""
    peers, missing = made_by({"NVRTC alone": _nvrtc, "CuPy RawKernel": _cupy_first})
    return {"cuplug first call": _first_call, **peers}, missing


# --- cuplug


def _prepared() -> Repeat:
    function = SourceModule(SOURCE).get_function("store")
    launch, out = function.prepare(1, _THREADS), cuda.alloc(4 * _THREADS)

    def repeat(times: int) -> None:
        for _ in range(times):
            launch(out, 1.0)
        cuda.synchronize()

    return repeat


def _plain() -> Repeat:
    function, out = SourceModule(SOURCE).get_function("store"), cuda.alloc(4 * _THREADS)

    def repeat(times: int) -> None:
        for _ in range(times):
            function(out, 1.0, grid=1, block=_THREADS)
        cuda.synchronize()

    return repeat


# --- peers


@contextmanager
def _pycuda_kernel() -> Iterator[tuple[Any, Any, Any]]:
    """The same kernel for PyCUDA, memory for it and the context, which is current inside."""
    import pycuda.driver

    pycuda.driver.init()
    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    try:
        properties = default_runtime().properties(0)
        cubin = compile_for_gpu(SOURCE, arch=f"sm_{properties.major}{properties.minor}").payload
        module = pycuda.driver.module_from_buffer(cubin)
        function = module.get_function("store")
        function.module = module  # it must live as long
        yield function, pycuda.driver.mem_alloc(4 * _THREADS), context
    finally:
        context.pop()


def _in_context(context: Any, run: Repeat) -> Repeat:
    def repeat(times: int) -> None:
        context.push()
        try:
            run(times)
            context.synchronize()
        finally:
            context.pop()

    return repeat


def _pycuda_prepared() -> Repeat:
    with _pycuda_kernel() as (function, out, context):
        function.prepare("Pf")
    launch, grid, block = function.prepared_async_call, (1, 1), (_THREADS, 1, 1)

    def run(times: int) -> None:
        for _ in range(times):
            launch(grid, block, None, out, 1.0)

    return _in_context(context, run)


def _pycuda_plain() -> Repeat:
    with _pycuda_kernel() as (function, out, context):
        value = np.float32(1)
    block = (_THREADS, 1, 1)

    def run(times: int) -> None:
        for _ in range(times):
            function(out, value, grid=(1, 1), block=block)

    return _in_context(context, run)


def _cupy() -> Repeat:
    import cupy

    kernel, out, value = cupy.RawKernel(SOURCE, "store"), cupy.zeros(_THREADS, np.float32), np.float32(1)
    grid, block = (1,), (_THREADS,)
    kernel(grid, block, (out, value))

    def repeat(times: int) -> None:
        for _ in range(times):
            kernel(grid, block, (out, value))
        cupy.cuda.get_current_stream().synchronize()

    return repeat


def _numba() -> Repeat:
    import warnings

    from numba import cuda as numba_cuda

    @numba_cuda.jit("void(float32[:], float32)")  # type: ignore[untyped-decorator, unused-ignore]
    def store(out: Any, value: Any) -> None:
        out[numba_cuda.threadIdx.x] = value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of one block being few
        launch, out = store[1, _THREADS], numba_cuda.device_array(_THREADS, np.float32)
        launch(out, 1.0)

    def repeat(times: int) -> None:
        for _ in range(times):
            launch(out, 1.0)
        numba_cuda.synchronize()

    return repeat


_PEERS: dict[str, Callable[[], Repeat]] = {
    "PyCUDA prepared_async_call": _pycuda_prepared,
    "PyCUDA plain call": _pycuda_plain,
    "CuPy RawKernel": _cupy,
    "Numba dispatcher": _numba,
}


# --- first calls


_numbers = itertools.count(int.from_bytes(os.urandom(4), "little") << 20)


def _new_source() -> str:
    """The kernel with another number in it, which no cache has seen."""
    return SOURCE.replace("value;", f"value + {next(_numbers)}ull;")


def _first_call(times: int) -> None:
    before = os.environ.get("CUPLUG_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="cuplug-bench-") as directory:
        os.environ["CUPLUG_CACHE_DIR"] = directory
        try:
            for _ in range(times):
                out = cuda.alloc(4 * _THREADS)
                SourceModule(_new_source()).get_function("store")(out, 1.0, grid=1, block=_THREADS)
                cuda.synchronize()
        finally:
            if before is None:
                del os.environ["CUPLUG_CACHE_DIR"]
            else:
                os.environ["CUPLUG_CACHE_DIR"] = before


def _nvrtc() -> Repeat:
    """NVRTC with nothing around it: the program made, compiled for the device and its cubin fetched."""
    from cuda.bindings import nvrtc

    properties = default_runtime().properties(0)
    options = [f"--gpu-architecture=sm_{properties.major}{properties.minor}".encode()]

    def repeat(times: int) -> None:
        for _ in range(times):
            _, program = nvrtc.nvrtcCreateProgram(_new_source().encode(), b"kernel.cu", 0, [], [])
            (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            if code:
                raise RuntimeError(f"NVRTC: {code!r}")
            _, size = nvrtc.nvrtcGetCUBINSize(program)
            nvrtc.nvrtcGetCUBIN(program, bytearray(size))
            nvrtc.nvrtcDestroyProgram(program)

    repeat(1)
    return repeat


def _cupy_first() -> Repeat:
    """CuPy with its cache on disk; each source is new to it."""
    import cupy

    value = np.float32(1)

    def repeat(times: int) -> None:
        for _ in range(times):
            out = cupy.empty(_THREADS, np.float32)
            cupy.RawKernel(_new_source(), "store")((1,), (_THREADS,), (out, value))
            cupy.cuda.get_current_stream().synchronize()

    repeat(1)
    return repeat
