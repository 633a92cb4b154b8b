"""Parameters in buckets: what ``DataParallel`` and ``DistributedDataParallel`` send at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...tensor.core.tensor import Tensor


def in_buckets(tensors: Sequence[Tensor], nbytes: int) -> Iterator[list[int]]:
    """The positions of tensors in groups of one type, of about ``nbytes`` bytes each. The last tensors, whose gradients
    come first, are in the first groups."""
    open_groups: dict[Any, tuple[list[int], int]] = {}
    for position in reversed(range(len(tensors))):
        layout = tensors[position]._layout
        group, size = open_groups.get(layout.dtype, ([], 0))
        group.append(position)
        size += layout.nbytes
        if size >= nbytes:
            yield group
            group, size = [], 0
        open_groups[layout.dtype] = group, size
    yield from (group for group, _ in open_groups.values() if group)
