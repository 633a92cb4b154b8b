"""Programs that use PyTorch's CUDA memory, each for a process of its own: ``python programs.py NAME``.

Each asserts what it shows. They know nothing of cuplug, so that PyTorch's own allocator passes them too.
"""

import gc
import os
import pickle
import sys
import tempfile

import torch

# ruff: noqa: PT017 - without pytest, in processes of their own

MIB = 1 << 20


def figures_follow_allocations_and_frees():
    before = torch.cuda.memory_allocated()
    x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 10 * MIB
    y = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 10 * MIB + 1024
    del x, y
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + 10 * MIB + 1024
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    stats = torch.cuda.memory_stats()
    assert stats["allocation.all.allocated"] >= 2
    assert stats["allocated_bytes.large_pool.peak"] >= 0
    assert stats["requested_bytes.small_pool.allocated"] >= 1000
    torch.cuda.reset_accumulated_memory_stats()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == 0
    nested = torch.cuda.memory_stats_as_nested_dict()
    assert set(nested["active_bytes"]) == {"all", "small_pool", "large_pool"}
    assert "Tot Alloc" in torch.cuda.memory_summary()
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()


def what_is_cached_can_be_emptied():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    del x
    torch.cuda.synchronize()
    held = torch.cuda.memory_reserved()
    assert held >= 64 * MIB
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= held - 64 * MIB


def contents_survive_other_allocations():
    kept = []
    for i in range(300):
        size = 1 + (i * 7919) % (3 * MIB)
        kept.append((i, torch.full((size,), i % 251, dtype=torch.uint8, device="cuda")))
        if i % 3 == 0:
            kept.pop(i % len(kept))
    for i, x in kept:
        assert bool((x == i % 251).all())


def a_request_too_large_is_an_error_after_which_the_program_goes_on():
    seen = []
    torch.cuda.init()
    torch._C._cuda_attach_out_of_memory_observer(lambda *figures: seen.append(figures))
    x = torch.ones(1000, device="cuda")
    for _ in range(2):
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError as error:
            text = str(error)
        else:
            raise AssertionError("no error")
        assert "CUDA out of memory. Tried to allocate 1048576.00 GiB. GPU 0 has a total capacity of" in text, text
        assert "is free" in text
    assert [figures[:2] for figures in seen] == [(0, 1 << 50)] * 2, seen
    assert torch.cuda.memory_stats()["num_ooms"] == 2
    assert float((x + torch.ones(1000, device="cuda")).sum()) == 2000


def a_fraction_of_the_device_limits_what_is_reserved():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(0.05)
    assert abs(torch.cuda.get_per_process_memory_fraction() - 0.05) < 0.001
    try:
        torch.empty(int(total * 0.06), dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "allowed" in str(error)
    else:
        raise AssertionError("no error")
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.empty(int(total * 0.06), dtype=torch.uint8, device="cuda")
    free, all_ = torch.cuda.mem_get_info()
    assert 0 < free <= all_
    assert isinstance(torch.cuda.list_gpu_processes(), str)


def raw_allocations_are_blocks_too():
    before = torch.cuda.memory_allocated()
    address = torch.cuda.caching_allocator_alloc(5000)
    assert torch.cuda.memory_allocated() == before + 5120
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before
    stream = torch.cuda.Stream()
    address = torch.cuda.caching_allocator_alloc(5000, stream=stream)
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == before


def a_snapshot_has_every_block_and_its_call_stack():
    torch.cuda.memory._record_memory_history(max_entries=1000)
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.empty(3 * MIB, dtype=torch.uint8, device="cuda")
    place = y.data_ptr()
    del y
    snapshot = torch.cuda.memory._snapshot()
    live = [
        block
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and block["requested_size"] == 3 * MIB
    ]
    assert [block["address"] for block in live] == [x.data_ptr()]
    names = [frame["name"] for frame in live[0]["frames"]]
    assert "a_snapshot_has_every_block_and_its_call_stack" in names, names
    assert sum(segment["total_size"] for segment in snapshot["segments"]) == torch.cuda.memory_reserved()
    actions = [(entry["action"], entry.get("addr")) for entry in snapshot["device_traces"][0]]
    assert ("alloc", place) in actions
    assert ("free_requested", place) in actions
    assert ("free_completed", place) in actions
    assert actions[-1] == ("free_completed", place)  # and not the snapshot itself
    kinds = {action for action, _ in actions}
    assert kinds & {"segment_alloc", "segment_map"}, kinds
    assert all(entry["time_us"] > 1e15 for entry in snapshot["device_traces"][0])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as file:
            assert pickle.load(file)["segments"]
    torch.cuda.memory._record_memory_history(None)
    assert torch.cuda.memory_snapshot()


def segments_that_are_given_back_know_who_asked_for_it():
    for context in ("alloc", "all"):
        torch.cuda.memory._record_memory_history(context=context)
        torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        gone = [entry for entry in entries if entry["action"] in ("segment_free", "segment_unmap")]
        assert gone
        names = {frame["name"] for entry in gone for frame in entry.get("frames", [])}
        assert ("empty_cache" in names) == (context == "all"), names
        torch.cuda.memory._record_memory_history(None)


def memory_used_on_another_stream_is_not_handed_out_before_that_is_done():
    side = torch.cuda.Stream()
    for _ in range(20):
        x = torch.ones(4 * MIB, device="cuda")
        expected = x.clone()
        torch.cuda.current_stream().synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            y = x + 0
        x.record_stream(side)
        del x
        z = torch.zeros(4 * MIB, device="cuda")
        torch.cuda.synchronize()
        assert torch.equal(y, expected)
        del z


def memory_that_another_stream_uses_without_saying_so_stays_there():
    """A mistake that PyTorch's own memory forgives: what is read may be newer, but it is memory."""
    side, another = torch.cuda.Stream(), torch.cuda.Stream()
    for _ in range(10):
        tensors = [torch.ones(8 * MIB, device="cuda") for _ in range(8)]
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            total = torch.stack(tensors).sum()
        del tensors
        with torch.cuda.stream(another):
            larger = torch.empty(70 * MIB, dtype=torch.float32, device="cuda")
        del larger
        torch.cuda.synchronize()
        del total


def training_with_cudnn_benchmark_and_side_streams():
    import torch.nn as nn

    torch.backends.cudnn.benchmark = True
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.randn(64, 3, 48, 48), torch.randint(0, 10, (64,))),
        batch_size=16,
        num_workers=2,
        pin_memory=True,
    )
    for _ in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    assert torch.isfinite(loss)


