"""Data sets, samplers and loaders, with workers and without."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import cuplug
import pytest
from cuplug.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

from .loading_samples import Counted, Failing, Killed, Numbers


@pytest.fixture(autouse=True)
def _workers_find_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spawned processes import this folder's modules by the names that they have here."""
    for each in (Numbers, Failing, Killed, Counted):
        monkeypatch.setattr(each, "__module__", "loading_samples")
    monkeypatch.setitem(sys.modules, "loading_samples", sys.modules[Numbers.__getitem__.__globals__["__name__"]])
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def _nothing_is_left() -> Any:
    """No process runs afterwards, and no shared memory is there."""
    before = set(Path("/dev/shm").glob("psm_*")) if Path("/dev/shm").exists() else set()
    yield
    assert not multiprocessing.active_children()
    if Path("/dev/shm").exists():
        assert set(Path("/dev/shm").glob("psm_*")) <= before


def test_batches_keep_the_form_of_samples(running: str) -> None:
    batches = list(DataLoader(Numbers(), batch_size=4))
    assert [each["number"].tolist() for each in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2]["square"].tolist() == [[64.0] * 3, [81.0] * 3]
    assert batches[0]["array"].dtype is cuplug.int32
    assert len(DataLoader(Numbers(), batch_size=4, drop_last=True)) == 2


@pytest.mark.usefixtures("_nothing_is_left")
def test_workers_give_the_same_batches_in_order(running: str) -> None:
    loader = DataLoader(Numbers(), batch_size=3, num_workers=2, persistent_workers=True)
    for _ in range(2):
        batches = list(loader)
        assert [each["number"].tolist() for each in batches] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
        assert [each["worker"].tolist()[0] for each in batches] == [0, 1, 0, 1]
        assert batches[1]["square"].tolist() == [[9.0] * 3, [16.0] * 3, [25.0] * 3]
    del loader


@pytest.mark.usefixtures("_nothing_is_left")
def test_an_exception_in_a_worker_comes_with_its_traceback(running: str) -> None:
    loader = DataLoader(Failing(), batch_size=2, num_workers=2)
    with pytest.raises(
        KeyError, match=r"(?s)Caught KeyError in DataLoader worker process 1\..*loading_samples.py.*no sample seven"
    ):
        list(loader)


def test_a_wrapped_exception_is_raised_again_with_the_lines_of_its_traceback() -> None:
    class WantsTwo(Exception):
        def __init__(self, first: int, second: int) -> None:
            super().__init__(first, second)

    for error, kind in {KeyError("7"): KeyError, ValueError("7"): ValueError, WantsTwo(7, 7): RuntimeError}.items():
        try:
            raise error  # noqa: TRY301
        except Exception:
            wrapped = cuplug._utils.ExceptionWrapper(where="in a thread")
        assert wrapped.exc_type is type(error)
        with pytest.raises(kind, match=r"(?s)^Caught \w+ in a thread\.\nOriginal Traceback.*\n.*raise error.*\n.*7"):
            wrapped.reraise()


@pytest.mark.usefixtures("_nothing_is_left")
def test_a_worker_that_is_killed_is_noticed(running: str) -> None:
    with pytest.raises(cuplug.CuplugError, match=r"worker 1 of a DataLoader.*exit code -9"):
        list(DataLoader(Killed(), batch_size=2, num_workers=2))


def running_of(group: int) -> list[str]:
    """The commands of processes of a group that run, those aside that ended and were not waited for."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
            command = entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # One that is ending has given its memory back, and its command line with it, before it is a zombie.
            if int(its_group) == group and state not in "ZX" and command:
                found.append(command)
        except OSError:  # it has just ended
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.usefixtures("_nothing_is_left")
def test_ctrl_c_ends_program_and_workers(running: str) -> None:
    program = Path(__file__).with_name("interrupted_loader.py")
    # The pipe ends when the last process that has it does: workers have it, too.
    started = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "loading\n"
        assert len(running_of(started.pid)) >= 3
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, said = started.communicate(timeout=300)
        assert started.returncode == -signal.SIGINT
        # It is the last that is said: nothing was left to Python's resource tracker, which would say so.
        assert said.splitlines()[-1] == "KeyboardInterrupt"
        assert not running_of(started.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)  # it would load for ever where something was found wrong


@pytest.mark.usefixtures("_nothing_is_left")
def test_who_stops_early_leaves_nothing(running: str) -> None:
    batches = iter(DataLoader(Numbers(), batch_size=1, num_workers=1, prefetch_factor=3))
    next(batches)
    batches.close()


@pytest.mark.usefixtures("_nothing_is_left")
def test_samples_one_after_the_other_are_divided_among_workers(running: str) -> None:
    assert [each.tolist() for each in DataLoader(Counted(), batch_size=4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    found = [each.tolist() for each in DataLoader(Counted(), batch_size=2, num_workers=2)]
    assert sorted(number for batch in found for number in batch) == list(range(9))
    assert found[:2] == [[0, 2], [1, 3]]


@pytest.mark.usefixtures("_nothing_is_left")
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_pinned(running: str, workers: int) -> None:
    batches = list(DataLoader(Numbers(), batch_size=5, num_workers=workers, pin_memory=True))
    assert all(each["square"].is_pinned() for each in batches)
    assert batches[1]["square"].cuda(non_blocking=True).cpu().tolist()[0] == [25.0] * 3


@pytest.mark.usefixtures("_nothing_is_left")
@pytest.mark.parametrize("workers", [0, 1])
def test_an_exception_comes_through_the_pinning_of_batches(running: str, workers: int) -> None:
    with pytest.raises(KeyError, match="no sample seven"):
        list(DataLoader(Failing(), batch_size=5, num_workers=workers, pin_memory=True))


def test_without_workers_the_asking_thread_makes_and_pins_batches(running: str) -> None:
    """A thread of its own would make a simulator's random schedule go another way at every run."""
    threads: set[int] = set()

    class Telling(Numbers):
        def __getitem__(self, index: Any) -> Any:
            threads.add(threading.get_ident())
            return super().__getitem__(index)

    assert len(list(DataLoader(Telling(), batch_size=5, pin_memory=True))) == 2
    assert threads == {threading.get_ident()}


