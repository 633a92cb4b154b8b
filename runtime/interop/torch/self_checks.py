"""What PyTorch has to find its memory do, whoever gives it. Run in a process that has just come to it."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any, Literal

from ....allocators.errors import CuplugError

State = Literal["passed", "failed", "untested"]

_MIB = 1 << 20


def run_checks(torch: Any) -> tuple[State, str]:
    """Run every check.

    Returns:
        Whether they passed; and which failed, or what could not be tried here, and why: one line, or nothing.
    """
    if not torch.cuda.device_count():
        return "untested", "there is no CUDA device"
    left_out = can_capture()
    for name, check in _OF_MEMORY if left_out else [*_OF_MEMORY, *_OF_WORK]:
        try:
            check(torch)
        except torch.cuda.OutOfMemoryError as error:
            return "untested", f"there is no room for it on the device ({first_line(error)})"
        except Exception as error:  # whatever it is: such memory is not used
            return "failed", f"{name}: {first_line(error)}"
    return "passed", f"captured graphs and contents cannot be tested here ({left_out})" if left_out else ""


def can_capture() -> str:
    """Why work on the device cannot be captured and run here, by CUDA's runtime alone; empty if it can.

    Whatever is found wrong with graphs later is the fault of who gave the memory.
    """
    try:
        runtime = ctypes.CDLL(None)  # the functions that PyTorch calls
        stream, graph, ready = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        address, found = ctypes.c_void_p(), ctypes.create_string_buffer(4)
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("cudaMalloc", (ctypes.byref(address), ctypes.c_size_t(4))),
            ("cudaStreamCreateWithFlags", (ctypes.byref(stream), 1)),
            ("cudaStreamBeginCapture", (stream, 2)),
            ("cudaMemsetAsync", (address, 90, ctypes.c_size_t(4), stream)),
            ("cudaStreamEndCapture", (stream, ctypes.byref(graph))),
            ("cudaGraphInstantiateWithFlags", (ctypes.byref(ready), graph, ctypes.c_ulonglong(0))),
            ("cudaGraphLaunch", (ready, stream)),
            ("cudaStreamSynchronize", (stream,)),
            ("cudaMemcpy", (found, address, ctypes.c_size_t(4), 2)),
            ("cudaGraphExecDestroy", (ready,)),
            ("cudaGraphDestroy", (graph,)),
            ("cudaStreamDestroy", (stream,)),
            ("cudaFree", (address,)),
        ]
        for name, arguments in calls:
            code = getattr(runtime, name)(*arguments)
            if code:
                runtime.cudaGetLastError()
                return f"{name} answers {code}"
    except (AttributeError, OSError) as error:
        return str(error)
    return "" if found.raw == b"Z" * 4 else "a graph that was launched has done nothing"


def _check_memory(torch: Any) -> None:
    before = torch.cuda.memory_allocated()
    first = _bytes(torch, 3 * _MIB)
    _same("bytes allocated", torch.cuda.memory_allocated() - before, 3 * _MIB)
    place = first.data_ptr()
    del first
    again = _bytes(torch, 3 * _MIB)
    _same("where freed memory is used again", again.data_ptr(), place)
    sizes = [1, 512, 1000, 100_000, _MIB, 5 * _MIB]
    blocks = [_bytes(torch, size) for size in sizes]
    ends = sorted((block.data_ptr(), block.data_ptr() + size) for block, size in zip(blocks, sizes, strict=True))
    _same("blocks that overlap", sum(end > start for (_, end), (start, _) in pairwise(ends)), 0)
    del again, blocks
    _same("bytes allocated once all is freed", torch.cuda.memory_allocated(), before)


def _check_streams(torch: Any) -> None:
    before = torch.cuda.memory_allocated()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        theirs = _bytes(torch, 2 * _MIB)
    used = _bytes(torch, 2 * _MIB)
    used.record_stream(side)
    places = {segment["stream"] for segment in torch.cuda.memory_snapshot()}
    _same("a stream of its own in the snapshot", side.cuda_stream in places, True)
    del theirs, used
    torch.cuda.synchronize()
    _same("bytes allocated once streams are done", torch.cuda.memory_allocated(), before)


def _check_statistics(torch: Any) -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    block = _bytes(torch, 1000)
    found = torch.cuda.memory_stats()
    _same("allocated_bytes.all.current", found["allocated_bytes.all.current"], before + 1024)
    _same("allocated_bytes.all.peak", found["allocated_bytes.all.peak"], before + 1024)
    segments = torch.cuda.memory_snapshot()
    _same("bytes reserved", sum(segment["total_size"] for segment in segments), found["reserved_bytes.all.current"])
    held = [segment for segment in segments if 0 <= block.data_ptr() - segment["address"] < segment["total_size"]]
    _same("segments that hold a block", len(held), 1)


def _check_shortage(torch: Any) -> None:
    before = torch.cuda.memory_stats()["num_ooms"]
    try:
        _bytes(torch, 1 << 50)
    except torch.cuda.OutOfMemoryError:
        pass
    else:
        raise CuplugError("a request of 1 PiB was granted")
    _same("num_ooms", torch.cuda.memory_stats()["num_ooms"] - before, 1)
    _bytes(torch, _MIB)


def _check_pool(torch: Any) -> None:
    outside = _bytes(torch, 2 * _MIB)
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = _bytes(torch, 2 * _MIB)
    own = torch.cuda.memory_snapshot(pool.id)
    for name, block, expected in (("inside", inside, 1), ("outside", outside, 0)):
        held = sum(0 <= block.data_ptr() - segment["address"] < segment["total_size"] for segment in own)
        _same(f"segments of a pool with the block {name}", held, expected)
    del inside
    before = torch.cuda.memory_reserved()
    del pool
    after = torch.cuda.memory_reserved()
    _same("that a pool which has gone gave its memory back", before - after >= 2 * _MIB, True)


def _check_contents(torch: Any) -> None:
    numbers = torch.arange(1 << 18, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        doubled = numbers * 2
    numbers.record_stream(side)
    del numbers
    filled = torch.full((1 << 18,), 7, device="cuda")
    torch.cuda.synchronize()
    _same("a sum", int(doubled.sum()), (1 << 18) * ((1 << 18) - 1))
    _same("another sum", int(filled.sum()), 7 << 18)


def _check_graph(torch: Any) -> None:
    given = torch.ones(1 << 16, device="cuda")
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        graph.capture_begin()
        result = given * 3 + 1
        graph.capture_end()
    noise = [torch.full((1 << 16,), 9.0, device="cuda") for _ in range(8)]
    given.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    _same("what a captured graph has computed", float(result[12345]), 16.0)
    _same("what stands elsewhere", all(bool((one == 9.0).all()) for one in noise), True)


_OF_MEMORY = [
    ("allocation and free", _check_memory),
    ("streams", _check_streams),
    ("statistics", _check_statistics),
    ("a request too large", _check_shortage),
    ("a private pool", _check_pool),
]
_OF_WORK = [("contents", _check_contents), ("a captured graph", _check_graph)]


def _bytes(torch: Any, nbytes: int) -> Any:
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise CuplugError(f"{what}: {found}, and not {expected}")


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
