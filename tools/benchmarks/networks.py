"""Networks whose parts have the names that torchvision and transformers give them, for cuplug and for PyTorch."""

from __future__ import annotations

from typing import Any


def resnet18(nn: Any, width: int = 64, classes: int = 1000) -> Any:
    """A ResNet-18."""

    class Block(nn.Module):  # type: ignore[misc]
        expansion = 1

        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, width, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.downsample = _downsample(nn, inside, width, stride)

        def forward(self, x: Any) -> Any:
            short = x if self.downsample is None else self.downsample(x)
            return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + short)

    return _resnet(nn, Block, (2, 2, 2, 2), width, classes)


def resnet50(nn: Any, width: int = 64, classes: int = 1000) -> Any:
    """A ResNet-50."""

    class Bottleneck(nn.Module):  # type: ignore[misc]
        expansion = 4

        def __init__(self, inside: int, width: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = _downsample(nn, inside, 4 * width, stride)

        def forward(self, x: Any) -> Any:
            short = x if self.downsample is None else self.downsample(x)
            made = self.relu(self.bn1(self.conv1(x)))
            made = self.relu(self.bn2(self.conv2(made)))
            return self.relu(self.bn3(self.conv3(made)) + short)

    return _resnet(nn, Bottleneck, (3, 4, 6, 3), width, classes)


def _downsample(nn: Any, inside: int, outside: int, stride: int) -> Any:
    if stride == 1 and inside == outside:
        return None
    return nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))


def _resnet(nn: Any, block: Any, counts: tuple[int, ...], width: int, classes: int) -> Any:
    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            inside = width
            for number, count in enumerate(counts):
                blocks = []
                for position in range(count):
                    blocks.append(block(inside, width * 2**number, 2 if number and not position else 1))
                    inside = width * 2**number * block.expansion
                setattr(self, f"layer{number + 1}", nn.Sequential(*blocks))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(inside, classes)

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            for number in range(1, 5):
                x = getattr(self, f"layer{number}")(x)
            return self.fc(self.avgpool(x).flatten(1))

    return Net()


def gpt2(torch: Any, layers: int = 2, size: int = 32, heads: int = 4, words: int = 50, length: int = 16) -> Any:
    """A GPT-2 whose parts have the names that transformers gives them; its ``Conv1D`` keeps weights transposed."""
    nn = torch.nn

    class Conv1D(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, outside: int, inside: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(inside, outside) * 0.02)
            self.bias = nn.Parameter(torch.zeros(outside))

        def forward(self, x: Any) -> Any:
            return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)

    class Attention(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(3 * size, size), Conv1D(size, size)

        def forward(self, x: Any) -> Any:
            count, steps, _ = x.shape
            parts = [each.view(count, steps, heads, -1).transpose(1, 2) for each in self.c_attn(x).split(size, 2)]
            made = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.c_proj(made.transpose(1, 2).reshape(count, steps, size))

    class Mlp(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.c_fc, self.c_proj = Conv1D(4 * size, size), Conv1D(size, 4 * size)

        def forward(self, x: Any) -> Any:
            return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))

    class Block(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.attn = nn.LayerNorm(size), Attention()
            self.ln_2, self.mlp = nn.LayerNorm(size), Mlp()

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Net(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            parts = {"wte": nn.Embedding(words, size), "wpe": nn.Embedding(length, size)}
            blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.transformer = nn.ModuleDict({**parts, "h": blocks, "ln_f": nn.LayerNorm(size)})
            self.lm_head = nn.Linear(size, words, bias=False)
            self.lm_head.weight = self.transformer["wte"].weight

        def forward(self, x: Any) -> Any:
            where = torch.arange(x.shape[1], device=x.device)
            made = self.transformer["wte"](x) + self.transformer["wpe"](where)
            for each in self.transformer["h"]:
                made = each(made)
            return self.lm_head(self.transformer["ln_f"](made))

    return Net()
