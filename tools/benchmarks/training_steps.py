"""Steps of training in one library, run as a script in a process of its own.

``training_steps.py LIBRARY NETWORK DEVICES [ALLOCATOR] [small]``: ``cuplug`` or ``torch``; a name out of ``NETWORKS``;
``cpu``, or the number of CUDA devices, among which ``DataParallel`` divides the batch if there are several; the
allocator of cuplug, or ``expandable_segments`` of PyTorch.

It prints ``ready`` when the network is made and warm. For each line with a number of steps it takes so many, waits for
the device, and prints one line of JSON: the mean seconds of a step, the seconds until the first one was queued, and the
bytes that were reserved at most.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Step = Callable[[], None]
_WARM = 6


def resnet50(torch: Any, device: str, replicas: int, *, small: bool) -> Step:
    """ResNet-50, 128 images of 224 x 224 for each replica, in bfloat16 where that pays."""
    batch, length = (4, 32) if small else (128, 224)
    net = _networks().resnet50(torch.nn, *((4, 10) if small else ())).to(device)
    images = torch.randn(batch * replicas, 3, length, length).to(device)
    labels = (torch.arange(batch * replicas) % 10).to(device)
    return _step(torch, net, images, labels, replicas, half=True)


def gpt2(torch: Any, device: str, replicas: int, *, small: bool) -> Step:
    """GPT-2 small, 8 texts of 1,024 tokens for each replica, in bfloat16 where that pays."""
    texts, length, words = (2, 16, 50) if small else (8, 1024, 50257)
    net = _networks().gpt2(torch, *(() if small else (12, 768, 12, words, length))).to(device)
    tokens = torch.randint(0, words, (texts * replicas, length)).to(device)
    following = torch.randint(0, words, (texts * replicas * length,)).to(device)
    return _step(torch, net, tokens, following, replicas, half=True)


def mlp(torch: Any, device: str, replicas: int, *, small: bool) -> Step:
    """Nine linear layers of 128 and a batch of 64 for each replica, which take longer to launch than to compute."""
    layers = [each for _ in range(2 if small else 8) for each in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    net = torch.nn.Sequential(*layers, torch.nn.Linear(128, 10)).to(device)
    rows = torch.randn(64 * replicas, 128).to(device)
    labels = (torch.arange(64 * replicas) % 10).to(device)
    return _step(torch, net, rows, labels, replicas, half=False)


NETWORKS = {"resnet50": resnet50, "gpt2": gpt2, "mlp": mlp}


def _networks() -> Any:
    """``networks.py``, which lies beside this script: by its name in the package it would bring cuplug into PyTorch's
    process."""
    return importlib.import_module("networks")


def _step(torch: Any, net: Any, given: Any, labels: Any, replicas: int, *, half: bool) -> Step:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    both = torch.nn.DataParallel(net) if replicas > 1 else net

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(given.device.type, dtype=torch.bfloat16, enabled=half):
            made = both(given)
            loss = torch.nn.functional.cross_entropy(made.reshape(-1, made.shape[-1]), labels)
        loss.backward()
        optimizer.step()

    return step


def main(library: str, network: str, devices: str, *options: str) -> None:
    """Make the network, and train it as the lines of the standard input say."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    allocators = [each for each in options if each != "small"]
    if library == "torch" and allocators:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = f"{allocators[0]}:True"
    torch = importlib.import_module(library)
    if library == "cuplug":
        torch.init(allocator=allocators[0] if allocators else None)
    count = 0 if devices == "cpu" else int(devices)
    step = NETWORKS[network](torch, "cuda" if count else "cpu", max(count, 1), small="small" in options)

    def wait() -> None:
        for device in range(count):
            torch.cuda.synchronize(device)

    for _ in range(_WARM):
        step()
    wait()
    print("ready", file=answers)
    for line in sys.stdin:
        begin = time.perf_counter()
        step()
        queued = time.perf_counter()
        for _ in range(int(line) - 1):
            step()
        wait()
        seconds = (time.perf_counter() - begin) / int(line)
        reserved = sum(torch.cuda.max_memory_reserved(device) for device in range(count))
        print(json.dumps({"step": seconds, "queued": queued - begin, "reserved": reserved}), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
