"""Steps of small programs in cuplug and in PyTorch, on one thread: what is tried first, and where Python takes much.

Both libraries run in one process, in turn, and the processor's time counts: it hardly depends on what else the machine
computes. Names, shapes and optimisers are those of PyTorch's examples and tutorials and of nanoGPT.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from time import process_time_ns
from typing import Any

from .networks import gpt2 as _gpt2
from .networks import resnet18 as _resnet18
from .timing import repeated, time_in_turn

Step = Callable[[], float]
"""One step: it gives its loss, or another number that follows from everything that it computed."""
PLACES = {"cpu": "cpu", "sim": "cuda"}
"""Where cuplug computes, by the name of the column. PyTorch always computes on the CPU."""
_ROUND_NS = 20_000_000
"""About how long the steps of one round take PyTorch together."""


@dataclass(frozen=True)
class Ratio:
    """What a step of a program takes: PyTorch's milliseconds, and how many times that cuplug takes, by place."""

    program: str
    torch_ms: float
    times: dict[str, float]


def beside_torch(program: str, torch: Any, *, rounds: int = 15) -> Ratio:
    """Time a program's steps in PyTorch and on each of cuplug's places; the ratios are those of the medians.

    Args:
        program: a name out of ``PROGRAMS``.
        torch: PyTorch. It is set to one thread; NumPy reads ``OPENBLAS_NUM_THREADS`` where it is imported.
        rounds: how often each has its turn.
    """
    torch.set_num_threads(1)
    ours = importlib.import_module("cuplug")
    make = PROGRAMS[program]
    found = {"torch": repeated(make(torch, "cpu"))}
    found |= {name: repeated(make(ours, device)) for name, device in PLACES.items()}
    once = time_in_turn(found, calls=1, rounds=2, clock=process_time_ns)["torch"].least_ns
    calls = max(int(_ROUND_NS / once), 1)
    timings = time_in_turn(found, calls=calls, rounds=rounds, clock=process_time_ns)
    base = timings.pop("torch").median_ns
    return Ratio(program, base / 1e6, {name: each.median_ns / base for name, each in timings.items()})


def mlp(torch: Any, device: str) -> Step:
    """Two linear layers, 100 digits of 28 x 28, Adam."""
    nn = torch.nn
    net = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10)).to(device)
    return _training(torch, net, _some(torch, device, 100, 784), 10, torch.optim.Adam(net.parameters(), lr=1e-3))


def cnn(torch: Any, device: str) -> Step:
    """The network of PyTorch's example ``mnist``, 64 digits, Adadelta."""
    nn = torch.nn
    images = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2))
    rows = nn.Sequential(nn.Flatten(), nn.Dropout(0.25), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5))
    net = nn.Sequential(images, rows, nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    return _training(torch, net, _some(torch, device, 64, 1, 28, 28), 10, optimizer)


def lenet(torch: Any, device: str) -> Step:
    """The network of PyTorch's tutorial on CIFAR-10, 4 images of 32 x 32, SGD with momentum."""
    nn = torch.nn
    images = [nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    rows = [nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    net = nn.Sequential(*images, *rows).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    return _training(torch, net, _some(torch, device, 4, 3, 32, 32), 10, optimizer)


def resnet(torch: Any, device: str) -> Step:
    """ResNet-18, 4 images of 64 x 64, SGD with momentum."""
    net = _resnet18(torch.nn).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    return _training(torch, net, _some(torch, device, 4, 3, 64, 64), 1000, optimizer)


def dcgan(torch: Any, device: str) -> Step:
    """The generator of PyTorch's example ``dcgan`` of half its width, 8 images of 64 x 64, Adam."""
    nn = torch.nn
    widths = [100, 256, 128, 64, 32]
    layers = []
    for number, (inside, outside) in enumerate(pairwise(widths)):
        way = (4, 2, 1) if number else (4, 1, 0)
        layers += [nn.ConvTranspose2d(inside, outside, *way, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True)]
    net = nn.Sequential(*layers, nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh()).to(device)
    noise = _some(torch, device, 8, 100, 1, 1)
    return _stepping(net, torch.optim.Adam(net.parameters(), lr=2e-4), lambda: net(noise).square().mean())


def gpt(torch: Any, device: str) -> Step:
    """GPT-2 of nanoGPT's size for a laptop: 4 layers, 4 heads, 128 features, 12 texts of 64 characters, AdamW."""
    net = _gpt2(torch, 4, 128, 4, 65, 64).to(device)
    tokens = (torch.arange(12 * 64).view(12, 64) % 65).to(device)
    labels = tokens.roll(-1, 1).view(-1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    loss = torch.nn.functional.cross_entropy
    return _stepping(net, optimizer, lambda: loss(net(tokens).view(-1, 65), labels))


def generate(torch: Any, device: str) -> Step:
    """Sixteen characters by that network, each chosen at random among the ten likeliest, as nanoGPT does."""
    net = _gpt2(torch, 4, 128, 4, 65, 64).to(device)
    net.eval()
    begin = torch.zeros((1, 1), dtype=torch.long).to(device)

    def step() -> float:
        text = begin
        with torch.no_grad():
            for _ in range(16):
                logits = net(text)[:, -1, :] / 0.8
                least, _ = torch.topk(logits, 10)
                logits[logits < least[:, [-1]]] = -float("inf")
                chosen = torch.multinomial(torch.nn.functional.softmax(logits, dim=-1), num_samples=1)
                text = torch.cat((text, chosen), dim=1)
        return float(text[0, -1].item())

    return step


def small(torch: Any, device: str) -> Step:
    """400 operations of ten elements, and their backward."""
    x = torch.linspace(-1, 1, 10).to(device).requires_grad_()
    y = torch.linspace(0.1, 1, 10).to(device)

    def step() -> float:
        x.grad = None
        made = x
        for _ in range(100):
            made = torch.tanh(made * y + x) - y
        loss = made.sum()
        loss.backward()
        return float(loss.item())

    return step


PROGRAMS: dict[str, Callable[[Any, str], Step]] = {
    "MLP": mlp,
    "CNN": cnn,
    "LeNet": lenet,
    "ResNet-18": resnet,
    "transposed convolution": dcgan,
    "GPT": gpt,
    "generate": generate,
    "400 small operations": small,
}
"""What makes a program's step for a library and a device, by the program's name."""


def _some(torch: Any, device: str, *shape: int) -> Any:
    torch.manual_seed(0)
    return torch.randn(*shape).to(device)


def _training(torch: Any, net: Any, given: Any, classes: int, optimizer: Any) -> Step:
    labels = (torch.arange(len(given)) % classes).to(given.device)
    loss = torch.nn.CrossEntropyLoss()
    return _stepping(net, optimizer, lambda: loss(net(given), labels))


def _stepping(net: Any, optimizer: Any, forward: Callable[[], Any]) -> Step:
    net.train()

    def step() -> float:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step
