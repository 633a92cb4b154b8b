"""Collectives of tensors on CUDA devices, one process for each, by NVIDIA's NCCL."""

from __future__ import annotations

from ...allocators.errors import CuplugError
from ..streams.stream import Stream, current_stream
from ..tensor.backends.device_place import DevicePlace
from ..tensor.backends.libraries.nccl import Communicator, nccl
from ..tensor.core.tensor import Tensor
from ..tensor.places.place import place_at
from .collective_work import Done, Work
from .connections import Connections
from .reduce_op import ReduceOp
from .tcp_store import TCPStore


class NcclGroup:
    """One rank's part of a group. It has a stream of its own, which waits for the current one and is waited for by
    ``wait``; its communicator is made by the first collective, on the tensor's device."""

    def __init__(self, store: TCPStore, connections: Connections) -> None:
        self._store, self._connections = store, connections
        self.rank, self.size = connections.rank, connections.size
        self._communicator: Communicator | None = None
        self._stream: Stream | None = None

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors; all get the result in place."""
        own, stream = self._begin("all_reduce", tensor)
        at = tensor._address
        own.all_reduce(at, at, tensor.numel(), tensor.dtype, op.value, stream.cuda_stream)
        return self._begun(tensor)

    def reduce(self, tensor: Tensor, root: int, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors; the rank ``root`` gets the result in place."""
        own, stream = self._begin("reduce", tensor)
        at = tensor._address
        own.reduce(at, at, tensor.numel(), tensor.dtype, op.value, root, stream.cuda_stream)
        return self._begun(tensor)

    def broadcast(self, tensor: Tensor, root: int) -> Work:
        """Give all ranks the tensor of the rank ``root``."""
        own, stream = self._begin("broadcast", tensor)
        own.broadcast(tensor._address, tensor._address, tensor.numel(), tensor.dtype, root, stream.cuda_stream)
        return self._begun(tensor)

    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        """Write all ranks' tensors to ``output``, one behind the other."""
        own, stream = self._begin("all_gather", output, tensor)
        own.all_gather(tensor._address, output._address, tensor.numel(), tensor.dtype, stream.cuda_stream)
        return self._begun(output, tensor)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        """Reduce the ranks' tensors, and write this rank's part of the result to ``output``."""
        own, stream = self._begin("reduce_scatter", output, tensor)
        own.reduce_scatter(tensor._address, output._address, output.numel(), tensor.dtype, op.value, stream.cuda_stream)
        return self._begun(output, tensor)

    def close(self) -> None:
        """Leave the group."""
        communicator, self._communicator = self._communicator, None
        if communicator is not None:
            if self._stream is not None:
                self._stream.synchronize()
            communicator.close()

    def _begin(self, name: str, *tensors: Tensor) -> tuple[Communicator, Stream]:
        place = place_at(tensors[0]._layout)
        assert isinstance(place, DevicePlace)
        for each in tensors:
            if not each.is_contiguous():
                raise CuplugError(f"{name}: NCCL takes contiguous tensors: .contiguous() makes one")
            if each._layout.place is not place:
                raise CuplugError(f"{name}: tensors are on {place.device} and {each.device}")
        self._connections.check(name)
        if self._communicator is None:
            self._communicator = self._made(place)
            self._stream = Stream(place.device, runtime=place.runtime)
        elif self._communicator.place is not place:
            raise CuplugError(
                f"{name}: this rank's group is on {self._communicator.place.device}, and the tensor on {place.device}: "
                "a rank works on one device, which torch.cuda.set_device(LOCAL_RANK) makes the current one"
            )
        else:
            self._communicator.check()
        assert self._stream is not None
        self._stream.wait_stream(current_stream(place.device, runtime=place.runtime))
        return self._communicator, self._stream

    def _made(self, place: DevicePlace) -> Communicator:
        library = nccl()
        if library is None:
            raise CuplugError(
                "NCCL is not installed: pip install 'cuplug[nccl]', or init_process_group('gloo'), which is slower"
            )
        if self.rank == 0:
            self._store.set("nccl", library.unique_id())
        return library.rank(self.size, self._store.get("nccl"), self.rank, place)

    def _begun(self, *tensors: Tensor) -> Work:
        stream = self._stream
        assert stream is not None
        for each in tensors:
            if each.numel():
                each.detach().record_stream(stream)
        tensors[0]._storage.version += 1
        event = stream.record_event()
        return Done(lambda: current_stream(stream.device_index, runtime=stream._runtime).wait_event(event), event.query)
