"""An allocation and its free at a cache hit: cuplug's allocators beside those of its peers.

Every contender is a function of a number of repetitions, with a plain ``for`` loop of its own over the sizes, in turn:
the loop costs all of them alike. As in a program that has done more before, two blocks of each size were in use at
once. A peer that is not installed, or needs a device that is not there, is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

from ... import cuda
from ...runtime.machine.default_runtime import default_runtime
from .timing import Repeat, made_by


def contenders(sizes: Sequence[int]) -> tuple[dict[str, Repeat], dict[str, str]]:
    """What there is to measure with blocks of ``sizes`` bytes: the contenders, and the reasons of those left out."""
    found: dict[str, Repeat] = {"a bare free list": _bare_list(sizes)}
    allocator = default_runtime().allocator(0)
    for block in [allocator.allocate(nbytes, stream=0) for nbytes in (*sizes, *sizes)]:
        allocator.free(block)
    found["cuplug allocate/free"] = _raw(sizes)
    found["cuplug Buffer"] = _buffer(sizes)
    peers, missing = made_by(_PEERS, sizes)
    return found | peers, missing


def _bare_list(sizes: Sequence[int]) -> Repeat:
    """What a dictionary of lists costs in Python: the floor under any allocator written in it."""
    lists: dict[int, list[object]] = {nbytes: [object()] for nbytes in sizes}

    def allocate(size: int) -> object:
        return lists[size].pop()

    def free(size: int, block: object) -> None:
        lists[size].append(block)

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            free(nbytes, allocate(nbytes))

    return repeat


def _raw(sizes: Sequence[int]) -> Repeat:
    allocator = default_runtime().allocator(0)
    allocate, free = allocator.allocate, allocator.free

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            free(allocate(nbytes, stream=0))

    return repeat


def _buffer(sizes: Sequence[int]) -> Repeat:
    alloc = cuda.alloc

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            alloc(nbytes)

    return repeat


def _torch(sizes: Sequence[int]) -> Repeat:
    import torch

    torch.cuda.init()
    allocate: Any = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free: Any = torch._C._cuda_cudaCachingAllocator_raw_delete

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            free(allocate(nbytes, 0))

    return repeat


def _torch_storage(sizes: Sequence[int]) -> Repeat:
    import torch

    torch.cuda.init()  # raises where there is no GPU, so that the contender is left out
    empty: Any = torch.empty
    device, uint8 = torch.device("cuda", 0), torch.uint8

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            empty(nbytes, device=device, dtype=uint8)

    return repeat


def _cupy(sizes: Sequence[int]) -> Repeat:
    import cupy

    malloc: Any = cupy.get_default_memory_pool().malloc

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            malloc(nbytes)

    return repeat


def _pycuda(sizes: Sequence[int]) -> Repeat:
    import pycuda.driver
    import pycuda.tools

    pycuda.driver.init()
    context = pycuda.driver.Device(0).retain_primary_context()
    context.push()
    try:
        allocate: Any = pycuda.tools.DeviceMemoryPool().allocate
        allocate(sizes[0])
    finally:
        context.pop()

    def repeat(times: int) -> None:
        context.push()
        try:
            for nbytes in islice(cycle(sizes), times):
                allocate(nbytes)
        finally:
            context.pop()

    return repeat


def _rmm(sizes: Sequence[int]) -> Repeat:
    import rmm

    pool: Any = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 28)
    buffer: Any = rmm.DeviceBuffer

    def repeat(times: int) -> None:
        for nbytes in islice(cycle(sizes), times):
            buffer(size=nbytes, mr=pool)

    return repeat


_PEERS: dict[str, Callable[[Sequence[int]], Repeat]] = {
    "PyTorch raw_alloc/raw_delete": _torch,
    "PyTorch torch.empty": _torch_storage,
    "CuPy pool.malloc": _cupy,
    "PyCUDA DeviceMemoryPool": _pycuda,
    "RMM DeviceBuffer on a pool": _rmm,
}
