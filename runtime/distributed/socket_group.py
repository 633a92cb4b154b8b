"""Collectives over TCP, of tensors on the CPU and on any device: what the backend ``gloo`` means here.

What is reduced is divided among the ranks: each reduces its part, in the order of the ranks, and sends it to all. So
all ranks get the same bits, and about twice the tensor's bytes leave each rank, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..tensor.core.tensor import Tensor
from ..tensor.ops.arguments.numpy_arrays import from_numpy
from .collective_work import Work, Worker
from .connections import Connections
from .reduce_op import ReduceOp

_Array = npt.NDArray[Any]
_COMBINE: dict[ReduceOp, Any] = {
    ReduceOp.SUM: np.add,
    ReduceOp.AVG: np.add,
    ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum,
    ReduceOp.MAX: np.maximum,
}


class SocketGroup:
    """One rank's part of a group."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.rank, self.size = connections.rank, connections.size
        self._worker = Worker()

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors; all get the result in place."""
        return self._on_host("all_reduce", tensor, None, lambda array: self._all_reduce("all_reduce", array, op))

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors; the rank ``root`` gets the result in place."""
        return self._on_host("reduce", tensor, root, lambda array: self._all_reduce("reduce", array, op))

    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Give all ranks the tensor of the rank ``root``."""

        def run(array: _Array) -> None:
            part = _bytes(array)
            if self.rank == root:
                self.connections.exchange("broadcast", dict.fromkeys(self._others(), part), {})
            else:
                self.connections.exchange("broadcast", {}, {root: part})

        return self._on_host("broadcast", tensor, None, run)

    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        """Write all ranks' tensors to ``output``, one behind the other."""
        own = _host(tensor).reshape(-1)

        def run(array: _Array) -> None:
            parts = array.reshape(self.size, -1)
            parts[self.rank] = own
            incoming = {each: _bytes(parts[each]) for each in self._others()}
            self.connections.exchange("all_gather", dict.fromkeys(self._others(), _bytes(own)), incoming)

        return self._on_host("all_gather", output, None, run)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors, and write this rank's part of the result to ``output``."""
        given = _host(tensor).reshape(self.size, -1)

        def run(array: _Array) -> None:
            array.reshape(-1)[...] = self._reduced("reduce_scatter", list(given), op)

        return self._on_host("reduce_scatter", output, None, run)

    def barrier(self) -> Work:
        """Wait for all ranks."""
        work = Work()

        def run() -> None:
            incoming = {each: memoryview(bytearray(1)) for each in self._others()}
            self.connections.exchange("barrier", dict.fromkeys(self._others(), b"b"), incoming)

        return self._worker.begin(run, work)

    def close(self) -> None:
        """End what has begun, and leave the group."""
        self._worker.stop()
        self.connections.close()

    def _others(self) -> list[int]:
        return [each for each in range(self.size) if each != self.rank]

    def _on_host(self, name: str, tensor: Tensor, root: int | None, run: Callable[[_Array], None]) -> Work:
        """Have the thread run on a tensor's elements on the host; from a device they are copied, and back by ``wait``.
        With ``root``, only that rank takes the result."""
        self.connections.check(name)
        detached = tensor.detach()
        takes = root is None or root == self.rank
        if tensor.is_cpu and tensor.is_contiguous() and takes:
            detached._storage.version += 1
            array = detached.numpy()
            return self._worker.begin(lambda: run(array), Work())
        copied = np.array(_host(detached))

        def write() -> None:
            if takes:
                detached.copy_(from_numpy(copied))

        return self._worker.begin(lambda: run(copied), Work(write))

    def _all_reduce(self, name: str, array: _Array, op: ReduceOp) -> None:
        flat = array.reshape(-1)
        bounds = [len(flat) * each // self.size for each in range(self.size + 1)]
        parts = [flat[start:end] for start, end in pairwise(bounds)]
        own = parts[self.rank]
        own[...] = self._reduced(name, parts, op)
        incoming = {each: _bytes(parts[each]) for each in self._others()}
        self.connections.exchange(name, dict.fromkeys(self._others(), _bytes(own)), incoming)

    def _reduced(self, name: str, parts: list[_Array], op: ReduceOp) -> _Array:
        """This rank's part, reduced over all ranks."""
        mine = parts[self.rank]
        theirs = {each: np.empty_like(mine) for each in self._others()}
        outgoing = {each: _bytes(np.ascontiguousarray(parts[each])) for each in self._others()}
        self.connections.exchange(name, outgoing, {each: _bytes(array) for each, array in theirs.items()})
        # Half types are added up in float32, and rounded once. What NumPy does not know as floating is none of its own.
        wide = np.float32 if mine.dtype.itemsize == 2 and mine.dtype.kind in "fV" else mine.dtype
        total = None
        for each in range(self.size):
            part = (mine if each == self.rank else theirs[each]).astype(wide)
            total = part if total is None else _COMBINE[op](total, part)
        assert total is not None
        if op is ReduceOp.AVG:
            total = total / self.size if total.dtype.kind == "f" else total // self.size
        return total.astype(mine.dtype)


def _host(tensor: Tensor) -> _Array:
    return tensor.detach().cpu().contiguous().numpy()


def _bytes(array: _Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(bytearray())