def a_graph_replays_after_other_work():
    x = torch.ones(1 << 20, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            y = (x * 2).relu() + 1
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2).relu() + 1
        z = y.sum()
    x.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == 11
    noise = [torch.full((1 << 18,), 7.0, device="cuda") for _ in range(200)]
    del noise
    torch.cuda.empty_cache()
    noise = [torch.full((1 << 18,), 9.0, device="cuda") for _ in range(200)]
    x.fill_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert float(y[12345]) == 3
    assert float(z) == 3 * (1 << 20)
    assert all(bool((one == 9.0).all()) for one in noise)
    held = torch.cuda.memory_reserved()
    del graph, y, z
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < held


def several_graphs_share_one_pool():
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(1 << 18, device="cuda")
    graphs, results = [], []
    for factor in range(1, 5):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            results.append((x * factor).cumsum(0)[-1])
        graphs.append(graph)
    for _ in range(3):
        for graph in graphs:
            graph.replay()
    torch.cuda.synchronize()
    assert [float(result) for result in results] == [factor * (1 << 18) for factor in range(1, 5)]


def frees_while_a_graph_is_captured_wait_for_its_end():
    side = torch.cuda.Stream()
    x = torch.ones(1 << 20, device="cuda")
    with torch.cuda.stream(side):
        y = x * 2
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        z = x + 1
        y.record_stream(torch.cuda.default_stream())
        w = torch.empty(1 << 20, device="cuda")
        w.record_stream(torch.cuda.Stream())
        del y, w
        z = z * 3
        gc.collect()
    graph.replay()
    torch.cuda.synchronize()
    assert float(z[0]) == 6
    a = torch.ones(1 << 20, device="cuda")
    assert float(a.sum()) == 1 << 20


