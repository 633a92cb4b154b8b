"""Programs for PyTorch, run as a script in a process of its own: ``torch_workloads.py NAME PASSES [busy]``.

It knows nothing of cuplug. Prints ``ready`` when its imports are done, and waits for a line: the bytes of the device's
memory that it may use, or nothing for no limit; where its input is at its end it goes on at once. Then it prints one
line of JSON: the seconds of the first pass and of the warm ones, and the peaks of what was requested, allocated and
reserved, in bytes; or ``null`` where memory ran out. ``busy``: a Python thread computes all the while.
"""

from __future__ import annotations

import gc
import importlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

DEVICE = "cuda"


def resnet() -> Callable[[], None]:
    """ResNet-50 at several resolutions."""
    import torch
    import torchvision

    model = torchvision.models.resnet50().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def run() -> None:
        for _ in range(16):
            size = random.choice([160, 192, 224, 256, 288, 320])
            images = torch.randn(32, 3, size, size, device=DEVICE)
            labels = torch.randint(0, 1000, (32,), device=DEVICE)
            _step(torch.nn.functional.cross_entropy(model(images), labels), optimizer)

    return run


def gpt2() -> Callable[[], None]:
    """GPT-2 with batches of many lengths."""
    from transformers import GPT2Config

    return _language_model(GPT2Config(n_layer=12, n_embd=768, n_head=12), 14, [4, 8], (64, 1024))


def llama() -> Callable[[], None]:
    """The shape of a small Llama, with checkpointed activations."""
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=1536,
        intermediate_size=4096,
        num_hidden_layers=12,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
    )
    return _language_model(config, 6, [8], (1024, 1024), checkpoints=True)


def prefetch() -> Callable[[], None]:
    """ResNet-18, whose batches come over a side stream."""
    import torch
    import torchvision

    model = torchvision.models.resnet18().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    side = torch.cuda.Stream()

    def fetch() -> tuple[Any, Any]:
        count = random.choice([48, 64, 80, 96])
        with torch.cuda.stream(side):
            images = torch.randn(count, 3, 224, 224).pin_memory().to(DEVICE, non_blocking=True)
            images = (images - 0.45) / 0.22
            labels = torch.randint(0, 1000, (count,)).pin_memory().to(DEVICE, non_blocking=True)
        return images, labels

    def run() -> None:
        current = torch.cuda.current_stream()
        following = fetch()
        for _ in range(24):
            current.wait_stream(side)
            images, labels = following
            images.record_stream(current)
            labels.record_stream(current)
            following = fetch()
            _step(torch.nn.functional.cross_entropy(model(images), labels), optimizer)

    return run


def graphs() -> Callable[[], None]:
    """A graph network; each batch has other numbers of nodes and edges."""
    import torch

    width = 256
    layers = torch.nn.ModuleList(torch.nn.Linear(2 * width, width) for _ in range(6)).to(DEVICE)
    last = torch.nn.Linear(width, 16).to(DEVICE)
    optimizer = torch.optim.Adam([*layers.parameters(), *last.parameters()], 1e-3)

    def run() -> None:
        for _ in range(40):
            nodes = random.randint(5_000, 60_000)
            edges = nodes * random.randint(4, 12)
            states = torch.randn(nodes, width, device=DEVICE)
            sources, targets = torch.randint(0, nodes, (2, edges), device=DEVICE)
            for layer in layers:
                messages = torch.relu(layer(torch.cat([states[sources], states[targets]], 1)))
                states = states + torch.zeros_like(states).index_add(0, targets, messages)
                states = torch.nn.functional.layer_norm(states, (width,))
            _step(last(states).square().mean(), optimizer)

    return run


