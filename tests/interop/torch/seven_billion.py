"""A language model of Llama's shape with 6.7 billion parameters, trained for some steps: ``seven_billion.py AdamW 3``.

Parameters in float32, computed in bfloat16, activations recomputed, one row of 2,048 tokens. With ``AdamW`` it asks for
108 GB, with ``SGD`` for its parameters and gradients alone. Prints each step's times and what was allocated at most.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIDTH, INNER, HEADS, LAYERS, WORDS, LENGTH = 4096, 11008, 32, 32, 32000, 2048


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attended, self.mixed = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, INNER, bias=False), nn.Linear(WIDTH, INNER, bias=False)
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        parts = self.attended(self.before(x)).chunk(3, -1)
        query, key, value = (part.view(rows, length, HEADS, -1).transpose(1, 2) for part in parts)
        attention = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mixed(attention.transpose(1, 2).reshape(rows, length, WIDTH))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(self.last(x))


def main(kind: str, steps: int) -> None:
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    model = Model()
    if kind == "AdamW":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for step in range(steps):
        tokens = torch.randint(0, WORDS, (1, LENGTH + 1))
        torch.cuda.synchronize()
        times = [time.perf_counter()]
        with torch.autocast("cuda", torch.bfloat16):
            found = model(tokens[:, :-1])
            loss = F.cross_entropy(found.float().view(-1, WORDS), tokens[:, 1:].reshape(-1))
        loss.backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter())
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter())
        optimizer.zero_grad(set_to_none=True)
        passes, update = times[1] - times[0], times[2] - times[1]
        print(f"step {step}: loss {loss.item():.4f}, both passes {passes:.3f} s, optimiser {update:.3f} s", flush=True)
    print(f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB allocated at most")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
