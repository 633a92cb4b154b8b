"""What every tensor has: a storage, a place in it and a layout. The methods' files build on this class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from .device_name import device
from .dtypes import dtype
from .layout import Layout, Shape, Size
from .storage import Storage

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["TensorCore", "make"]


class TensorCore:
    """The fields of a tensor, and what can be read off them. Nothing here touches the elements."""

    __slots__ = ("__weakref__", "_array", "_layout", "_offset", "_storage")

    is_tensor: ClassVar[bool] = True
    _storage: Storage
    _offset: int
    """Where element [0, ..., 0] lies in the storage, in elements."""
    _layout: Layout
    _array: npt.NDArray[Any] | None
    """On the CPU: the same elements as NumPy's array, once somebody asked for it."""

    @property
    def shape(self) -> Size:
        """The lengths of the dimensions."""
        return self._layout.shape

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self._layout.dtype

    @property
    def device(self) -> device:
        """Where the elements are."""
        return self._layout.place.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._layout.shape)

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a CUDA device."""
        return self._layout.place.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the elements are in host memory."""
        return self._layout.place.device.type == "cpu"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._layout.nbytes

    @property
    def requires_grad(self) -> bool:
        """False: there is no automatic differentiation here."""
        return False

    @property
    def data(self) -> Tensor:
        """The tensor as a view: there are no gradients to leave behind."""
        return make(self._storage, self._offset, self._layout)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension.

        Raises:
            IndexError: there is no such dimension.
        """
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or that of one dimension."""
        return self._layout.strides if dim is None else self._layout.strides[dim]

    def storage_offset(self) -> int:
        """Where the first element lies in the storage, in elements."""
        return self._offset

    def untyped_storage(self) -> Storage:
        """The memory that this tensor shares with its views."""
        return self._storage

    storage = untyped_storage

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self._layout.shape)

    def ndimension(self) -> int:
        """The number of dimensions."""
        return len(self._layout.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self._layout.numel

    def nelement(self) -> int:
        """The number of elements."""
        return self._layout.numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._layout.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element, 0 if there are no elements."""
        return self._address if self._layout.numel else 0

    def get_device(self) -> int:
        """The ordinal of the CUDA device, or -1 on the CPU."""
        number = self._layout.place.device.index
        return -1 if number is None else number

    def is_contiguous(self) -> bool:
        """Whether the elements lie side by side in row-major order."""
        return self._layout.contiguous

    def is_floating_point(self) -> bool:
        """Whether the element type is a floating-point one."""
        return self._layout.dtype.kind == "f"

    def is_complex(self) -> bool:
        """False: there are no complex types here."""
        return False

    def is_signed(self) -> bool:
        """Whether the element type has negative numbers."""
        return self._layout.dtype.is_signed

    def is_same_size(self, other: Tensor) -> bool:
        """Whether another tensor has the same shape."""
        return self._layout.shape == other._layout.shape

    def is_pinned(self) -> bool:
        """Whether the elements are in page-locked host memory."""
        return self._storage.pinned

    @property
    def _address(self) -> int:
        return self._storage.address + self._offset * self._layout.dtype.itemsize

    @property
    def _host(self) -> npt.NDArray[Any]:
        """The elements on the CPU as NumPy's array, shared."""
        array = self._array
        if array is None:
            layout = self._layout
            if not layout.numel:  # NumPy checks strides even where there is nothing to step over
                array = self._array = np.ndarray(layout.shape, layout.dtype.numpy, self._storage.bytes[:0])
                return self._array
            itemsize = layout.dtype.itemsize
            array = self._array = np.ndarray(
                layout.shape,
                layout.dtype.numpy,
                self._storage.bytes,
                self._offset * itemsize,
                tuple(stride * itemsize for stride in layout.strides),
            )
        return array

    def _view(self, shape: Shape, strides: Shape, offset: int | None = None) -> Tensor:
        """A tensor on the same storage."""
        layout = self._layout
        return make(
            self._storage,
            self._offset if offset is None else offset,
            Layout.of(layout.place, layout.dtype, shape, strides),
        )


_class: Any = TensorCore


def make(storage: Storage, offset: int, layout: Layout, array: npt.NDArray[Any] | None = None) -> Tensor:
    """A tensor from its parts."""
    tensor = _new(_class)
    tensor._storage = storage
    tensor._offset = offset
    tensor._layout = layout
    tensor._array = array
    return tensor  # type: ignore[no-any-return]


_new: Any = object.__new__


def use_class(tensor_class: type[TensorCore]) -> None:
    """Let ``make`` make objects of this class."""
    global _class
    _class = tensor_class