def detection() -> Callable[[], None]:
    """Mask R-CNN on images of random sizes."""
    import torch
    import torchvision

    with torch.device(DEVICE):
        model = torchvision.models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4)

    def scene() -> tuple[Any, dict[str, Any]]:
        height, width = random.randint(400, 800), random.randint(400, 800)
        masks = torch.zeros(3, height, width, dtype=torch.uint8, device=DEVICE)
        corners = [(random.randint(0, width - 200), random.randint(0, height - 200)) for _ in range(3)]
        for mask, (x, y) in zip(masks, corners, strict=True):
            mask[y : y + 180, x : x + 150] = 1
        boxes = torch.tensor([[x, y, x + 150, y + 180] for x, y in corners], dtype=torch.float, device=DEVICE)
        target = {"boxes": boxes, "labels": torch.randint(1, 10, (3,), device=DEVICE), "masks": masks}
        return torch.rand(3, height, width, device=DEVICE), target

    def run() -> None:
        for _ in range(6):
            images, targets = zip(*(scene() for _ in range(4)), strict=True)
            _step(sum(model(list(images), list(targets)).values()), optimizer)

    return run


def trainer() -> Callable[[], None]:
    """GPT-2 by transformers' Trainer, texts of random length, each batch padded to its longest."""
    import tempfile

    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, Trainer, TrainingArguments

    config = GPT2Config(n_layer=8, n_embd=512, n_head=8)
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config)

    def batch(texts: list[Any]) -> dict[str, Any]:
        padded = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)
        return {"input_ids": padded, "labels": padded}

    def run() -> None:
        texts = [torch.randint(0, config.vocab_size, (random.randint(32, 900),)) for _ in range(96)]
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder,
                per_device_train_batch_size=8,
                num_train_epochs=1,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                bf16=True,
            )
            Trainer(model, arguments, train_dataset=texts, data_collator=batch).train()
        model.zero_grad(set_to_none=True)

    return run


def generate() -> Callable[[], None]:
    """GPT-2 that goes on with prompts of random length, in batches of random size."""
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config

    config = GPT2Config(n_layer=12, n_embd=768, n_head=12)
    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config).eval()

    def run() -> None:
        for _ in range(4):
            prompts = torch.randint(
                1, config.vocab_size, (random.randint(4, 32), random.randint(64, 800)), device=DEVICE
            )
            mask = torch.ones_like(prompts)
            count = random.randint(16, 48)
            model.generate(prompts, attention_mask=mask, min_new_tokens=count, max_new_tokens=count, pad_token_id=0)

    return run


def attention() -> Callable[[], None]:
    """A network that attends along the edges of random graphs."""
    import torch

    heads, width = 4, 64
    inside = torch.nn.ModuleList(torch.nn.Linear(heads * width, heads * width) for _ in range(3)).to(DEVICE)
    scores = torch.nn.ModuleList(torch.nn.Linear(2 * width, 1) for _ in range(3)).to(DEVICE)
    optimizer = torch.optim.Adam([*inside.parameters(), *scores.parameters()], 1e-3)

    def attend(states: Any, sources: Any, targets: Any, linear: Any, score: Any) -> Any:
        values = linear(states).view(-1, heads, width)
        along = values[sources]
        weights = score(torch.cat([along, values[targets]], -1))
        weights = torch.nn.functional.leaky_relu(weights, 0.2).clamp(max=10).exp()
        sums = torch.zeros(len(states), heads, 1, device=DEVICE).index_add(0, targets, weights)
        found = torch.zeros_like(values).index_add(0, targets, along * weights)
        return torch.nn.functional.elu(found / (sums + 1e-9)).flatten(1)

    def run() -> None:
        for _ in range(24):
            nodes = random.randint(5_000, 40_000)
            edges = nodes * random.randint(4, 12)
            states = torch.randn(nodes, heads * width, device=DEVICE)
            sources, targets = torch.randint(0, nodes, (2, edges), device=DEVICE)
            for linear, score in zip(inside, scores, strict=True):
                states = attend(states, sources, targets, linear, score)
            _step(states.square().mean(), optimizer)

    return run


def densenet() -> Callable[[], None]:
    """DenseNet-121, every step the same."""
    import torch
    import torchvision

    model = torchvision.models.densenet121().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def run() -> None:
        for _ in range(8):
            images = torch.randn(48, 3, 224, 224, device=DEVICE)
            labels = torch.randint(0, 1000, (48,), device=DEVICE)
            _step(torch.nn.functional.cross_entropy(model(images), labels), optimizer)

    return run