def a_graphed_callable_trains():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    sample = torch.randn(32, 64, device="cuda")
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(5):
        loss = graphed(torch.randn(32, 64, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    assert torch.isfinite(loss)


def a_pool_of_ones_own_holds_what_was_allocated_in_it():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(8 * MIB, dtype=torch.uint8, device="cuda")
    y = torch.ones(8 * MIB, dtype=torch.uint8, device="cuda")
    segments = pool.snapshot()
    assert any(s["address"] <= x.data_ptr() < s["address"] + s["total_size"] for s in segments)
    assert not any(s["address"] <= y.data_ptr() < s["address"] + s["total_size"] for s in segments)
    assert pool.use_count() == 1
    place = x.data_ptr()
    del x
    torch.cuda.empty_cache()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(8 * MIB, dtype=torch.uint8, device="cuda")
    assert x.data_ptr() == place
    del x, pool
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= 20 * MIB


def a_pool_brings_functions_of_its_own():
    """Tensors of that memory and of the usual kind side by side: in kernels, on two streams, and in a graph."""
    import ctypes

    driver, given = ctypes.CDLL("libcuda.so.1"), {}

    def allocate(nbytes, _device, _stream):
        address = ctypes.c_uint64()
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(nbytes)) == 0
        given[address.value] = nbytes
        return address.value

    def free(address, _nbytes, _device, _stream):
        assert driver.cuMemFree_v2(ctypes.c_uint64(address)) == 0
        del given[address]

    def is_given(tensor):
        return any(start <= tensor.data_ptr() < start + nbytes for start, nbytes in given.items())

    functions = (
        ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(allocate),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(free),
    )
    addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in functions]
    pool = torch.cuda.MemPool(torch._C._cuda_customAllocator(*addresses))
    usual = torch.full((8 * MIB,), 1.0, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        ours = [torch.full((count,), 2.0, device="cuda") for count in (1000, 3 * MIB, 20 * MIB)]
    assert [is_given(each) for each in (*ours, usual)] == [True] * 3 + [False]
    held = sum(given.values())
    assert sum(segment["total_size"] for segment in pool.snapshot()) == held
    assert torch.cuda.memory_reserved() >= held + 4 * usual.numel()
    place = ours[2].data_ptr()
    del ours[2]
    side = torch.cuda.Stream()
    with torch.cuda.use_mem_pool(pool):
        ours.append(torch.full((20 * MIB,), 2.0, device="cuda"))
    assert (ours[2].data_ptr(), sum(given.values())) == (place, held)  # it was kept for the pool
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        both = ours[2][: usual.numel()] + usual
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [torch.stack(each.mul(3).aminmax()) for each in (*ours, usual, both)]
    usual.fill_(5)
    ours[0].fill_(7)
    torch.cuda.empty_cache()
    graph.replay()
    assert [each.tolist() for each in found] == [[value] * 2 for value in (21, 6, 6, 15, 9)]
    del graph, found, ours, both
    gc.collect()
    torch.cuda.synchronize()
    del pool
    torch.cuda.empty_cache()
    assert given == {}
    assert bool((usual == 5).all())


def a_destroyed_pool_gives_back_its_own_memory_only():
    usual = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(8)]
    del usual
    torch.cuda.synchronize()
    cached = torch.cuda.memory_reserved()
    assert cached >= 512 * MIB
    for _ in range(5):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            inside = torch.ones(30 * MIB, dtype=torch.uint8, device="cuda")
        assert torch.cuda.memory_reserved() >= cached + 30 * MIB
        del inside, pool
        assert torch.cuda.memory_reserved() == cached


def pools_over_virtual_memory_sleep_and_wake():
    """As a serving program does it: weights are kept, a cache is not; graphs replay over both afterwards."""
    from virtual_memory import SleepingPool

    weights, cache = SleepingPool(), SleepingPool()
    usual = torch.full((20 * MIB,), 3.0, device="cuda")
    with weights.use():
        layers = [torch.randn(1024, 1024, device="cuda") for _ in range(40)]
    with cache.use():
        cached = [torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")]
    x = torch.randn(64, 1024, device="cuda")

    def forward():
        y = x
        for layer in layers:
            y = torch.relu(y @ layer) / 20
        cached[0][: y.numel()].add_((y.flatten() > 0).to(torch.uint8))
        return y

    forward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = forward()
    graph.replay()
    before, addresses = y.clone(), [each.data_ptr() for each in (*layers, *cached)]
    for _ in range(3):
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        asleep_too = _tagged_memory_falls_asleep()
        weights.sleep(keep=True)
        cache.sleep(keep=False)
        torch.cuda.empty_cache()
        assert torch.cuda.mem_get_info()[0] - free >= 400 * MIB
        others = [torch.full((64 * MIB,), float(i), device="cuda") for i in range(10)]
        assert all(bool((each == i).all()) for i, each in enumerate(others))
        del others
        weights.wake()
        cache.wake()
        asleep_too()
        cached[0].zero_()
        y.zero_()
        graph.replay()
        assert bool((y == before).all())
        assert bool((usual == 3).all())
        assert [each.data_ptr() for each in (*layers, *cached)] == addresses
    made = len(weights.pages)
    assert made > 0
    layers.clear()
    cached.clear()
    del graph, y
    torch.cuda.synchronize()
    for one in (weights, cache):
        del one.pool
        torch.cuda.empty_cache()
        assert not one.pages
    assert weights.freed == made, (weights.freed, made)


def _tagged_memory_falls_asleep():
    """Where the memory is cuplug's, put some to sleep by its own means, too. What wakes it again."""
    if torch.cuda.memory.get_allocator_backend() != "cuplug":
        return lambda: None
    from cuplug import cuda
    from cuplug.allocators.errors import CuplugError

    with cuda.memory_tag("beside"):
        made = torch.full((50 * MIB,), 5.0, device="cuda")
    try:
        assert cuda.sleep("beside") >= 200 * MIB
    except CuplugError as error:
        assert "choose expandable" in str(error), error
        return lambda: None

    def wake():
        cuda.wake("beside")
        assert bool((made == 5).all())

    return wake


def a_compiled_function_runs(mode="default"):
    torch.manual_seed(0)

    def function(a, b):
        return torch.nn.functional.gelu(a @ b).sum(1) + a.square().mean()

    compiled = torch.compile(function, mode=mode)
    a, b = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    for _ in range(6):
        result = compiled(a, b).clone()
        torch.testing.assert_close(result, function(a, b), rtol=1e-3, atol=1e-3)
        a = a + 0.01


def a_compiled_function_runs_in_graphs():
    a_compiled_function_runs("reduce-overhead")


def a_compiled_model_trains_in_graphs():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 16)).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for i in range(12):
        x = torch.randn(64 if i % 4 else 32, 128, device="cuda")
        torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss))
    assert all(loss == loss for loss in losses)


