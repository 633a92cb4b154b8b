"""An allocation and its free at a cache hit: cuplug's allocators beside those of its peers.

Every contender is a function of a number of repetitions, with a plain ``for`` loop of its own: the loop costs all of
them alike. A peer that is not installed, or needs a device that is not there, is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import cuda
from ..runtime.runtime import default_runtime

__all__ = ["contenders"]

Repeat = Callable[[int], None]


def contenders(nbytes: int) -> tuple[dict[str, Repeat], dict[str, str]]:
    """What there is to measure with blocks of ``nbytes`` bytes: the contenders, and the reasons of those left out."""
    found: dict[str, Repeat] = {"a bare free list": _bare_list(nbytes)}
    missing: dict[str, str] = {}
    found["cuplug allocate/free"] = _raw(nbytes)
    found["cuplug Buffer"] = _buffer(nbytes)
    for name, make in _PEERS.items():
        try:
            found[name] = make(nbytes)
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing


def _bare_list(nbytes: int) -> Repeat:
    """What a dictionary of lists costs in Python: the floor under any allocator written in it."""
    lists: dict[int, list[object]] = {nbytes: [object()]}

    def allocate(size: int) -> object:
        return lists[size].pop()

    def free(size: int, block: object) -> None:
        lists[size].append(block)

    def repeat(times: int) -> None:
        for _ in range(times):
            free(nbytes, allocate(nbytes))

    return repeat


def _raw(nbytes: int) -> Repeat:
    allocator = default_runtime().allocator(0)
    allocate, free = allocator.allocate, allocator.free

    def repeat(times: int) -> None:
        for _ in range(times):
            free(allocate(nbytes, stream=0))

    return repeat


def _buffer(nbytes: int) -> Repeat:
    alloc = cuda.alloc

    def repeat(times: int) -> None:
        for _ in range(times):
            alloc(nbytes)

    return repeat


def _torch(nbytes: int) -> Repeat:
    import torch

    torch.cuda.init()
    allocate: Any = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free: Any = torch._C._cuda_cudaCachingAllocator_raw_delete

    def repeat(times: int) -> None:
        for _ in range(times):
            free(allocate(nbytes, 0))

    return repeat


def _torch_storage(nbytes: int) -> Repeat:
    import torch

    empty: Any = torch.empty
    device, uint8 = torch.device("cuda", 0), torch.uint8

    def repeat(times: int) -> None:
        for _ in range(times):
            empty(nbytes, device=device, dtype=uint8)

    return repeat


def _cupy(nbytes: int) -> Repeat:
    import cupy

    malloc: Any = cupy.get_default_memory_pool().malloc

    def repeat(times: int) -> None:
        for _ in range(times):
            malloc(nbytes)

    return repeat


def _pycuda(nbytes: int) -> Repeat:
    import pycuda.driver
    import pycuda.tools

    pycuda.driver.init()
    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    try:
        allocate: Any = pycuda.tools.DeviceMemoryPool().allocate
        allocate(nbytes)
    finally:
        context.pop()

    def repeat(times: int) -> None:
        context.push()
        try:
            for _ in range(times):
                allocate(nbytes)
        finally:
            context.pop()

    return repeat


def _rmm(nbytes: int) -> Repeat:
    import rmm

    pool: Any = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 28)
    buffer: Any = rmm.DeviceBuffer

    def repeat(times: int) -> None:
        for _ in range(times):
            buffer(size=nbytes, mr=pool)

    return repeat


_PEERS: dict[str, Callable[[int], Repeat]] = {
    "PyTorch raw_alloc/raw_delete": _torch,
    "PyTorch torch.empty": _torch_storage,
    "CuPy pool.malloc": _cupy,
    "PyCUDA DeviceMemoryPool": _pycuda,
    "RMM DeviceBuffer on a pool": _rmm,
}
