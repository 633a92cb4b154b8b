"""Data sets for spawned workers, which import them from here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import cuplug
import numpy as np
from cuplug.utils.data import Dataset, IterableDataset, get_worker_info

__all__ = ["Counted", "Failing", "Killed", "Numbers"]


class Numbers(Dataset[Any]):
    """Ten samples, each with its number, an array and the worker that made it."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: Any) -> Any:
        info = get_worker_info()
        return {
            "number": index,
            "square": cuplug.tensor([float(index**2)] * 3),
            "array": np.full((2,), index, np.int32),
            "worker": -1 if info is None else info.id,
        }


class Failing(Numbers):
    """Its seventh sample raises."""

    def __getitem__(self, index: Any) -> Any:
        if index == 7:
            raise KeyError("no sample seven")
        return super().__getitem__(index)


class Killed(Numbers):
    """Its seventh sample kills the process."""

    def __getitem__(self, index: Any) -> Any:
        if index == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Counted(IterableDataset[Any]):
    """The numbers up to 9, divided among workers."""

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 9, step))
