"""``cuplug.multiprocessing``: Python's ``multiprocessing``, through which tensors of the CPU go without a copy.

A tensor that is sent to another process, as an argument or through a queue, is moved to memory that both see
(``share_memory_``): an anonymous file, whose descriptor is what is sent. What one process writes the other reads.
Tensors of devices are refused: CUDA's memory belongs to the process that allocated it.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403
from multiprocessing import reduction
from typing import Any

from ...allocators.errors import CuplugError
from ..nn.parameter import Parameter
from ..tensor.core.layout import Layout
from ..tensor.core.tensor import Tensor, make_tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.exchange.process_sharing import SharedStorage, map_shared, share_memory_

__all__ = [
    *multiprocessing.__all__,
    "ProcessExitedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def _reduced(tensor: Tensor) -> tuple[Any, ...]:
    if tensor.device.type != "cpu":
        raise CuplugError(
            f"a tensor of {tensor.device} cannot be sent to another process: its memory belongs to this one; send "
            "tensor.cpu(), and .cuda() there"
        )
    storage = share_memory_(tensor)._storage
    assert isinstance(storage, SharedStorage)
    layout = tensor._layout
    where = (tensor._offset, layout.dtype, tuple(layout.shape), tuple(layout.strides))
    sent = reduction.DupFd(storage.mapped.descriptor)
    return _rebuilt, (type(tensor), tensor.requires_grad, sent, storage.length, *where)


def _rebuilt(
    kind: type, requires_grad: bool, sent: Any, nbytes: int, offset: int, dtype: Any, shape: Any, strides: Any
) -> Tensor:
    storage = map_shared(sent.detach(), nbytes)
    made = make_tensor(storage, offset, Layout.of(storage.place, dtype, shape, strides))
    return kind(made, requires_grad) if issubclass(kind, Parameter) else made.requires_grad_(requires_grad)


for _kind in (Tensor, Parameter):
    reduction.ForkingPickler.register(_kind, _reduced)


class ProcessExitedException(CuplugError):  # noqa: N818 - torch's name
    """A process that ``spawn`` started ended with an error."""


class SpawnContext:
    """Processes that were started together."""

    def __init__(self, processes: Sequence[Any]) -> None:
        self.processes = list(processes)

    def pids(self) -> list[int | None]:
        """The processes' numbers."""
        return [each.pid for each in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all have ended, or for ``timeout`` seconds. Whether all have.

        Raises:
            ProcessExitedException: one ended with an error; the others are ended.
        """
        from multiprocessing.connection import wait

        waiting = {each.sentinel: each for each in self.processes if each.exitcode is None}
        while waiting:
            ended = wait(list(waiting), timeout)
            if not ended:
                return False
            for sentinel in ended:
                waiting.pop(sentinel).join()
            if any(each.exitcode for each in self.processes):
                break
        failed = [number for number, each in enumerate(self.processes) if each.exitcode]
        if failed:
            for each in waiting.values():
                each.terminate()
                each.join()
            number = failed[0]
            raise ProcessExitedException(
                f"process {number} terminated with exit code {self.processes[number].exitcode}; its error stands above"
            )
        return True


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """Start processes that call ``fn(number, *args)``.

    Args:
        fn: a function that can be imported.
        args: what it takes after its process's number.
        nprocs: how many processes.
        join: whether to wait for all.
        daemon: whether they end with the program.
        start_method: ``spawn``, ``fork`` or ``forkserver``.

    Returns:
        None if they were waited for, else their context.

    Raises:
        ProcessExitedException: one ended with an error; the others are ended.
        ValueError: there is no such method to start them.
    """
    context: Any = multiprocessing.get_context(start_method)
    started = []
    for number in range(nprocs):
        process = context.Process(target=fn, args=(number, *args), daemon=daemon)
        process.start()
        started.append(process)
    made = SpawnContext(started)
    if not join:
        return made
    made.join()
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> SpawnContext | None:
    """``start_processes``, by ``spawn``.

    Raises:
        ProcessExitedException: one ended with an error; the others are ended.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors are shared: ``file_descriptor``."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """The way in which tensors are shared."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how tensors are shared.

    Raises:
        ValueError: there is no such way here.
    """
    if new_strategy not in get_all_sharing_strategies():
        raise ArgumentError(f"tensors are shared by 'file_descriptor' here, not {new_strategy!r}")
