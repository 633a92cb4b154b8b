"""``Tensor``: an array of elements of one type on one device, as fields and what can be read off them.

Nothing here touches the elements: what can be done with them are functions, in ``ops``, and ``methods.py`` gives them
to this class as methods. Static checks see the class with all its methods in ``tensor.pyi``, which is generated.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...kernels.launch.quick_calls import quick_maker
from ...machine.device_name import device
from .absent import ABSENT_OF_TENSORS
from .dtypes import dtype
from .gradient_seam import engine
from .layout import Layout
from .memory_formats import contiguous_format, is_in_format, strided
from .needed_tensors import no_tensor
from .shapes import Shape, Size
from .storage import Storage

__all__ = ["Tensor", "address_of", "make_tensor", "view_of"]


def address_of(tensor: str, itemsize: str | None = None) -> str:
    """Python code for the address of a tensor's element [0, ..., 0]. It stands here once, also for generated code.

    Args:
        tensor: code for the tensor.
        itemsize: code for the bytes of one element, where that is at hand.
    """
    return f"{tensor}._storage.address + {tensor}._offset * {itemsize or f'{tensor}._layout.dtype.itemsize'}"


class Tensor:
    """An array of elements of one type on one device, with torch's methods.

    ``Tensor(2, 3)`` and ``Tensor([1, 2])`` make tensors of the default type as old programs do; newer ones call
    ``empty`` and ``tensor``. What ends in ``_``, as ``exp_``, writes its result to the tensor itself: it raises as the
    method without it does, and where the result does not fit.
    """

    __slots__ = ("__weakref__", "_array", "_gradient", "_layout", "_offset", "_storage")
    __array_priority__: ClassVar[int] = 1000  # NumPy's arrays and numbers leave operators to us
    __hash__ = object.__hash__

    is_tensor: ClassVar[bool] = True
    is_sparse: ClassVar[bool] = False
    is_quantized: ClassVar[bool] = False
    is_meta: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False
    is_mkldnn: ClassVar[bool] = False
    is_mps: ClassVar[bool] = False
    is_xpu: ClassVar[bool] = False
    _storage: Storage
    _offset: int
    """Where element [0, ..., 0] lies in the storage, in elements."""
    _layout: Layout
    _array: npt.NDArray[Any] | None
    """On the CPU and on the simulator: the same elements as NumPy's array, once somebody asked for it."""

    _gradient: Any
    """What automatic differentiation keeps of this tensor, if there is something."""

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - ABSENT_OF_TENSORS.keys())

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
        """The size of one element in bytes."""
        return self._layout.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self._layout.nbytes

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this tensor. It may be set for a leaf.

        Raises:
            ValueError: it is set, and the elements are not floating-point numbers, or the tensor is no leaf.
        """
        return self._layout.tracked

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        engine().require(self, wanted)

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was made by the program, and not by a recorded operation."""
        return not self._layout.tracked or engine().function(self) is None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` accumulated, or None.

        Raises:
            ValueError: what is set is of another shape, element type or device.
        """
        return None if self._gradient is None else engine().gradient(self)

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if gradient is not None or self._gradient is not None:
            engine().set_gradient(self, gradient)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def grad_fn(self) -> Any:
        """The node of the graph that made this tensor; None of a leaf."""
        return engine().function(self) if self._layout.tracked else None

    @property
    def retains_grad(self) -> bool:
        """Whether this tensor, which is no leaf, keeps its gradient."""
        return self._layout.tracked and engine().keeps(self)

    @property
    def output_nr(self) -> int:
        """Which result of ``grad_fn`` this is."""
        return 0 if self._gradient is None else self._gradient.number  # type: ignore[no-any-return]

    @property
    def _version(self) -> int:
        """How often the memory was written to in place."""
        return self._storage.version

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Let gradients be computed for this tensor, or no longer. Returns the tensor.

        Raises:
            ValueError: the elements are not floating-point numbers, or the tensor is no leaf.
        """
        engine().require(self, requires_grad)
        return self

    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute the gradients of this tensor with respect to all leaves, and add them to their ``grad``.

        Args:
            gradient: of what is minimised with respect to this tensor; may be left out for one element.
            retain_graph: whether the graph stays for another time; by default as ``create_graph``.
            create_graph: whether gradients can be differentiated themselves.
            inputs: compute those of these tensors only.

        Raises:
            CuplugError: the tensor requires no gradient, ``gradient`` does not fit or is needed, the graph was used and
                let go before, or a tensor that is needed was written to in place since.
        """
        keep = create_graph if retain_graph is None else retain_graph
        wanted = [inputs] if isinstance(inputs, Tensor) else inputs
        engine().backward([self], [gradient], keep, create_graph, wanted)

    def retain_grad(self) -> None:
        """Let this tensor, which is no leaf, keep its gradient, too.

        Raises:
            ValueError: it requires no gradients.
        """
        engine().keep(self)

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(gradient)`` when this tensor's gradient is computed; it may return another in its place.

        Returns:
            A handle, with ``remove()``.

        Raises:
            ValueError: the tensor requires no gradients.
        """
        return engine().hook(self, hook, after=False)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call ``hook(tensor)`` when a gradient was added to ``grad`` of this leaf.

        Returns:
            A handle, with ``remove()``.

        Raises:
            ValueError: the tensor requires no gradients, or is no leaf.
        """
        return engine().hook(self, hook, after=True)

    def detach_(self) -> Tensor:
        """Take this tensor out of the graph that made it. Returns the tensor.

        Raises:
            ValueError: it is a view.
        """
        if self._layout.tracked:
            engine().forget(self)
        return self

    @property
    def data(self) -> Tensor:
        """The tensor as a view that requires no gradients. What is set takes the place of the elements, whatever was
        recorded.

        Raises:
            TypeError: what is set is no tensor.
        """
        return make_tensor(self._storage, self._offset, self._layout.plain)

    @data.setter
    def data(self, other: Tensor) -> None:
        if not isinstance(other, Tensor):
            raise TypeError(f"data is a tensor, not {type(other).__name__}")
        layout = other._layout.plain
        self._storage, self._offset, self._array = other._storage, other._offset, other._array
        self._layout = layout.twin if self._layout.tracked else layout

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of dimension ``dim``.

        Raises:
            IndexError: there is no such dimension.
        """
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """The strides in elements, or that of dimension ``dim``.

        Raises:
            IndexError: there is no such dimension.
        """
        return self._layout.strides if dim is None else self._layout.strides[dim]

    def storage_offset(self) -> int:
        """Where the first element lies in the storage, in elements."""
        return self._offset

    def untyped_storage(self) -> Storage:
        """The memory that this tensor shares with its views."""
        return self._storage

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
        """The size of one element in bytes."""
        return self._layout.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 if there are no elements."""
        return self._address if self._layout.numel else 0

    def get_device(self) -> int:
        """The ordinal of the CUDA device, or -1 on the CPU."""
        number = self._layout.place.device.index
        return -1 if number is None else number

    @property
    def layout(self) -> Any:
        """How the elements are kept: ``strided``."""
        return strided

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie side by side, in row-major order or the one that ``memory_format`` names."""
        if memory_format is None or memory_format is contiguous_format:
            return self._layout.contiguous
        return is_in_format(memory_format, self._layout.shape, self._layout.strides)

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
        """Whether ``other`` has the same shape.

        Raises:
            TypeError: it is no tensor.
        """
        try:
            return self._layout.shape == other._layout.shape
        except AttributeError:
            raise no_tensor(other) from None

    def is_pinned(self) -> bool:
        """Whether the elements are in page-locked host memory."""
        return self._storage.pinned

    _address: int = property(eval(f"lambda tensor: {address_of('tensor')}"))  # type: ignore[assignment]
    """The address of element [0, ..., 0]."""

    @property
    def _host(self) -> npt.NDArray[Any]:
        """The elements on the CPU as NumPy's array, shared."""
        array = self._array
        if array is None:
            layout = self._layout
            if not layout.numel:  # NumPy checks strides even where there is nothing to step over
                array = self._array = np.ndarray(layout.shape, layout.dtype.numpy, self._storage.bytes[:0])
                return self._array
            kind, memory = layout.dtype, self._storage._bytes
            if memory is None:
                memory = self._storage.bytes
            array = self._array = _array_over(
                layout.lengths, kind.numpy, memory, self._offset * kind.itemsize, layout.byte_strides
            )
        return array


@quick_maker(Tensor, ("_storage", "_offset", "_layout", "_array", "_gradient"), 4, None, None)
def make_tensor(storage: Storage, offset: int, layout: Layout, array: npt.NDArray[Any] | None = None) -> Tensor:
    """A tensor from its parts.

    Args:
        storage: the memory.
        offset: where element [0, ..., 0] lies in it, in elements.
        layout: how the elements lie from there on.
        array: on the CPU and on the simulator, the same elements as NumPy's array, if it is at hand.
    """
    tensor: Tensor = _new(Tensor)
    tensor._storage = storage
    tensor._offset = offset
    tensor._layout = layout
    tensor._array = array
    tensor._gradient = None
    return tensor


_new: Any = object.__new__
_array_over: Any = np.ndarray


def view_of(tensor: Tensor, shape: Shape, strides: Shape, offset: int | None = None) -> Tensor:
    """A tensor in the same storage, of another shape. Strides and offset are in elements; the offset stays if None."""
    layout = tensor._layout
    shown = Layout.of(layout.place, layout.dtype, shape, strides)
    made = make_tensor(tensor._storage, tensor._offset if offset is None else offset, shown)
    return engine().view(tensor, made) if layout.tracked else made
