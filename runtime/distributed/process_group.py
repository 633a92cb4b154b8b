"""The group of all processes, and what they compute together."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from ...allocators.errors import CuplugError
from ..tensor.backends.device_place import DevicePlace
from ..tensor.backends.libraries.nccl import nccl
from ..tensor.core.tensor import Tensor
from ..tensor.core.tensor_errors import ArgumentError
from ..tensor.ops.joining.joining import cat
from ..tensor.ops.making.creation import empty
from ..tensor.ops.shapes.reshape import reshape
from .collective_work import Done, Work
from .connections import Connections
from .nccl_group import NcclGroup
from .reduce_op import ReduceOp
from .socket_group import SocketGroup
from .tcp_store import TCPStore, seconds_of

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_backend",
    "get_default_backend_for_device",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_nccl_available",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
]

_BACKENDS = ("gloo", "nccl", "cpu:gloo,cuda:nccl")
_TIMEOUT = 1800.0
"""Seconds: torch's."""
_BETWEEN_ATTEMPTS = 0.05
"""Seconds after which a process looks again whether rank 0 has left the group before."""
_LEAST = 1.0
"""Seconds that each of its attempts has, so that a store that is there is reached on a busy machine too."""
_LAUNCHERS = {  # what mpirun and srun say, where nobody says it in torch's words
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
}


class _ProcessGroup:
    """All processes: over TCP, and on CUDA devices by NCCL."""

    def __init__(self, backend: str, store: TCPStore, rank: int, size: int, timeout: float) -> None:
        self.backend, self.rank, self.size = backend, rank, size
        self._store = store
        connections = Connections(store, rank, size, timeout)
        self.sockets = SocketGroup(connections)
        self._nccl = NcclGroup(store, connections) if "nccl" in backend else None

    def of(self, tensor: Tensor) -> SocketGroup | NcclGroup:
        """What serves a tensor. Simulated devices have no NCCL: there all goes over TCP."""
        place = tensor._layout.place
        if self._nccl is not None and isinstance(place, DevicePlace) and place.driver.simulator is None:
            return self._nccl
        if self.backend == "nccl" and tensor.is_cpu:
            raise CuplugError(
                "the backend nccl works on tensors on CUDA devices, and this one is on the CPU: .cuda(), or "
                "init_process_group() without a backend, which serves both"
            )
        return self.sockets

    def close(self) -> None:
        """Leave."""
        if self._nccl is not None:
            self._nccl.close()
        self.sockets.close()
        self._store.close()


_group: _ProcessGroup | None = None


def is_available() -> bool:
    """Always true."""
    return True


def is_gloo_available() -> bool:
    """Always true: ``gloo`` means collectives over TCP that are cuplug's own."""
    return True


def get_default_backend_for_device(device: Any) -> str:
    """``nccl`` for CUDA devices, ``gloo`` for the CPU.

    Args:
        device: a device, or its name.
    """
    return "gloo" if str(device).startswith("cpu") else "nccl"


def is_nccl_available() -> bool:
    """Whether NCCL is installed."""
    return nccl() is not None


