"""How elements may be kept, by torch's names: programs name it when they ask for copies."""

from __future__ import annotations

__all__ = ["contiguous_format", "layout", "memory_format", "preserve_format", "strided"]


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
