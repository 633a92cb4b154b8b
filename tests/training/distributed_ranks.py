"""What a rank does in the tests of several processes: ``python distributed_ranks.py NAME... DEVICE``, with torch's
environment variables. It prints what the test compares."""

from __future__ import annotations

import os
import sys
from typing import Any

import cuplug
import numpy as np
from cuplug import distributed, nn

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
CPU = "cpu"


def say(*words: Any) -> None:
    print(*words, flush=True)


def collectives(device: str) -> None:
    """Every collective, on tensors of several types."""
    assert (distributed.get_rank(), distributed.get_world_size()) == (RANK, SIZE)
    for kind in (cuplug.float32, cuplug.float16, cuplug.bfloat16, cuplug.float64, cuplug.int64, cuplug.uint8):
        x = cuplug.arange(7).to(kind).to(device) + RANK
        distributed.all_reduce(x)
        assert x.tolist() == [SIZE * n + SIZE * (SIZE - 1) // 2 for n in range(7)], x
    x = cuplug.tensor([float(RANK + 1)], device=device)
    distributed.all_reduce(x, distributed.ReduceOp.MAX)
    assert x.item() == SIZE
    x = cuplug.tensor([float(RANK)], device=device)
    distributed.all_reduce(x, op=distributed.ReduceOp.AVG)
    assert x.item() == (SIZE - 1) / 2
    strided = cuplug.zeros(3, 2, device=device).t()
    strided += RANK
    distributed.broadcast(strided, src=SIZE - 1)
    assert strided.tolist() == [[SIZE - 1.0] * 3] * 2
    x = cuplug.tensor([1.0, RANK], device=device)
    distributed.reduce(x, dst=1)
    assert x.tolist() == ([SIZE, SIZE * (SIZE - 1) / 2] if RANK == 1 else [1.0, RANK])
    parts = [cuplug.empty(2, device=device) for _ in range(SIZE)]
    distributed.all_gather(parts, cuplug.full((2,), float(RANK), device=device))
    assert [each.tolist() for each in parts] == [[float(n)] * 2 for n in range(SIZE)]
    whole = cuplug.empty(SIZE, 3, dtype=cuplug.int32, device=device)
    distributed.all_gather_into_tensor(whole, cuplug.full((3,), RANK, dtype=cuplug.int32, device=device))
    assert whole.tolist() == [[n] * 3 for n in range(SIZE)]
    out = cuplug.empty(2, device=device)
    distributed.reduce_scatter(out, [cuplug.tensor([n, RANK], device=device) * 1.0 for n in range(SIZE)])
    assert out.tolist() == [SIZE * RANK, SIZE * (SIZE - 1) / 2]
    large = cuplug.arange(300_001, dtype=cuplug.float64, device=device)
    work = distributed.all_reduce(large, async_op=True)
    other = distributed.all_reduce(x, async_op=True)
    other.wait()
    assert work.wait()
    assert work.is_completed()
    assert cuplug.equal(large, cuplug.arange(300_001, dtype=cuplug.float64, device=device) * SIZE)
    distributed.barrier()
    say("all right")


class Net(nn.Module):
    """Weights used twice, statistics of batches that are kept, and a part that may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.extra = nn.Linear(8, 8)

    def forward(self, x: Any, extra: bool = True) -> Any:
        x = self.norm(self.first(x)).relu()
        if extra:
            x = self.extra(self.extra(x))
        return self.last(x)


def batches(step: int) -> Any:
    random = np.random.default_rng(step)
    return random.standard_normal((4 * SIZE, 6)), random.standard_normal((4 * SIZE, 3))


def training(device: str) -> None:
    """Steps of a network, some with gradients of several passes; prints the sum of each weight's elements' bits."""
    cuplug.manual_seed(RANK)  # rank 0's weights are everybody's
    net = Net().double().to(device).eval()
    both = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.0005)
    step = cuplug.optim.AdamW(both.parameters(), lr=0.05)
    for number in range(4):
        step.zero_grad()
        mine = [cuplug.tensor(each[RANK * 4 : RANK * 4 + 4]).to(device) for each in batches(number)]
        if number == 2:
            with both.no_sync():
                nn.functional.mse_loss(both(mine[0]), mine[1]).backward()
        nn.functional.mse_loss(both(mine[0]), mine[1]).backward()
        step.step()
    for name, each in net.named_parameters():
        say(name, *[value.hex() for value in each.detach().cpu().reshape(-1).tolist()])


def buffers(device: str) -> None:
    """Before each pass all take the statistics of rank 0."""
    net = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(1, momentum=1.0).to(device))
    for _ in range(2):
        net(cuplug.tensor([[1.0], [3.0]], device=device) * (RANK + 1)).sum().backward()
        say(net.module.running_mean.item(), net.module.num_batches_tracked.item())


def unused(device: str) -> None:
    """A parameter that one pass leaves out."""
    net = Net().to(device)
    x = cuplug.ones(2, 6, device=device)
    both = nn.parallel.DistributedDataParallel(net)
    both(x, extra=False).sum().backward()
    try:
        both(x)
    except cuplug.CuplugError as error:
        say(error)
    net = Net().to(device)
    both = nn.parallel.DistributedDataParallel(net, find_unused_parameters=True)
    both(x, extra=False).sum().backward()
    say(net.extra.weight.grad)
    both(x, extra=RANK == 0).sum().backward()
    say(float(net.extra.weight.grad.abs().sum()) > 0, net.extra.bias.grad.tolist())


def different(device: str) -> None:
    """Networks that differ."""
    try:
        nn.parallel.DistributedDataParallel(nn.Linear(2 + RANK, 2).to(device))
    except cuplug.CuplugError as error:
        say(error)


def disagree(device: str) -> None:
    """Ranks that call different collectives. The group cannot be used after it, and another one can be made."""
    try:
        distributed.all_reduce(cuplug.ones(2 + RANK, device=device))
    except cuplug.CuplugError as error:
        say(error)
    distributed.destroy_process_group()
    begin(device)
    distributed.barrier()


def dies(device: str) -> None:
    """The last rank ends without a word, the others wait for it."""
    distributed.all_reduce(cuplug.ones(2, device=device))
    if RANK == SIZE - 1:
        os._exit(3)
    for _ in range(2):
        try:
            distributed.all_reduce(cuplug.ones(2, device=device))
        except cuplug.CuplugError as error:
            say(error)


def begin(device: str) -> None:
    """Meet the other ranks."""
    distributed.init_process_group("gloo" if device == CPU else None, timeout=60)


if __name__ == "__main__":
    *wanted, place = sys.argv[1:]
    if place != CPU:
        cuplug.init(driver="sim")
    begin(place)
    for each in wanted:
        say(f"--- {each}")
        globals()[each](place)
    distributed.destroy_process_group()
