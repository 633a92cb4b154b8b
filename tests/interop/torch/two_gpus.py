"""Programs for two GPUs, started with PyTorch's launcher: ``torchrun --nproc-per-node 2 two_gpus.py NAME``.

Each rank prints the digest of the weights it ends with. They know nothing of cuplug, so that PyTorch's own allocator
passes them too.
"""

import hashlib
import os
import random
import sys

import torch
import torch.distributed as dist


def _model(width=512):
    torch.manual_seed(0)
    layers = []
    for _ in range(6):
        layers += [torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)]
    return torch.nn.Sequential(*layers).cuda()


def _train(model, width=512, steps=30):
    """Batches of sizes drawn anew at each step, other ones on each rank; every batch comes over a side stream."""
    rank = dist.get_rank()
    random.seed(rank)
    generator = torch.Generator(device="cuda").manual_seed(rank)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    side, current = torch.cuda.Stream(), torch.cuda.current_stream()
    for _ in range(steps):
        count = random.choice([32, 100, 333, 1000, 2048])
        with torch.cuda.stream(side):
            x = torch.randn(count, width, device="cuda", generator=generator)
        current.wait_stream(side)
        x.record_stream(current)
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _digest(values):
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def replicas_train_alike():
    model = torch.nn.parallel.DistributedDataParallel(_model(), device_ids=[torch.cuda.current_device()])
    _train(model)
    return _digest(model.state_dict().values())


def shards_train():
    from torch.distributed.fsdp import fully_shard

    model = _model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    _train(model)
    return _digest(value.full_tensor() for value in model.state_dict().values())


def flat_shards_train():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    model = FullyShardedDataParallel(_model(), auto_wrap_policy=size_based_auto_wrap_policy, use_orig_params=True)
    _train(model)
    with FullyShardedDataParallel.summon_full_params(model):
        return _digest(model.parameters())


def devices_copy_to_each_other():
    """One process that uses both devices: copies between them, streams of both, memory freed on either."""
    total = 0.0
    if dist.get_rank() == 0:
        streams = [torch.cuda.Stream(device) for device in (0, 1)]
        random.seed(1)
        for step in range(200):
            x = torch.full((random.randint(1, 1 << 20),), float(step), device="cuda:0")
            streams[1].wait_stream(torch.cuda.current_stream(0))
            with torch.cuda.stream(streams[1]):
                y = x.to("cuda:1", non_blocking=True)
            torch.cuda.synchronize(1)
            assert bool((y == step).all())
            back = y.cuda(0)
            assert bool((back == x).all())
            total += float(back[0])
        for device in (0, 1):
            assert torch.cuda.memory_allocated(device) > 0
    dist.barrier()
    return str(total)


def _backend():
    return dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda"))


def a_pool_of_nccl_reduces():
    """Memory of ``ncclMemAlloc`` in a MemPool, known to the communicator, beside memory of the usual kind."""
    rank, backend = dist.get_rank(), _backend()
    pool, found = torch.cuda.MemPool(backend.mem_allocator), []
    usual = torch.full((5 << 20,), 1.0, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        theirs = [torch.full((count,), rank + 1.0, device="cuda") for count in (1000, 3 << 20, 20 << 20)]
    backend.register_mem_pool(pool)
    for step in range(20):
        for each in (*theirs, usual):
            dist.all_reduce(each)
            each /= 2
        with torch.cuda.use_mem_pool(pool):
            more = torch.full((1 << 20,), float(step + rank), device="cuda")
        dist.all_reduce(more)
        found.append(float(more.sum()))
        del more
    torch.cuda.synchronize()
    held = sum(segment["total_size"] for segment in pool.snapshot())
    assert held >= 4 * (1000 + (23 << 20)), held
    backend.deregister_mem_pool(pool)
    digest = _digest([*theirs, usual, torch.tensor(found)])
    del theirs, each, pool
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == 4 * (5 << 20)
    return digest


def replicas_train_with_buffers_of_nccl():
    """``DistributedDataParallel`` whose buckets are of ``ncclMemAlloc`` where the machine can do that."""
    os.environ["DDP_DISABLE_COMM_MEM"] = "0"
    return replicas_train_alike()


def shards_train_with_buffers_of_nccl():
    """FSDP2 that communicates in memory of the process group's."""
    from torch.distributed.fsdp import fully_shard

    model = _model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(model).set_allocate_memory_from_process_group_for_comm(
        _backend().supports_tensor_alloc(torch.device("cuda", torch.cuda.current_device()))
    )
    _train(model)
    return _digest(value.full_tensor() for value in model.state_dict().values())


def symmetric_memory_in_a_pool_reduces():
    """PyTorch's own pool of symmetric memory: each rank reads the other's."""
    import torch.distributed._symmetric_memory as symmetric

    rank, group = dist.get_rank(), dist.group.WORLD.group_name
    found = []
    with torch.cuda.use_mem_pool(symmetric.get_mem_pool(torch.device("cuda", torch.cuda.current_device()))):
        ours = torch.zeros(1 << 20, device="cuda")
    symmetric.rendezvous(ours, group)
    for step in range(10):
        ours.fill_(rank + step)
        usual = torch.ops.symm_mem.one_shot_all_reduce(ours, "sum", group)
        found.append(float(usual.mean()))
    assert found == [2.0 * step + 1 for step in range(10)], found
    return _digest([usual])


if __name__ == "__main__":
    name = sys.argv[1]
    torch.use_deterministic_algorithms(True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    found = globals()[name]()
    backend = torch.cuda.memory.get_allocator_backend()
    os.write(1, f"passed {name} rank {dist.get_rank()} {backend} {found}\n".encode())  # in one piece: there are two
    dist.destroy_process_group()
