"""In which order samples come, as numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ....allocators.errors import CuplugError
from ...distributed import get_rank, get_world_size, is_initialized
from ...tensor.core.dtypes import int64
from ...tensor.core.generator import Generator
from ...tensor.core.tensor_errors import ArgumentError, ElementTypeError
from ...tensor.ops.making.creation import empty
from ...tensor.ops.making.from_values import as_tensor
from ...tensor.ops.random.random_choices import multinomial
from ...tensor.ops.random.random_numbers import randint, randperm

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


def fresh_seed(generator: Any = None) -> int:
    """A number from a generator, to seed others with."""
    return int(empty((), dtype=int64, device=device_of(generator)).random_(generator=generator).item())


def device_of(generator: Any) -> Any:
    """Where a generator makes numbers: the CPU for None, whatever the default device is."""
    return "cpu" if generator is None else generator.device


Number = TypeVar("Number", covariant=True)


class Sampler(Generic[Number]):
    """The order in which samples are loaded. A subclass's ``__iter__`` gives their numbers, or lists of numbers."""

    def __init__(self, data_source: Any = None) -> None:
        del data_source

    def __iter__(self) -> Iterator[Number]:
        """The numbers.

        Raises:
            NotImplementedError: a subclass has to say.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")


class SequentialSampler(Sampler[int]):
    """The numbers of all samples of ``data_source``, from 0 on."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


_AT_ONCE = 32
"""How many numbers are drawn at a time, as torch draws them."""


class RandomSampler(Sampler[int]):
    """Samples by chance: all once, or ``num_samples`` of them, also several times.

    Raises:
        TypeError: ``replacement`` is no bool.
        ValueError: there are no samples.
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._count = num_samples
        if not isinstance(replacement, bool):
            raise ElementTypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ArgumentError(
                f"num_samples should be a positive integer value, but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many numbers are drawn in an epoch."""
        return len(self.data_source) if self._count is None else self._count

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(fresh_seed())
        length = len(self.data_source)
        if self.replacement:
            for start in range(0, self.num_samples, _AT_ONCE):  # there may be more than fit into memory
                count = min(_AT_ONCE, self.num_samples - start)
                yield from randint(0, length, (count,), generator=generator, device=generator.device).tolist()
            return
        left = self.num_samples
        while left > 0:
            yield from randperm(length, generator=generator, device=generator.device).tolist()[:left]
            left -= length

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The numbers ``indices``, each once, in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        # Drawn when the first is asked for.
        for each in randperm(len(self.indices), generator=self.generator, device=device_of(self.generator)).tolist():
            yield self.indices[each]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random numbers of samples, with probabilities in proportion to ``weights``.

    Args:
        weights: one for each sample, not negative.
        num_samples: how many numbers are drawn.
        replacement: whether a number may be drawn again.
        generator: where random numbers come from; the CPU's default generator if None.

    Raises:
        ValueError: the weights have not one dimension, or another argument is of another kind.
    """

    def __init__(self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ArgumentError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ArgumentError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights).double()
        if self.weights.ndim != 1:
            raise ArgumentError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()  # drawn when the first is asked for

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` numbers that another sampler gives; a shorter last one unless ``drop_last``.

    Raises:
        ArgumentError: ``batch_size`` is less than 1, or ``drop_last`` no bool.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ArgumentError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for each in self.sampler:
            batch.append(each)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The part of the samples that is one process's of several: of the process group's, unless told otherwise.

    ``set_epoch`` gives another order.

    Raises:
        ArgumentError: ``rank`` is not from 0 to ``num_replicas`` - 1.
        CuplugError: one of them is not given, and there is no process group.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if (num_replicas is None or rank is None) and not is_initialized():
            raise CuplugError(
                "DistributedSampler: there is no process group; call distributed.init_process_group first, or say "
                "num_replicas and rank"
            )
        num_replicas = get_world_size() if num_replicas is None else num_replicas
        rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ArgumentError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        length = len(dataset)
        self.num_samples = length // num_replicas if drop_last else math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = randperm(len(order), generator=generator, device="cpu").tolist()
        while order and len(order) < self.total_size:
            order += order[: self.total_size - len(order)]
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins: shuffled orders depend on it. All processes must say the same."""
        self.epoch = epoch
