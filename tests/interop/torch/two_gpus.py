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


if __name__ == "__main__":
    name = sys.argv[1]
    torch.use_deterministic_algorithms(True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    found = globals()[name]()
    backend = torch.cuda.memory.get_allocator_backend()
    os.write(1, f"passed {name} rank {dist.get_rank()} {backend} {found}\n".encode())  # in one piece: there are two
    dist.destroy_process_group()