def is_initialized() -> bool:
    """Whether this process is in a group."""
    return _group is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: TCPStore | None = None,
    group_name: str = "",  # noqa: ARG001 - torch's
    pg_options: Any = None,  # noqa: ARG001
    device_id: Any = None,  # noqa: ARG001 - the first collective says it
) -> None:
    """Meet the other processes. Waits until all have called this.

    Where an argument is left out, the environment says it: ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
    ``MASTER_PORT``, as ``torchrun`` sets them; for the first two also what ``mpirun`` and ``srun`` set.

    Args:
        backend: ``"nccl"`` for tensors on CUDA devices; ``"gloo"`` for tensors anywhere, over TCP; by default both.
        init_method: ``"env://"``, the default, or ``"tcp://host:port"`` of rank 0.
        timeout: how long to wait for ranks, here and in collectives over TCP: ``datetime.timedelta`` or seconds, by
            default half an hour.
        world_size: the number of processes.
        rank: of this process, from 0.
        store: one that all processes have, instead of ``init_method``.
        group_name: as torch's.
        pg_options: as torch's.
        device_id: as torch's; the first tensor says which device it is.

    Raises:
        ValueError: the backend is unknown, the address is missing, or ranks do not fit.
        CuplugError: this process is in a group, or the others do not come.
    """
    global _group
    if _group is not None:
        raise CuplugError("init_process_group: this process is in a group; destroy_process_group() first")
    name = (backend or "cpu:gloo,cuda:nccl").lower()
    if name not in _BACKENDS:
        raise ArgumentError(f"init_process_group: there is no backend {backend!r}; there are 'gloo' and 'nccl'")
    number = rank if rank >= 0 else _from_environment("RANK")
    count = world_size if world_size > 0 else _from_environment("WORLD_SIZE")
    if not 0 <= number < count:
        raise ArgumentError(f"init_process_group: rank {number} of {count} processes: ranks are 0 to {count - 1}")
    limit = seconds_of(timeout, _TIMEOUT)
    if store is None:
        store = store_of_ranks(*_address(init_method or "env://"), number, limit)
    try:
        _group = _ProcessGroup(name, store, number, count, limit)
        if store.add("met", 1) == count:
            store.set("all met", b"")
        store.get("all met")  # rank 0 serves nobody after it has left
    except BaseException:
        _group = None
        store.close()
        raise


def store_of_ranks(host: str, port: int, rank: int, limit: float) -> TCPStore:
    """The store by which ranks meet, which rank 0 keeps.

    Who has left a group may come back before rank 0 has left it, too. Then the store there is still that of the ranks
    which have met already, and the next one is waited for.

    Args:
        host: of rank 0.
        port: of the store.
        rank: of this process.
        limit: seconds to wait for rank 0.

    Raises:
        CuplugError: rank 0 does not begin, or does not leave its group, in time.
    """
    end = time.monotonic() + limit
    while True:
        left = max(end - time.monotonic(), _LEAST)
        store = TCPStore(host, port, is_master=rank == 0, timeout=left)
        store.timeout = limit
        try:
            met = store.add("met", 0)  # nobody counts before all have come
        except CuplugError:  # rank 0 has left at this moment
            met = 1
        except BaseException:
            store.close()
            raise
        if not met:
            return store
        store.close()
        if time.monotonic() + _BETWEEN_ATTEMPTS >= end:
            raise CuplugError(
                f"init_process_group: the ranks at {host}:{port} have met without this process, rank {rank}, and rank "
                f"0 has not left their group within {limit:g} s: all ranks have to call destroy_process_group() before "
                "they meet again; or there are more processes than WORLD_SIZE says"
            )
        threading.Event().wait(_BETWEEN_ATTEMPTS)


def _from_environment(name: str) -> int:
    for each in (name, *_LAUNCHERS[name]):
        if each in os.environ:
            return int(os.environ[each])
    raise ArgumentError(
        f"init_process_group: {name} is not set: start the program with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR "
        f"and MASTER_PORT for each process, or pass rank and world_size"
    )


