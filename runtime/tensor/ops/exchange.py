"""Tensors and other libraries' arrays in the same memory: NumPy, the CUDA Array Interface, DLPack; and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..core.dtypes import from_numpy as dtype_from_numpy
from ..core.layout import Layout
from ..core.storage import Storage
from ..core.tensor import TensorCore, make

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["ExchangeMethods", "from_dlpack", "from_interface", "from_numpy"]


class ExchangeMethods(TensorCore):
    """The methods of a tensor by which other libraries see its memory."""

    __slots__ = ()

    def numpy(self, *, force: bool = False) -> npt.NDArray[Any]:
        """The elements as NumPy's array, in the same memory.

        Args:
            force: copy to the CPU first, where the tensor is on a device.

        Raises:
            TypeError: the tensor is on a device, and not ``force``.
        """
        if self.is_cpu:
            shown: npt.NDArray[Any] = self._host.view()
            return shown
        if force:
            return self.cpu().numpy()  # type: ignore[attr-defined, no-any-return]
        raise TypeError(f"NumPy cannot use memory of {self.device}; copy it with .cpu() first")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"elements of {self.dtype!r} become {dtype} only by a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What NumPy's functions give for tensors are tensors, as in torch."""
        return from_numpy(np.asarray(array))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory by version 3 of the CUDA Array Interface. What it names is ordered after the current stream."""
        place = self._layout.place
        if not self.is_cuda:
            raise AttributeError(f"the tensor is on {self.device}: only CUDA tensors have __cuda_array_interface__")
        layout = self._layout
        if layout.dtype.name == "bfloat16":
            raise AttributeError("the CUDA Array Interface has no bfloat16; exchange it by DLPack")
        strides = None if layout.contiguous else tuple(stride * self.itemsize for stride in layout.strides)
        return {
            "version": 3,
            "shape": tuple(layout.shape),
            "typestr": layout.dtype.numpy.str,
            "data": (self.data_ptr(), False),
            "strides": strides,
            "stream": place.stream_handle() or 1,  # type: ignore[attr-defined]  # 0 is forbidden; 1 is the legacy one
        }

    def __dlpack__(
        self, *, stream: Any = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None, **_: Any
    ) -> Any:
        """The memory as a DLPack capsule. What is queued on ``stream`` later comes after what makes the elements.

        Args:
            stream: the consumer's stream as the array API standard says: a handle, 1 or None for the legacy stream, 2
                for the per-thread one, -1 for no order.
            dl_device: DLPack's type and number of the device where the consumer wants the elements: here or on the CPU.
            copy: whether a copy must be made, or must not be.

        Raises:
            BufferError: it would take a copy that must not be made, or to another device.
        """
        from .dlpack import device_of, export

        shown: Any = self.clone() if copy else self  # type: ignore[attr-defined]
        wanted = None if dl_device is None else tuple(map(int, dl_device))
        if wanted not in (None, device_of(shown)) and not (self.is_cpu and wanted == (1, 0)):
            if copy is False or wanted != (1, 0):
                raise BufferError(f"the tensor is on {self.device}; to use it elsewhere takes a copy, .to(...)")
            return export(shown.cpu())
        if self.is_cuda and stream != -1:
            place = self._layout.place
            place.hand_over(shown, 0 if stream in (None, 0, 1) else stream)  # type: ignore[attr-defined]
        return export(shown)

    def __dlpack_device__(self) -> tuple[int, int]:
        from .dlpack import device_of

        return device_of(self)  # type: ignore[arg-type]

    def record_stream(self, stream: Any) -> None:
        """Say that ``stream`` uses the memory too: once given up, it is not used again before the work that is queued
        on ``stream`` at that time is done. Needed for each stream but the one that the tensor was made on.

        Raises:
            TypeError: the tensor is on the CPU.
        """
        if not self.is_cuda:
            raise TypeError("record_stream() is for CUDA tensors; this one is on the CPU")
        if self._storage.nbytes:
            self._storage.owner.record_stream(stream)


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """NumPy's array as a CPU tensor in the same memory.

    Raises:
        TypeError: it is no array, or of a type that tensors do not have.
        ValueError: its strides are no multiples of an element.
    """
    from ..backends.host_place import HOST

    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy() takes NumPy's arrays, not {type(array).__name__}")
    kind = dtype_from_numpy(array.dtype)
    itemsize = kind.itemsize
    if any(stride % itemsize for stride in array.strides):
        raise ValueError(
            f"the array's strides {array.strides} are no multiples of an element of {itemsize} bytes; copy it"
        )
    layout = Layout.of(HOST, kind, array.shape, tuple(stride // itemsize for stride in array.strides))
    storage = Storage.of_array(HOST, array)
    return make(storage, -layout.span()[0], layout, array if type(array) is np.ndarray else None)


def from_dlpack(source: Any) -> Tensor:
    """The memory of another library's array as a tensor, by DLPack.

    Args:
        source: an object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule, whose contents then must be
            ready.

    Raises:
        TypeError: the elements or the device are of a kind that tensors do not have.
    """
    from .dlpack import import_

    return import_(source)


def from_interface(source: Any) -> Tensor:
    """The memory of another library's array on a device as a tensor, by the CUDA Array Interface. It comes after the
    work on the stream that the array names.

    Raises:
        TypeError: the elements are of a kind that tensors do not have, or masked.
        CuplugError: there is no such device.
    """
    from ...foreign import device_of
    from ..places.registry import place_of

    interface = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError("tensors have no masks; take the array apart first")
    kind = dtype_from_numpy(interface["typestr"])
    shape, given = tuple(interface["shape"]), interface.get("strides")
    if given is not None and any(stride % kind.itemsize for stride in given):
        raise ValueError(
            f"the array's strides {given} are no multiples of an element of {kind.itemsize} bytes; copy it"
        )
    strides = None if given is None else tuple(stride // kind.itemsize for stride in given)
    ordinal = device_of(source)
    place = place_of("cuda" if ordinal is None else ordinal)
    stream = interface.get("stream")
    if stream is not None:
        place.take_over(stream)  # type: ignore[attr-defined]
    return foreign(place, interface["data"][0], kind, shape, strides, source)


def foreign(place: Any, address: int, kind: Any, shape: Any, strides: Any, owner: Any) -> Tensor:
    """A tensor in memory on a device that ``owner`` keeps."""
    layout = Layout.of(place, kind, shape, strides)
    low, high = layout.span()
    storage = Storage(place, (high - low) * kind.itemsize, owner, address + low * kind.itemsize)
    return make(storage, -low, layout)
