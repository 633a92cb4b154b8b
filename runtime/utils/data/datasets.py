"""Samples by number, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import floor, isclose
from typing import Any, Generic, TypeVar

from ...tensor.core.tensor import Tensor
from ...tensor.core.tensor_errors import ArgumentError, AssertedError
from ...tensor.ops.random.random_numbers import randperm
from .samplers import device_of

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples by number. A subclass has ``__getitem__`` and, for most uses, ``__len__``."""

    def __getitem__(self, index: Any) -> Sample:
        """The sample of a number.

        Raises:
            NotImplementedError: a subclass has to say.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """Samples one after the other. A subclass has ``__iter__``; a worker's part is what ``get_worker_info`` says."""

    def __iter__(self) -> Iterator[Sample]:
        """The samples.

        Raises:
            NotImplementedError: a subclass has to say.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset[Any]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The positions of the first dimension of tensors, which are of equal length there.

    Raises:
        AssertionError: the lengths differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if len({each.shape[0] for each in tensors}) > 1:
            raise AssertedError(f"Size mismatch between tensors: lengths {[each.shape[0] for each in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(each[index] for each in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class Subset(Dataset[Sample]):
    """The samples of ``dataset`` at ``indices``, in that order."""

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Sample:
        if isinstance(index, list):
            return self.dataset[[self.indices[each] for each in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[Any]) -> Sequence[Sample]:
        """Several samples at once."""
        return samples_of(self.dataset, [self.indices[each] for each in indices])

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Sample]):
    """Data sets one after the other.

    Raises:
        AssertionError: there are none, or one has samples without numbers.
        IndexError: there is no such sample.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertedError("datasets should not be an empty iterable")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertedError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(each) for each in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Sample:
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        number = bisect_right(self.cumulative_sizes, position)
        before = self.cumulative_sizes[number - 1] if number else 0
        found: Sample = self.datasets[number][position - before]
        return found


class ChainDataset(IterableDataset[Sample]):
    """The samples of several data sets, one data set after the other.

    Raises:
        AssertionError: once they are asked for: one has no samples one after the other.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise AssertedError("ChainDataset only supports IterableDataset")
            yield each

    def __iter__(self) -> Iterator[Sample]:
        for each in self._checked():
            yield from each

    def __len__(self) -> int:
        return sum(len(each) for each in self._checked())


class StackDataset(Dataset[Any]):
    """The samples of several data sets of one length side by side: tuples; or mappings, where they are given by name.

    Raises:
        ValueError: the lengths differ, there is no data set, or some are given by name and some are not.
    """

    def __init__(self, *datasets: Any, **named: Any) -> None:
        if datasets and named:
            raise ArgumentError(
                "Supported either ``tuple``- or ``dict``-like: data sets are given in order or by name, and not both"
            )
        self.datasets: Any = datasets or named
        several = datasets or tuple(named.values())
        if not several:
            raise ArgumentError("At least one dataset should be passed")
        if len({len(each) for each in several}) > 1:
            raise ArgumentError("Size mismatch between datasets")
        self._length = len(several[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """Several samples at once.

        Raises:
            ValueError: a data set gives another number of them.
        """
        named = isinstance(self.datasets, dict)
        found = [samples_of(each, indices) for each in (self.datasets.values() if named else self.datasets)]
        for each in found:
            if len(each) != len(indices):
                raise ArgumentError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(each)}")
        samples = zip(*found, strict=True)
        return [dict(zip(self.datasets, each, strict=True)) for each in samples] if named else list(samples)

    def __len__(self) -> int:
        return self._length


def samples_of(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """Samples of a data set: at once, by ``__getitems__``, where it has that."""
    together = getattr(dataset, "__getitems__", None)
    found: Sequence[Any] = [dataset[each] for each in indices] if together is None else together(indices)
    return found


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = None) -> list[Subset[Any]]:
    """A data set divided by chance.

    Args:
        dataset: the data set.
        lengths: how many samples each part has; or shares that add up to 1, where what is left goes to the first parts.
        generator: whose numbers are taken.

    Raises:
        ValueError: the lengths do not add up.
    """
    sizes = [int(each) for each in lengths]
    if isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-9:
        sizes = [floor(len(dataset) * each) for each in lengths]
        for position in range(len(dataset) - sum(sizes)):
            sizes[position % len(sizes)] += 1
    if sum(sizes) != len(dataset):
        raise ArgumentError(f"random_split: {list(lengths)} do not add up to {len(dataset)} samples")
    order = randperm(len(dataset), generator=generator, device=device_of(generator)).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
