"""Names of torch by which programs set what does not exist here: they can be set, and change nothing.

There are no convolutions for cuDNN to choose among.
"""

from __future__ import annotations

from types import SimpleNamespace

__all__ = ["backends", "contiguous_format", "layout", "memory_format", "preserve_format", "strided"]

backends = SimpleNamespace(
    cudnn=SimpleNamespace(
        allow_tf32=True,
        benchmark=False,
        deterministic=False,
        enabled=True,
        is_available=lambda: False,
        version=lambda: None,
    )
)
"""``torch.backends``: ``backends.cudnn.benchmark = True`` and the like."""


class layout:  # noqa: N801 - torch's name
    """How elements are kept. There is one way: ``strided``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"cuplug.{self._name}"


class memory_format(layout):  # noqa: N801 - torch's name
    """In which order elements lie in memory: ``contiguous_format``, row by row, or ``preserve_format``, as they did."""


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
