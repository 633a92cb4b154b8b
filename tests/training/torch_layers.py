"""Layers of PyTorch's beside which those of cuplug are tested: how they are made, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np


def tensor_of(torch: Any, array: Any, device: str) -> Any:
    kind = torch.int64 if array.dtype.kind == "i" else torch.float64
    return torch.tensor(array.tolist(), dtype=kind, device=device)


def layer_of(torch: Any, text: str) -> Any:
    return eval(f"nn.{text}", {"nn": torch.nn}).double()


def made_of(layer: Any, value: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What a layer makes, its buffers then, and the gradients."""
    result = layer(value)
    (result.sin() * 1.5).sum().backward()
    found = {"result": result, "input": value.grad}
    found |= {name: each.grad for name, each in layer.named_parameters()}
    found |= dict(layer.named_buffers())
    return {name: each.detach().cpu().numpy() for name, each in found.items()}