def _address(method: str) -> tuple[str, int]:
    found = urlsplit(method)
    if found.scheme == "tcp" and found.hostname and found.port:
        return found.hostname, found.port
    if found.scheme != "env":
        raise ArgumentError(f"init_process_group: init_method {method!r}: it is 'env://' or 'tcp://host:port'")
    missing = [each for each in ("MASTER_ADDR", "MASTER_PORT") if each not in os.environ]
    if missing:
        raise ArgumentError(
            f"init_process_group: {' and '.join(missing)} not set: the address of the machine of rank 0, and a free "
            "port there, the same for all processes; torchrun sets them"
        )
    port = int(os.environ["MASTER_PORT"])
    # With torchrun its own agent listens on that port, in a language of PyTorch's.
    return os.environ["MASTER_ADDR"], port + (os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True")


def destroy_process_group(group: Any = None) -> None:
    """Leave the group. Outside of one it does nothing."""
    del group
    global _group
    left, _group = _group, None
    if left is not None:
        left.close()


def _here(name: str) -> _ProcessGroup:
    if _group is None:
        raise CuplugError(f"{name}: this process is in no group: call init_process_group() first")
    return _group


def get_rank(group: Any = None) -> int:
    """This process's number, from 0; -1 outside of a group."""
    del group
    return -1 if _group is None else _group.rank


def get_world_size(group: Any = None) -> int:
    """The number of processes; -1 outside of a group."""
    del group
    return -1 if _group is None else _group.size


def get_backend(group: Any = None) -> str:
    """The name of the backend.

    Raises:
        CuplugError: this process is in no group.
    """
    del group
    return _here("get_backend").backend


def _ended(work: Work, async_op: bool) -> Work | None:
    if async_op:
        return work
    work.wait()
    return None


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce the processes' tensors; all get the result in place.

    Args:
        tensor: of the same shape and type in all processes.
        op: how.
        group: as torch's: there is one group.
        async_op: whether to return at once, with something to ``wait`` for.

    Raises:
        CuplugError: this process is in no group, a process is gone or calls something else, or NCCL fails.
    """
    del group
    return _ended(_here("all_reduce").of(tensor).all_reduce(tensor, op), async_op)


def reduce(
    tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the processes' tensors; the process ``dst`` gets the result in place. See ``all_reduce``."""
    del group
    here = _here("reduce")
    return _ended(here.of(tensor).reduce(tensor, _rank_of(dst, here), op), async_op)


def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensor of the process ``src`` to all others' tensors, in place. See ``all_reduce``."""
    del group
    here = _here("broadcast")
    return _ended(here.of(tensor).broadcast(tensor, _rank_of(src, here)), async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write all processes' tensors to one, one behind the other. Other arguments and errors are those of
    ``all_reduce``.

    Args:
        output_tensor: contiguous, with as many elements as all processes' tensors.

    Raises:
        ValueError: the sizes do not fit.
    """
    del group
    here = _here("all_gather_into_tensor")
    _fits("all_gather_into_tensor", output_tensor, input_tensor, here.size)
    return _ended(here.of(input_tensor).all_gather(output_tensor, input_tensor), async_op)


def all_gather(tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Write all processes' tensors to a list of tensors, one for each. See ``all_gather_into_tensor``."""
    del group
    here = _here("all_gather")
    _count("all_gather", tensor_list, here)
    flat = empty((here.size, tensor.numel()), dtype=tensor.dtype, device=tensor.device)
    work = here.of(tensor).all_gather(flat, tensor.detach().contiguous())

    def write() -> None:
        work.wait()
        for target, part in zip(tensor_list, flat, strict=True):
            target.detach().copy_(reshape(part, target.shape))

    return _ended(Done(write, work.is_completed), async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,  # noqa: A002 - torch's name
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the processes' tensors; each process gets its part of the result. Other arguments and errors are those of
    ``all_reduce``.

    Args:
        output: contiguous; all processes' together have as many elements as ``input``.

    Raises:
        ValueError: the sizes do not fit.
    """
    del group
    here = _here("reduce_scatter_tensor")
    _fits("reduce_scatter_tensor", input, output, here.size)
    return _ended(here.of(input).reduce_scatter(output, input, op), async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the processes' lists of tensors; each process gets the result at its place. See
    ``reduce_scatter_tensor``."""
    del group
    here = _here("reduce_scatter")
    _count("reduce_scatter", input_list, here)
    given = cat([reshape(each.detach(), -1) for each in input_list])
    _fits("reduce_scatter", given, output, here.size)
    return _ended(here.of(output).reduce_scatter(output, given, op), async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes have called this. What is queued on devices is not waited for."""
    del group, device_ids
    return _ended(_here("barrier").sockets.barrier(), async_op)


def _rank_of(rank: int, here: _ProcessGroup) -> int:
    if not 0 <= rank < here.size:
        raise ArgumentError(f"there is no rank {rank}: ranks are 0 to {here.size - 1}")
    return rank


def _count(name: str, tensors: Sequence[Tensor], here: _ProcessGroup) -> None:
    if len(tensors) != here.size:
        raise ArgumentError(f"{name}: {len(tensors)} tensors for {here.size} processes")


def _fits(name: str, large: Tensor, small: Tensor, count: int) -> None:
    if large.numel() != small.numel() * count or large.dtype is not small.dtype:
        raise ArgumentError(
            f"{name}: tensors of {large.numel()} elements of {large.dtype!r} and {small.numel()} of {small.dtype!r}: "
            f"with {count} processes the one has to have {count} times the elements of the other"
        )
