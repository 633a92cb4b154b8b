"""The seam below tensors: a *place* holds memory and knows how each kind of work is done on it.

There are three kinds: the CPU, where NumPy does the work at once; a simulated device, where NumPy does the same work
as an operation of the current stream; a CUDA device, where compiled kernels and cuBLAS do it.

A place *prepares* work for given layouts and returns a ``Kernel``, which does it for tensors of these layouts as often
as wanted. Callers keep kernels (see ``Layout.plans``), so that preparing may take its time and running must not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from ..core.dtypes import dtype
from ..core.layout import Layout, Location
from ..core.shapes import Shape
from ..core.storage import Storage
from ..core.tensor import Tensor, make_tensor
from .dispatch import dispatch
from .optimizer_table import Update
from .tables_with_gradients.elementwise_table import COPY, Elementwise
from .tables_with_gradients.library_table import Attending, Convolving, RecurrentKernel, Recurring
from .tables_with_gradients.reduction_table import Reduction
from .tables_with_gradients.scan_and_sort_table import RowOperation

Kernel = Callable[..., None]
"""``kernel(*outs, *operands)``: outs are tensors; operands are tensors, or Python numbers where none was prepared.
One of ``elementwise`` may have an attribute ``new``: the function of the operands that makes the result, too; and an
attribute ``into``, which is called as it is, also counts that the out was written to, and returns the out."""


class Place(Location, ABC):
    """Where tensors live. One object for the CPU, one for each device of each runtime."""

    numpy_indices = False
    """Whether ``take`` and ``put`` understand indices as NumPy does, see there."""

    # --- memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Storage:
        """Take ``nbytes`` bytes for use on the current stream. The contents are undefined.

        Raises:
            OutOfMemoryError: there is not that much left.
        """

    @abstractmethod
    def empty(self, layout: Layout) -> Tensor:
        """A new tensor of this layout, uninitialised."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for the work queued on the current stream."""

    def stream(self) -> Any:
        """The current stream of this device; None on the CPU."""
        return None

    def reaches(self, other: Place) -> bool:  # noqa: ARG002 - devices answer
        """Whether work here may read memory of ``other``: between devices with peer access enabled."""
        return False

    def wait_for(self, other: Place) -> None:
        """Let the current stream here wait for what is queued on the current stream of ``other``, a device too."""
        raise NotImplementedError(f"{self.device} and {other.device} share no streams")

    @abstractmethod
    def read(self, source: Tensor) -> npt.NDArray[Any]:
        """The elements of ``source`` on the host, once all that is queued for it has run. The CPU's own are shared."""

    @abstractmethod
    def upload(self, out: Tensor, source: Tensor, *, non_blocking: bool) -> None:
        """Copy a contiguous CPU tensor to ``out``, contiguous, of the same type and shape and at this place."""

    @abstractmethod
    def download(self, out: Tensor, source: Tensor, *, non_blocking: bool) -> None:
        """Copy ``source``, contiguous and at this place, to a contiguous CPU tensor of the same type and shape."""

    @abstractmethod
    def receive(self, out: Tensor, source: Tensor) -> None:
        """Copy between devices: ``out`` is here; both are contiguous and of the same type and shape."""

    def copy(self, out: Tensor, source: Tensor) -> None:
        """Copy between tensors of this place, of one shape. Types are converted; the two must not overlap."""
        dispatch("copy", _prepare_copy, (out, source))

    def contiguous_copy(self, source: Tensor) -> Tensor:
        """A copy of a tensor of this place whose elements lie side by side in row-major order."""
        out = self.empty(source._layout.like())
        self.copy(out, source)
        return out

    # --- work, prepared for layouts of this place. None stands for a Python number given at every run.

    @abstractmethod
    def elementwise(
        self, operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None]
    ) -> Kernel:
        """``out[...] = operation(*operands)``, each operand converted to its type in ``types``, and broadcast."""

    @abstractmethod
    def reduction(
        self, reduction: Reduction, computed: dtype, outs: Sequence[Layout], operand: Layout, axes: Shape
    ) -> Kernel:
        """Reduce ``axes``. The outs keep the reduced dimensions with length 1. Takes the reduction's parameter too."""

    @abstractmethod
    def matmul(self, out: Layout, a: Layout, b: Layout) -> Kernel:
        """``out[i] = a[i] @ b[i]`` for three dimensions each. ``a`` and ``b`` may have stride 0 in the first."""

    def product(
        self, out: Layout, a: Layout, b: Layout, turned: tuple[bool, bool], row: Layout | None
    ) -> Callable[..., Tensor] | None:
        """What makes the product of two matrices as they lie, and adds a row to it: a function of the two, or of all
        three. None where ``matmul`` serves as well.

        Args:
            out: without gaps, of the operands' type, with one element at least.
            a: of two dimensions; or of more, without gaps, whose rows all are the rows of the first matrix.
            b: of two dimensions.
            turned: of each, whether its transpose is multiplied: only of two dimensions.
            row: of one dimension; None if nothing is added.
        """
        del out, a, b, turned, row
        return None

    @abstractmethod
    def fill(self, pattern: str, out: Layout) -> Kernel:
        """Fill with a function of the position, see ``patterns.PATTERNS``. Takes the pattern's parameters."""

    @abstractmethod
    def random(self, distribution: str, out: Layout) -> Kernel:
        """Fill with random numbers. Takes seed, counter and the distribution's two parameters."""

    @abstractmethod
    def take(self, out: Layout, source: Layout, indices: Sequence[Layout], axis: int = 0) -> Kernel:
        """``out[i, ...] = source[indices[0][i], indices[1][i], ..., ...]``; indices are int64, contiguous, of one
        shape. With ``numpy_indices`` they may also be of any integer type, of shapes that broadcast, and on
        the CPU; and a single one may be of the dimension ``axis``, where its own then stand in ``out``.

        Takes out, source and the index tensors; it may have ``new``, as one of ``elementwise``. Negative indices count
        from the end. An index out of range raises IndexError on the CPU, and is an asynchronous, sticky error on a
        device.
        """

    @abstractmethod
    def put(self, target: Layout, values: Layout | None, indices: Sequence[Layout]) -> Kernel:
        """``target[indices[0][i], indices[1][i], ..., ...] = values[i, ...]``. Takes target, values and the indices.
        With ``numpy_indices`` the values may also be a number of NumPy's, prepared as None; and one index a mask of the
        first dimensions, for values without dimensions."""

    @abstractmethod
    def rows(self, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
        """Work along rows: all layouts are contiguous and of two dimensions, see ``scan_and_sort_table``. Takes the
        outs, the operands and the operation's parameters, integers. What is scattered to is the first out, and no
        operand.
        It may have ``new``, which takes the operands and parameters, and gives a list of new tensors of these layouts.
        An index out of range raises IndexError on the CPU, and is an asynchronous, sticky error on a device.
        """

    def scatters_as_it_lies(self, operation: RowOperation, target: Layout) -> bool:  # noqa: ARG002 - devices answer
        """Whether ``rows`` also scatters to such a target with any dimension moved to the last one, and then takes
        tensors of as many dimensions, with gaps and expanded ones, and indices of int32."""
        return False

    @abstractmethod
    def update(
        self, line: Update, kind: dtype, rows: Sequence[Sequence[Tensor]], numbers: Sequence[float], shared: Any
    ) -> None:
        """What a line of the table of updates says, at once: rows of contiguous tensors of the type ``kind``, with
        elements; ``shared`` is a tensor of one float32, or None where the line wants none."""

    @abstractmethod
    def squares(self, kind: dtype, rows: Sequence[Sequence[Tensor]]) -> Tensor:
        """Sums of squares, whose sum is that of all elements of tensors, each a row of its own: as for ``update``."""

    def library(self, work: Convolving | Attending, layouts: Sequence[Layout]) -> Kernel | None:  # noqa: ARG002 - devices answer
        """A kernel of a library's for tensors of these layouts, the results first, at addresses that are multiples of
        16; None where there is no library, or it does not do this."""
        return None

    def recurrent(self, work: Recurring, kind: dtype) -> RecurrentKernel | None:  # noqa: ARG002 - devices answer
        """What a library does of recurrent layers in this element type; None where there is none, or it does not."""
        return None

    def join(self, out: Layout, operands: Sequence[Layout], axis: int) -> Kernel:
        """Put operands one after the other along a dimension of ``out``, whose lengths there add up to its own."""
        pieces: list[tuple[int, Layout, Kernel]] = []
        start = 0
        for operand in operands:
            part = Layout.of(self, out.dtype, operand.shape, out.strides)
            pieces.append((start * out.strides[axis], part, self.elementwise(COPY, (out.dtype,), part, (operand,))))
            start += operand.shape[axis]

        def kernel(out: Tensor, *tensors: Tensor) -> None:
            for (offset, part, copy), each in zip(pieces, tensors, strict=True):
                if part.numel:
                    copy(make_tensor(out._storage, out._offset + offset, part), each)

        return kernel

    def positions(self, flags: Layout) -> Callable[[Tensor], Tensor]:
        """What finds the True elements of contiguous bool tensors: int64, a row of indices for each dimension; their
        memory may be larger. There is one element at least. Only for places without ``numpy_indices``."""
        raise NotImplementedError(f"{self.device} indexes as NumPy does")


def place_at(layout: Layout) -> Place:
    """The place of a layout, with what can be done there."""
    return layout.place  # type: ignore[return-value]  # every location of a layout is one


def _prepare_copy(_: str, out: Tensor, source: Tensor) -> Kernel:
    return place_at(out._layout).elementwise(COPY, (out.dtype,), out._layout, (source._layout,))