def threads_allocate_and_free_at_once():
    import threading

    errors = []

    def work(seed):
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                kept = []
                for i in range(400):
                    kept.append(torch.full((1 + (seed * 7 + i * 131) % 200_000,), float(seed), device="cuda"))
                    if len(kept) > 20:
                        x = kept.pop(i % 20)
                        assert bool((x == seed).all())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def the_profiler_sees_memory():
    with torch.profiler.profile(profile_memory=True) as profile:
        x = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
        del x
    assert any(event.self_device_memory_usage for event in profile.key_averages())


def deterministic_training_prints_its_weights():
    """Sizes and batches drawn anew at each step; every batch comes over a side stream."""
    import hashlib
    import random

    import torchvision

    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    random.seed(0)
    torch.manual_seed(0)
    model = torchvision.models.resnet18().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    side, current = torch.cuda.Stream(), torch.cuda.current_stream()

    def fetch():
        count, size = random.choice([8, 16, 24, 32]), random.choice([96, 128, 160, 192])
        with torch.cuda.stream(side):
            x = torch.randn(count, 3, size, size).pin_memory().cuda(non_blocking=True)
            return (x - 0.1) / 0.9, torch.randint(0, 1000, (count,)).pin_memory().cuda(non_blocking=True)

    following = fetch()
    for _ in range(80):
        current.wait_stream(side)
        x, y = following
        x.record_stream(current)
        y.record_stream(current)
        following = fetch()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del x, y
    digest = hashlib.sha256()
    for value in model.state_dict().values():
        digest.update(value.cpu().numpy().tobytes())
    print("weights", digest.hexdigest())


def a_process_ends_with_live_tensors():
    globals()["kept"] = [torch.ones(1000, device="cuda") for _ in range(10)]
    import torch.nn as nn

    globals()["linear"] = nn.Linear(512, 512).cuda()(torch.randn(8, 512, device="cuda"))


def a_forked_child_gets_an_error():
    x = torch.ones(1000, device="cuda")
    child = os.fork()
    if child == 0:
        try:
            torch.ones(1000, device="cuda")
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 3)
        os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert float((x + 1).sum()) == 2000


def _read_shared(queue, answers):
    x = queue.get()
    answers.put(float(x.sum()))


def a_tensor_is_shared_with_another_process():
    context = torch.multiprocessing.get_context("spawn")
    # A simple queue pickles in the thread that puts: where sharing is refused, that raises here, and the child that
    # waits for the tensor ends with its parent.
    queue, answers = context.SimpleQueue(), context.Queue()
    child = context.Process(target=_read_shared, args=(queue, answers), daemon=True)
    child.start()
    x = torch.full((1000,), 3.0, device="cuda")
    queue.put(x)
    assert answers.get(timeout=60) == 3000
    child.join()


if __name__ == "__main__":
    name = sys.argv[1]
    globals()[name]()
    print("passed", name, torch.cuda.memory.get_allocator_backend(), flush=True)
