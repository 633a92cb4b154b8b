"""What loaders, samplers and data sets refuse and warn of, and the batches behind one that was not made. Sentences are
PyTorch's."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
)

from .loading_samples import Counted, Numbers


class EverySecondFails(Numbers):
    """Samples of which every second raises."""

    def __getitem__(self, index: Any) -> Any:
        if index % 2:
            raise KeyError(f"no sample {index}")
        return super().__getitem__(index)


class EndsBadly(IterableDataset[int]):
    """Samples of which there is none: beginning raises."""

    def __iter__(self) -> Any:
        raise KeyError("nothing begins")


class CountsTo(IterableDataset[int]):
    """Numbers, of which it says that there are three, and a worker of each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return 3

    def __iter__(self) -> Any:
        return iter(range(self.count))


@pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("pinned", [False, True])
def test_batches_behind_one_that_raises_come_all_the_same(running: str, workers: int, pinned: bool) -> None:
    batches = iter(DataLoader(EverySecondFails(), batch_size=None, num_workers=workers, pin_memory=pinned))
    found: list[Any] = []
    while True:
        try:
            found.append(next(batches)["square"][0].item())
        except KeyError as error:
            found.append(type(error))
        except StopIteration:
            break
    assert found == [float(each * each) if each % 2 == 0 else KeyError for each in range(len(Numbers()))]
    assert list(batches) == []


@pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")
@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_do_not_begin_say_why(running: str, workers: int) -> None:
    with pytest.raises(KeyError, match="nothing begins"):
        list(DataLoader(EndsBadly(), num_workers=workers))


class Waits(IterableDataset[int]):
    """Numbers; those of the second worker wait until the program says so."""

    def __init__(self, told: Any) -> None:
        self.told = told

    def __iter__(self) -> Any:
        info = get_worker_info()
        assert info is not None
        if info.id == 1:
            assert self.told.wait(60)
        yield from range(info.id * 5, info.id * 5 + 5)


@pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")
def test_batches_may_come_as_they_are_made(running: str) -> None:
    told = multiprocessing.get_context("fork").Event()
    batches = iter(DataLoader(Waits(told), batch_size=None, num_workers=2, in_order=False))
    assert [next(batches) for _ in range(5)] == [0, 1, 2, 3, 4]
    told.set()
    assert list(batches) == [5, 6, 7, 8, 9]


def _says_what_a_worker_knows(number: int) -> None:
    info: Any = get_worker_info()
    for name in ("id", "other"):
        with pytest.raises(RuntimeError, match="Cannot assign attributes to WorkerInfo objects"):
            setattr(info, name, 3)
    assert repr(info).startswith(f"WorkerInfo(id={number}, num_workers=2, seed=")


@pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")
def test_what_a_worker_knows_of_itself_is_not_to_be_changed(running: str) -> None:
    loader = DataLoader(CountsTo(2), batch_size=None, num_workers=2, worker_init_fn=_says_what_a_worker_knows)
    assert sorted(map(int, loader)) == [0, 0, 1, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")
def test_a_worker_that_makes_no_batch_in_time_is_given_up(running: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = multiprocessing.get_context("fork")
    told = context.Event()
    ended: list[str] = []
    for name in ("terminate", "join"):
        work = getattr(context.Process, name)
        monkeypatch.setattr(
            context.Process, name, lambda self, *given, name=name, work=work: (ended.append(name), work(self, *given))
        )
    loader = DataLoader(Waits(told), batch_size=None, num_workers=2, timeout=1)
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 1 seconds: worker 1"):
        list(loader)
    assert ended == ["terminate", "join", "join"]  # nobody waits for it once more


def test_more_samples_than_the_length_says_are_warned_of() -> None:
    loader = DataLoader(CountsTo(4), batch_size=None)
    assert [each for each in loader] == [0, 1, 2, 3]  # noqa: C416 - list() asks how many there are
    assert len(loader) == 3
    with pytest.warns(UserWarning, match=r"was reported to be 3 .*, but 4 samples have been fetched\."):
        list(loader)


@pytest.mark.parametrize(
    ("given", "kind", "match"),
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative"),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching and is"),
        ({"multiprocessing_context": "spawn"}, ValueError, r"multi-process loading \(num_workers > 0\), but got"),
        ({"num_workers": 1, "multiprocessing_context": "bad"}, ValueError, "should specify a valid start method in"),
        (
            {"num_workers": 1, "multiprocessing_context": object()},
            TypeError,
            "multiprocessing_context option should be a valid context object",
        ),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "batch_sampler option is mutually exclusive with"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    given: dict[str, Any], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        DataLoader(Numbers(), **given)


@pytest.mark.parametrize("name", ["shuffle", "sampler", "batch_sampler"])
def test_samples_one_after_the_other_have_an_order_of_their_own(name: str) -> None:
    given: dict[str, Any] = {name: True}
    with pytest.raises(ValueError, match=f"DataLoader with IterableDataset: expected unspecified {name} option"):
        DataLoader(Counted(), **given)


def test_what_a_loader_is_made_of_stays() -> None:
    loader = DataLoader[Any](Numbers())
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.timeout = 3


def test_more_workers_than_processors_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="excessive worker creation might get DataLoader running slow or even freeze"):
        DataLoader(Numbers(), num_workers=10000)


@pytest.mark.parametrize("sampler", [SubsetRandomSampler(range(10)), WeightedRandomSampler([1.0] * 10, 10)])
def test_chance_is_asked_when_the_first_number_is(sampler: Any) -> None:
    cuplug.manual_seed(3)
    wanted = list(sampler)
    waiting = iter(sampler)
    cuplug.manual_seed(3)
    assert list(waiting) == wanted


@pytest.mark.parametrize(
    ("make", "kind", "match"),
    [
        (lambda: RandomSampler([1], replacement=0), TypeError, "replacement should be a boolean value, but got"),  # type: ignore[arg-type]
        (lambda: RandomSampler([1], num_samples=0), ValueError, "num_samples should be a positive integer value"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, "weights should be a 1d sequence but given"),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError, "num_samples should be a positive integer value"),
        (lambda: BatchSampler([1], 0, False), ValueError, "batch_size should be a positive integer value"),
        (lambda: DistributedSampler([1], 3, 3), ValueError, r"Invalid rank 3, rank should be in the interval \[0, 2\]"),
        (lambda: ConcatDataset([]), AssertionError, "datasets should not be an empty iterable"),
        (lambda: ConcatDataset([Counted()]), AssertionError, "ConcatDataset does not support IterableDataset"),
        (
            lambda: TensorDataset(cuplug.ones(2), cuplug.ones(3)),
            AssertionError,
            "Size mismatch between tensors",
        ),
    ],
)
def test_samplers_and_data_sets_say_what_they_need(make: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        make()


def test_parts_of_parts_are_taken_by_slices() -> None:
    data = TensorDataset(cuplug.arange(5))
    part = Subset(Subset(data, [4, 3, 2, 1, 0]), [0, 2, 4])
    assert part[:][0].tolist() == [4, 2, 0]
    assert part[1:][0].tolist() == [2, 0]


def test_sequences_that_cannot_be_made_anew_come_together_as_lists() -> None:
    found = default_collate([range(2), range(2)])
    assert [each.tolist() for each in found] == [[0, 0], [1, 1]]
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        default_collate([["a"], ["a", "b"]])


def test_arrays_of_text_stay_and_those_of_objects_are_refused() -> None:
    texts = np.array(["a", "b"])
    assert default_collate(texts) is texts
    for arrays in (np.array([["a", "b"]]), np.array([object()]), np.array([[object()]])):
        with pytest.raises(TypeError):
            default_collate(arrays)


def test_samples_one_after_the_other_are_joined() -> None:
    both = CountsTo(2) + CountsTo(3)
    assert isinstance(both, ChainDataset)
    assert list(DataLoader(both, batch_size=None)) == [0, 1, 0, 1, 2]
    assert len(both) == 6  # each says three
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(ChainDataset([CountsTo(1), Numbers()]))


def test_samples_side_by_side_are_tuples_or_mappings() -> None:
    letters = [*"abcdefghij"]
    pairs, named = StackDataset(letters, Numbers()), StackDataset(letter=letters, number=Numbers())
    assert (pairs[3][0], pairs[3][1]["number"]) == ("d", 3)
    assert (named[4]["letter"], named[4]["number"]["number"]) == ("e", 4)
    assert [each[0] for each in pairs.__getitems__([2, 0])] == ["c", "a"]
    assert [sorted(each) for each in named.__getitems__([1])] == [["letter", "number"]]
    batch = next(iter(DataLoader(named, batch_size=4)))
    assert (batch["letter"], batch["number"]["number"].tolist()) == (["a", "b", "c", "d"], [0, 1, 2, 3])
    assert len(pairs) == 10


class TooFew(Numbers):
    """Gives one sample, of however many it is asked for at once."""

    def __getitems__(self, indices: Any) -> Any:
        return [self[indices[0]]]


def test_samples_side_by_side_are_as_many() -> None:
    for given, named, match in (
        ((), {}, "At least one dataset should be passed"),
        (([1], [1, 2]), {}, "Size mismatch between datasets"),
        (([1],), {"other": [1]}, "Supported either .* not both"),
    ):
        with pytest.raises(ValueError, match=match):
            StackDataset(*given, **named)
    with pytest.raises(ValueError, match=r"Nested dataset's output size mismatch\. Expected 2, got 1"):
        StackDataset(TooFew()).__getitems__([1, 2])


def test_what_cannot_be_joined_is_refused_in_torchs_words() -> None:
    said = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class 'object'>"
    with pytest.raises(TypeError, match=said):
        default_collate([object(), object()])
