"""The CPU: memory is NumPy's, and NumPy does the work when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .....allocators.errors import OutOfMemoryError
from ....machine.device_name import CPU
from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.storage import ArrayStorage, Storage, make_array_storage
from ...core.tensor import Tensor, make_tensor
from ...places.place import Kernel
from ...places.registry import serve_cpu
from ...places.tables_with_gradients.elementwise_table import Elementwise
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .numpy_kernels import Run, computing, row_results, taking
from .numpy_kernels import product as numpy_product
from .numpy_place import NumpyPlace


class CpuPlace(NumpyPlace):
    """The CPU and its memory."""

    raises_on_division = True

    def allocate(self, nbytes: int) -> Storage:
        try:
            return ArrayStorage(self, nbytes, np.empty(nbytes, np.uint8))
        except MemoryError:
            raise _out_of_memory(nbytes) from None

    def empty(self, layout: Layout) -> Tensor:
        array: Any
        if layout.contiguous:
            try:
                array = np.empty(layout.lengths, layout.dtype.numpy)
            except MemoryError:
                raise _out_of_memory(layout.nbytes) from None
            return make_tensor(make_array_storage(self, layout.nbytes, array), 0, layout, array)
        low, high = layout.span()
        return make_tensor(self.allocate((high - low) * layout.dtype.itemsize), -low, layout)

    def contiguous_copy(self, source: Tensor) -> Tensor:
        if source._layout.tracked:  # and recorded, as what is dispatched is
            return super().contiguous_copy(source)
        out = source._layout.like()
        try:
            array = source._host.copy()
        except MemoryError:
            raise _out_of_memory(out.nbytes) from None
        return make_tensor(make_array_storage(self, out.nbytes, array), 0, out, array)

    def synchronize(self) -> None:
        """Nothing is ever queued here."""

    def read(self, source: Tensor) -> npt.NDArray[Any]:
        return source._host

    def upload(self, out: Tensor, source: Tensor, *, non_blocking: bool) -> None:  # noqa: ARG002 - at once
        out._host[...] = source._host

    download = upload

    def receive(self, out: Tensor, source: Tensor) -> None:
        raise NotImplementedError("devices send to the CPU by download()")

    def elementwise(
        self, operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None]
    ) -> Kernel:
        kernel: Any = super().elementwise(operation, types, out, operands)
        made = computing(operation, types, out, operands) if out.contiguous else None
        if made is not None:
            kernel.new = self._adopting(out, operands, made)
        return kernel  # type: ignore[no-any-return]

    def product(
        self, out: Layout, a: Layout, b: Layout, turned: tuple[bool, bool], row: Layout | None
    ) -> Callable[..., Tensor] | None:
        if out.dtype.is_half:
            return None
        operands = (a, b) if row is None else (a, b, row)
        made: Callable[..., Tensor] = self._adopting(out, operands, numpy_product(a, turned)[0])
        return made

    def take(self, out: Layout, source: Layout, indices: Sequence[Layout], axis: int = 0) -> Kernel:
        kernel: Any = super().take(out, source, indices, axis)
        kernel.new = self._adopting(out, (source, *indices), taking(axis))
        return kernel  # type: ignore[no-any-return]

    def rows(self, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
        kernel: Any = super().rows(operation, outs, operands)
        made = row_results(operation, outs, operands)
        if made is not None:

            def new(*given: Any) -> list[Tensor]:
                try:
                    arrays = made(*[getattr(each, "_host", each) for each in given])
                except MemoryError:
                    raise _out_of_memory(sum(each.nbytes for each in outs)) from None
                return [
                    make_tensor(make_array_storage(self, out.nbytes, array), 0, out, array)
                    for out, array in zip(outs, arrays, strict=True)
                ]

            kernel.new = new
        return kernel  # type: ignore[no-any-return]

    def _adopting(self, out: Layout, operands: Sequence[Layout | None], function: Any) -> Any:
        """A kernel's ``new`` that makes the array which ``function`` returns a tensor."""
        nbytes = out.nbytes
        given = tuple(operand is not None for operand in operands)
        # NumPy gives numbers where there are no dimensions, and keeps the order of operands that have another one.
        in_order = bool(out.shape) and all(
            each is None or (each.contiguous and each.shape == out.shape) for each in operands
        )

        def adopt(array: Any) -> Tensor:
            if not in_order:
                array = np.asarray(array, order="C")
            return make_tensor(make_array_storage(self, nbytes, array), 0, out, array)

        def new(*tensors: Any) -> Tensor:
            try:
                return adopt(function(*[getattr(each, "_host", each) for each in tensors]))
            except MemoryError:
                raise _out_of_memory(nbytes) from None

        def new_of_one(a: Any) -> Tensor:
            try:
                return adopt(function(a._host))
            except MemoryError:
                raise _out_of_memory(nbytes) from None

        def new_of_two(a: Any, b: Any) -> Tensor:
            try:
                return adopt(function(a._host, b._host))
            except MemoryError:
                raise _out_of_memory(nbytes) from None

        def new_of_one_and_number(a: Any, number: Any) -> Tensor:
            try:
                return adopt(function(a._host, number))
            except MemoryError:
                raise _out_of_memory(nbytes) from None

        def new_of_three(a: Any, b: Any, c: Any) -> Tensor:
            try:
                return adopt(function(a._host, b._host, c._host))
            except MemoryError:
                raise _out_of_memory(nbytes) from None

        written_out = {
            (True,): new_of_one,
            (True,) * 2: new_of_two,
            (True, False): new_of_one_and_number,
            (True,) * 3: new_of_three,
        }
        return written_out.get(given, new)

    def _kernel(
        self,
        name: str,  # noqa: ARG002 - nobody asks here
        run: Run,
        outs: Sequence[Layout],
        operands: Sequence[Layout | None],
        *,
        repeatable: bool = False,  # noqa: ARG002 - it runs once, here and now
    ) -> Kernel:
        if len(outs) == 1:
            given = tuple(operand is not None for operand in operands)
            if given == (True,):
                return lambda out, a: run(out._host, a._host)
            if given == (True, True):
                return lambda out, a, b: run(out._host, a._host, b._host)
            if given == (True, False):
                return lambda out, a, b: run(out._host, a._host, b)
            if given == (True, False, True):
                return lambda out, a, b, c: run(out._host, a._host, b, c._host)
            if given == (True,) * 3:
                return lambda out, a, b, c: run(out._host, a._host, b._host, c._host)

        def kernel(*tensors: Any) -> None:
            run(*[getattr(each, "_host", each) for each in tensors])

        return kernel


def _out_of_memory(nbytes: int) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"the CPU has no memory left for a tensor of {nbytes:,} bytes; free some, or work on less at a time"
    )


HOST = CpuPlace(CPU)
"""The place of everything on the CPU."""
serve_cpu(HOST)