def gaussian() -> Callable[[], None]:
    """An exact Gaussian process of random numbers of points, whose scale and noise are learnt."""
    import torch

    scale, noise = (torch.zeros((), device=DEVICE, requires_grad=True) for _ in range(2))
    optimizer = torch.optim.Adam([scale, noise], 0.05)

    def run() -> None:
        for _ in range(12):
            count = random.randint(1_000, 6_000)
            points = torch.rand(count, 8, device=DEVICE)
            values = points.sum(1, keepdim=True).sin()
            kernel = (-0.5 * (torch.cdist(points, points) / scale.exp()) ** 2).exp()
            factor = torch.linalg.cholesky(kernel + (noise.exp() + 1e-2) * torch.eye(count, device=DEVICE))
            fit = (values * torch.cholesky_solve(values, factor)).sum() / 2
            _step(fit + factor.diagonal().log().sum(), optimizer)

    return run


_NEEDED = {
    "resnet": "torchvision",
    "prefetch": "torchvision",
    "gpt2": "transformers.models.gpt2.modeling_gpt2",
    "llama": "transformers.models.llama.modeling_llama",
    "detection": "torchvision",
    "trainer": "transformers.trainer",
    "generate": "transformers.models.gpt2.modeling_gpt2",
    "densenet": "torchvision",
}
"""What a workload imports besides PyTorch."""
_TUNED = (resnet, gpt2, llama, prefetch, graphs)  # programs of kinds that the strategies' rules were found on
_OTHERS = (detection, trainer, generate, attention, densenet, gaussian)
WORKLOADS = {workload.__name__: workload for workload in (*_TUNED, *_OTHERS)}


def _language_model(
    config: Any, steps: int, batches: list[int], lengths: tuple[int, int], *, checkpoints: bool = False
) -> Callable[[], None]:
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device(DEVICE):
        model = AutoModelForCausalLM.from_config(config)
    if checkpoints:
        model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def run() -> None:
        for _ in range(steps):
            length = max(16, random.randint(*lengths) // 8 * 8)
            tokens = torch.randint(0, config.vocab_size, (random.choice(batches), length), device=DEVICE)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss
            _step(loss, optimizer)

    return run


def _step(loss: Any, optimizer: Any) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def _compute() -> None:
    """Compute without pause, as a thread beside training would.

    Each operation of PyTorch's lets go of the interpreter's lock, and then waits for it as long as a thread may keep
    it. That is 5 milliseconds as Python sets it: a pass of 0.4 seconds takes a minute, and hardly anything else is
    timed. So a thread may keep it for 0.1 milliseconds here.
    """
    sys.setswitchinterval(1e-4)
    total = 0
    while True:
        total = (total * 31 + 7) % 1_000_003


def _time(run: Callable[[], None]) -> float:
    import torch

    random.seed(0)
    torch.manual_seed(0)
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def main(name: str, passes: int, *, busy: bool) -> None:
    """Time one workload and print what was found."""
    import torch

    if name in _NEEDED:
        importlib.import_module(_NEEDED[name])
    print("ready", flush=True)
    limit = sys.stdin.readline().strip()
    random.seed(0)
    torch.manual_seed(0)
    torch.zeros(1, device=DEVICE)
    if limit:
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(int(limit) / whole, 1.0))  # PyTorch refuses more
    try:
        figures = _measure(name, passes, busy=busy)
    except torch.OutOfMemoryError:
        figures = None
    print(json.dumps(figures), flush=True)


def _measure(name: str, passes: int, *, busy: bool) -> dict[str, Any]:
    import torch

    run = WORKLOADS[name]()
    if busy:
        threading.Thread(target=_compute, daemon=True).start()
    cold = _time(run)
    gc.collect()
    before = torch.cuda.memory_stats()["num_device_alloc"]
    warm = [_time(run) for _ in range(passes)]
    figures = torch.cuda.memory_stats()
    taken = (figures["num_device_alloc"] - before) / passes
    peaks = {key: figures[f"{key}_bytes.all.peak"] for key in ("requested", "allocated", "reserved")}
    return {"cold": cold, "warm": warm, "taken": taken, **peaks}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), busy="busy" in sys.argv[3:])