def test_data_sets_are_joined_divided_and_drawn_from(running: str) -> None:
    x = cuplug.arange(6)
    data = TensorDataset(x, x * 2)
    assert [int(each) for each in data[2]] == [2, 4]
    both = ConcatDataset([data, Subset(data, [5, 0])])
    assert [int(both[position][0]) for position in (5, 6, 7, -1)] == [5, 5, 0, 0]
    parts = random_split(data, [0.5, 0.5], generator=cuplug.Generator().manual_seed(1))
    assert sorted(int(each[0]) for part in parts for each in (part[0], part[1], part[2])) == list(range(6))
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0], 8)) == {1}
    ranks = [list(DistributedSampler(data, 4, rank, shuffle=False)) for rank in range(4)]
    assert ranks == [[0, 4], [1, 5], [2, 0], [3, 1]]


def test_the_part_of_a_process_is_that_of_its_group() -> None:
    with pytest.raises(RuntimeError, match="no process group"):
        DistributedSampler(range(4))
    program = (
        "import cuplug\nfrom cuplug.utils.data import DistributedSampler\n"
        "store = cuplug.distributed.TCPStore('127.0.0.1', 0, 1, True)\n"
        "cuplug.distributed.init_process_group('gloo', store=store, rank=0, world_size=1)\n"
        "print(list(DistributedSampler(range(4), shuffle=False)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "[0, 1, 2, 3]\n", done.stderr


def test_more_numbers_are_drawn_than_fit_into_memory(running: str) -> None:
    numbers = iter(RandomSampler(range(5), replacement=True, num_samples=10**10))
    assert {next(numbers) for _ in range(200)} == set(range(5))
    assert len(list(RandomSampler(range(5), replacement=True, num_samples=70))) == 70


def test_a_data_set_that_gives_several_samples_at_once_is_asked_for_a_batch(running: str) -> None:
    asked = []

    class Together(Numbers):
        def __getitems__(self, indices: Any) -> Any:
            asked.append(indices)
            return [self[each] for each in indices]

    assert [each["number"].tolist() for each in DataLoader(Together(), batch_size=6)] == [[*range(6)], [*range(6, 10)]]
    half = Subset(Together(), [8, 6, 4])
    assert [each["number"].tolist() for each in DataLoader(half, batch_size=2)] == [[8, 6], [4]]
    assert asked == [[*range(6)], [*range(6, 10)], [8, 6], [4]]


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_of_tensors_are_the_samples_put_together(running: str, workers: int) -> None:
    data = TensorDataset(cuplug.arange(12.0).reshape(6, 2).t().contiguous().t(), cuplug.arange(6).to(cuplug.bfloat16))
    part = Subset(data, [0, -1, 2, 4, 5])
    batches = [4, 0, 1, 2], [cuplug.tensor(3), True, 2]
    for chosen, made in zip(batches, DataLoader(part, batch_sampler=batches, num_workers=workers), strict=True):
        expected = default_collate([part[each] for each in chosen])
        assert [(each.dtype, each.tolist()) for each in made] == [(each.dtype, each.tolist()) for each in expected]
    made[0].zero_()  # a batch has memory of its own
    assert data.tensors[0].tolist() == [[2.0 * row, 2.0 * row + 1] for row in range(6)]
    with pytest.raises(IndexError):
        list(DataLoader(data, batch_sampler=[[6]]))


def test_who_puts_samples_together_himself_is_given_a_list(running: str) -> None:
    loader = DataLoader(TensorDataset(cuplug.arange(3)), batch_size=2, collate_fn=lambda samples: samples)
    assert [type(each) for each in loader] == [list, list]
    assert [type(each) for batch in loader for each in batch] == [tuple] * 3


def test_samples_that_are_more_than_rows_are_made_one_by_one(running: str) -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return tuple(each * 2 for each in super().__getitem__(index))

    assert next(iter(DataLoader(Doubled(cuplug.arange(4)), batch_size=3)))[0].tolist() == [0, 2, 4]
    learnt = cuplug.ones(3, 2, requires_grad=True)
    next(iter(DataLoader(TensorDataset(learnt), batch_size=2)))[0].sum().backward()
    assert learnt.grad.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    on_device = TensorDataset(cuplug.arange(4).cuda())
    assert next(iter(DataLoader(on_device, batch_size=2)))[0].device.type == "cuda"


def test_who_divides_samples_himself_asks_for_several_numbers_at_once(running: str) -> None:
    data = TensorDataset(cuplug.arange(5) * 10)
    lists = DataLoader(data, batch_size=None, sampler=BatchSampler(range(5), 2, False))
    assert [each[0].tolist() for each in lists] == [[0, 10], [20, 30], [40]]
    by_tuples = DataLoader(data, batch_sampler=[(0, 3), (1,)])
    assert [each[0].tolist() for each in by_tuples] == [[0, 30], [10]]


def test_a_seed_gives_the_order_again(running: str) -> None:
    def order() -> list[Any]:
        generator = cuplug.Generator().manual_seed(3)
        return [each["number"].tolist() for each in DataLoader(Numbers(), 4, shuffle=True, generator=generator)]

    assert order() == order()
    assert sorted(number for batch in order() for number in batch) == list(range(10))


def test_a_script_without_a_guard_loads_by_workers_and_takes_lambdas(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import cuplug as torch\n"
        "from cuplug.utils.data import DataLoader, Dataset\n"
        "class Squares(Dataset):\n"
        "    def __init__(self, change): self.change = change\n"
        "    def __len__(self): return 6\n"
        "    def __getitem__(self, i): return self.change(i)\n"
        "data = Squares(lambda i: torch.full((3000,), float(i * i)))\n"
        "loader = DataLoader(data, 3, num_workers=2, collate_fn=lambda batch: torch.stack(batch))\n"
        "print([batch[:, 0].tolist() for batch in loader], [batch.shape[1] for batch in loader])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("[[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]] [3000, 3000]\n", "")


class _Named(dict[str, Any]):
    """A batch with a type of its own."""


class _Pinning:
    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def pin_memory(self) -> _Pinning:
        self.tensor = self.tensor.pin_memory()
        return self


@pytest.mark.parametrize("workers", [0, 1])
def test_pinned_batches_keep_their_types_and_may_pin_themselves(workers: int, running: str) -> None:
    data = [cuplug.ones(2)] * 2

    def first(collate: Any) -> Any:
        return next(iter(DataLoader(data, 2, num_workers=workers, pin_memory=True, collate_fn=collate)))

    named = first(lambda batch: _Named(x=batch[0]))
    assert type(named) is _Named
    assert named["x"].is_pinned()
    assert first(lambda batch: _Pinning(batch[0])).tensor.is_pinned()


@pytest.mark.usefixtures("_nothing_is_left")
def test_the_workers_of_a_loader_end_by_themselves_while_another_has_some(running: str) -> None:
    """A worker that does not see its pipe closed is waited for, and then killed."""
    first, second = (DataLoader(Numbers(), num_workers=1, persistent_workers=True) for _ in range(2))
    one = iter(first)
    batches = list(one)
    other = iter(second)
    next(other)
    workers = list(one._workers)  # type: ignore[attr-defined]
    del one, first
    assert [each.exitcode for each in workers] == [0]
    assert len(batches) == len(Numbers())
    del other, second


@pytest.mark.parametrize("given", [None, "cpu", "cuda"])
def test_orders_are_drawn_where_the_generator_is_whatever_the_default_device_is(
    given: str | None, running: str
) -> None:
    def drawn() -> list[list[int]]:
        def fresh() -> Any:
            return None if given is None else cuplug.Generator(given).manual_seed(3)

        cuplug.manual_seed(5)
        numbers = list(range(6))
        return [
            list(RandomSampler(numbers, generator=fresh())),
            list(RandomSampler(numbers, replacement=True, generator=fresh())),
            list(SubsetRandomSampler(numbers, generator=fresh())),
            [each for part in random_split(numbers, [4, 2], generator=fresh()) for each in part],
            list(DistributedSampler(numbers, 2, 0)),
            [int(each) for each in DataLoader(numbers, shuffle=True, generator=fresh())],
        ]

    before = drawn()
    cuplug.set_default_device("cuda")
    try:
        assert drawn() == before
    finally:
        cuplug.set_default_device(None)
