"""Programs that ask PyTorch for CUDA memory and touch none of it. Each gives an outcome that does not depend on whose
memory it is, but for the differences that the guide names."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings
from typing import Any

import torch

MIB = 1 << 20


def figures_follow_allocations() -> Any:
    a, b = _bytes(5 * MIB), _bytes(1000)
    found = [torch.cuda.memory_allocated(), torch.cuda.memory_stats()["active.all.current"]]
    del a, b
    stats = torch.cuda.memory_stats()
    return [
        *found,
        torch.cuda.memory_allocated(),
        torch.cuda.max_memory_allocated(),
        stats["num_ooms"],
        len(stats) > 90,
    ]


def checkpoints_of_a_pool() -> Any:
    of, pool = torch._C, torch.cuda.graph_pool_handle()

    def in_pool(nbytes: int) -> Any:
        of._cuda_beginAllocateCurrentThreadToPool(0, pool)
        made = _bytes(nbytes)
        of._cuda_endAllocateToPool(0, pool)
        return made

    a, b, small = in_pool(3 * MIB), in_pool(MIB), in_pool(700)
    state, place = of._cuda_getCheckpointState(0, pool), b.data_ptr()
    del b
    c, d = in_pool(2 * MIB), in_pool(512)
    of._cuda_setCheckpointPoolState(0, state, [one.untyped_storage()._cdata for one in (c, d)], [])
    live = of._cuda_checkPoolLiveAllocations(0, pool, {a.data_ptr(), place, small.data_ptr()})
    other = in_pool(MIB)
    return [live, other.data_ptr() not in (place, a.data_ptr())]


def a_destroyed_pool_gives_back_its_own() -> Any:
    kept = [_bytes(64 * MIB) for _ in range(8)]
    del kept
    before, frees = torch.cuda.memory_reserved(), torch.cuda.memory_stats()["num_device_free"]
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = _bytes(2 * MIB)
    del inside
    with_pool = torch.cuda.memory_reserved()
    del pool
    after = torch.cuda.memory_reserved()
    return [with_pool > before, after == before, torch.cuda.memory_stats()["num_device_free"] - frees]


def a_tensor_outlives_its_pool() -> Any:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept, gone = _bytes(2 * MIB), _bytes(30 * MIB)
    del gone, pool
    found = [torch.cuda.memory_allocated()]
    del kept
    torch.cuda.empty_cache()
    return [*found, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()]


def pools_within_pools() -> Any:
    outer, inner = torch.cuda.MemPool(), torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(outer), torch.cuda.use_mem_pool(inner):
        inside = _bytes(4 * MIB)
    return [_holds(outer.snapshot(), inside), _holds(inner.snapshot(), inside)]


def a_pool_brings_an_allocator() -> Any:
    library = os.path.join(os.environ["CUPLUG_FAKE_CUDA"], "given.so")
    counts = ctypes.CDLL(library)

    def count() -> list[int]:
        return [ctypes.c_long.in_dll(counts, name).value for name in ("allocated", "freed")]

    given = torch.cuda.memory.CUDAPluggableAllocator(library, "given_malloc", "given_free")
    outside = _bytes(3 * MIB)
    reserved = torch.cuda.memory_reserved()
    pool = torch.cuda.MemPool(given.allocator())
    with torch.cuda.use_mem_pool(pool):
        large, small = _bytes(30 * MIB), _bytes(1000)
    theirs = [0x500000000000 <= one.data_ptr() < 0x500100000000 for one in (large, small, outside)]
    found: list[Any] = [theirs, count(), torch.cuda.memory_reserved() - reserved, torch.cuda.memory_allocated()]
    found.append([_holds(pool.snapshot(), one) for one in (large, small, outside)])
    found.append(sum(_holds(torch.cuda.memory_snapshot(), one) for one in (large, small, outside)))
    place = large.data_ptr()
    del large
    with torch.cuda.use_mem_pool(pool):
        large = _bytes(30 * MIB)
    found.append([large.data_ptr() == place, count(), torch.cuda.memory_allocated()])
    side = torch.cuda.Stream()
    large.record_stream(side)
    torch.cuda.empty_cache()
    del large, small
    torch.cuda.empty_cache()
    found.append([count(), torch.cuda.memory_allocated()])
    del pool
    found.append([count(), torch.cuda.memory_reserved() - reserved])
    return found


def a_pool_that_is_all_there_was_leaves_what_it_counted() -> Any:
    library = os.path.join(os.environ["CUPLUG_FAKE_CUDA"], "given.so")
    given = torch.cuda.memory.CUDAPluggableAllocator(library, "given_malloc", "given_free")
    pool = torch.cuda.MemPool(given.allocator())
    with torch.cuda.use_mem_pool(pool):
        small = _bytes(1000)
    del small, pool
    torch.cuda.empty_cache()
    counted = torch.cuda.memory_stats()
    return [counted[f"{name}.all.{what}"] for name in ("allocation", "segment") for what in ("allocated", "freed")]


def a_pool_whose_segments_are_not_split() -> Any:
    library = os.path.join(os.environ["CUPLUG_FAKE_CUDA"], "given.so")
    given = torch.cuda.memory.CUDAPluggableAllocator(library, "given_malloc", "given_free")
    try:
        pool = torch.cuda.MemPool(given.allocator(), no_split=True)
    except TypeError:
        return "not in this version"
    found = []
    with torch.cuda.use_mem_pool(pool):
        for nbytes in (1000, 2000, MIB, 3 * MIB, 5 * MIB, 30 * MIB, 31 * MIB):
            kept = [_bytes(nbytes), _bytes(nbytes)]
            apart = len({each["address"] for each in pool.snapshot() for one in kept if _holds([each], one)})
            found.append([apart, torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])
            del kept
    return found


def requests_too_large() -> Any:
    seen: list[Any] = []
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, total, _free: seen.append((asked, total)))
    found: list[Any] = []
    for _ in range(2):
        try:
            _bytes(200 << 30)
        except torch.cuda.OutOfMemoryError as error:
            found.append(str(error).partition(" of which")[0])
    return [found, seen, torch.cuda.memory_stats()["num_ooms"], torch.cuda.memory_allocated()]


def a_fraction_of_the_device() -> Any:
    torch.cuda.set_per_process_memory_fraction(0.5)
    found = [torch.cuda.get_per_process_memory_fraction()]
    for fraction in (0.5, 1.0):
        torch.cuda.set_per_process_memory_fraction(fraction)
        try:
            found.append(_bytes(50 << 30).numel())
        except torch.cuda.OutOfMemoryError as error:
            found.append("40.00 GiB allowed" in str(error))
        torch.cuda.empty_cache()
    return found


def what_cannot_be_changed_later() -> Any:
    library = os.path.join(os.environ["CUPLUG_FAKE_CUDA"], "given.so")
    given = torch.cuda.memory.CUDAPluggableAllocator(library, "given_malloc", "given_free")
    _bytes(512)
    return _error(lambda: torch.cuda.memory.change_current_allocator(given))


def memory_without_the_cache() -> Any:
    torch.cuda.init()
    torch.cuda.memory.caching_allocator_enable(False)
    address = torch.cuda.caching_allocator_alloc(4096)
    torch.cuda.memory.caching_allocator_enable(True)
    return _error(lambda: torch.cuda.caching_allocator_delete(address)).partition(":")[0]


def sharing_with_another_process() -> Any:
    handle = _bytes(4 * MIB).untyped_storage()._share_cuda_()
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    return [len(handle[1]) >= 64, handle[2], handle[3]]


def histories_and_snapshots() -> Any:
    torch.cuda.memory._record_memory_history()
    x = _bytes(3 * MIB)
    del x
    kept = _bytes(5 * MIB)
    snapshot = torch.cuda.memory._snapshot()
    actions = [entry["action"] for entry in snapshot["device_traces"][0] if not entry["action"].startswith("segment")]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] != "inactive"]
    frames = [[frame["name"] for frame in block["frames"]].count("histories_and_snapshots") for block in blocks]
    return [actions, frames, [block["requested_size"] for block in blocks], kept.numel()]


def metadata_of_threads() -> Any:
    memory = torch.cuda.memory
    if not hasattr(memory, "_set_memory_metadata"):
        return "not in this version"
    memory._record_memory_history(context=None)
    supported = getattr(memory, "_memory_metadata_supported", lambda: None)()
    memory._set_memory_metadata("main")
    _bytes(512)
    seen = []
    thread = threading.Thread(target=lambda: seen.append((_bytes(3 * MIB).numel(), memory._get_memory_metadata())))
    thread.start()
    thread.join()
    kept = _bytes(5 * MIB)
    told: list[str] = []
    if hasattr(memory, "_annotate_tensor"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            memory._annotate_tensor(kept, "note")
        told = [str(one.message) for one in caught]
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    of_size = [(entry["size"], entry.get("user_metadata")) for entry in entries if entry["action"] == "alloc"]
    annotated = [(entry["size"], entry["user_metadata"]) for entry in entries if entry["action"] == "annotate"]
    return [supported, seen, told, of_size, annotated]


def streams_and_frees_in_threads() -> Any:
    def work(seed: int) -> None:
        stream, kept = torch.cuda.Stream(), []
        with torch.cuda.stream(stream):
            for step in range(200):
                kept.append(_bytes(1 + (seed * 7919 + step * 131) % (3 * MIB)))
                kept[-1].record_stream(torch.cuda.default_stream())
                if len(kept) > 10:
                    kept.pop(step % 10)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return [torch.cuda.memory_allocated(), torch.cuda.memory_stats()["allocation.all.allocated"]]


def the_self_test() -> Any:
    from cuplug.runtime.interop.torch.self_checks import run_checks

    state, text = run_checks(torch)
    return [state, text.startswith("captured graphs and contents cannot be tested here")]


def expandable_says_what_it_is() -> Any:
    before = torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"]
    kept = _bytes(MIB)
    snapshot = torch.cuda.memory._snapshot()
    paged = all(segment["is_expandable"] for segment in snapshot["segments"])
    return [before, snapshot["allocator_settings"]["expandable_segments"], paged, kept.numel()]


def a_setting_makes_plain_segments() -> Any:
    torch.cuda.init()
    kept, found = [], []
    for setting in ("True", "False", "False", "True"):
        warnings.simplefilter("ignore", FutureWarning)
        torch.cuda.memory._set_allocator_settings(f"expandable_segments:{setting}")
        kept.append(_bytes((30 + len(kept)) * MIB))
        segments = torch.cuda.memory_snapshot()
        found.append([each["is_expandable"] for each in segments if _holds([each], kept[-1])] == [True])
    found.append(torch.cuda.memory._snapshot()["allocator_settings"]["expandable_segments"])
    allocated = torch.cuda.memory_allocated()
    del kept
    torch.cuda.empty_cache()
    return [*found, allocated - torch.cuda.memory_allocated() < 126 * MIB]


def _bytes(nbytes: int) -> torch.Tensor:
    return torch.empty(nbytes, dtype=torch.uint8, device="cuda")


def _holds(segments: list[dict[str, Any]], tensor: torch.Tensor) -> bool:
    return any(0 <= tensor.data_ptr() - each["address"] < each["total_size"] for each in segments)


def _error(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__} {error}".splitlines()[0]
    return "no error"
