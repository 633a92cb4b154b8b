"""What the two places that compute with NumPy share: they differ only in when and on which memory it runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ...core.dtypes import dtype
from ...core.layout import Layout
from ...core.shapes import Shape
from ...core.tensor import Tensor, make_tensor
from ...places.optimizer_table import Update
from ...places.pattern_table import PATTERNS
from ...places.place import Kernel, Place
from ...places.tables_with_gradients.elementwise_table import Elementwise
from ...places.tables_with_gradients.reduction_table import Reduction
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from . import numpy_kernels
from .numpy_kernels import Run


class NumpyPlace(Place):
    """A place whose work ``numpy_kernels`` does."""

    numpy_indices = True
    raises_on_division = False
    """Whether integers divided by zero can raise where they are divided."""

    @abstractmethod
    def _kernel(
        self,
        name: str,
        run: Run,
        outs: Sequence[Layout],
        operands: Sequence[Layout | None],
        *,
        repeatable: bool = False,
    ) -> Kernel:
        """``run`` of the arrays of tensors that have these layouts; None for what is passed on as it is.

        ``repeatable``: what it writes depends on the operands alone, and not on what was there before.
        """

    def elementwise(
        self, operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None]
    ) -> Kernel:
        run = numpy_kernels.elementwise(operation, types, out, operands, division_by_zero=self.raises_on_division)
        return self._kernel(operation.name, run, (out,), operands, repeatable=True)

    def reduction(
        self, reduction: Reduction, computed: dtype, outs: Sequence[Layout], operand: Layout, axes: Shape
    ) -> Kernel:
        run = numpy_kernels.reduction(reduction, computed, operand, axes)
        return self._kernel(reduction.name, run, outs, (operand, None), repeatable=True)

    def matmul(self, out: Layout, a: Layout, b: Layout) -> Kernel:
        return self._kernel("matmul", numpy_kernels.matmul(out), (out,), (a, b), repeatable=True)

    def fill(self, pattern: str, out: Layout) -> Kernel:
        parameters = (None,) * PATTERNS[pattern].parameters
        return self._kernel(pattern, numpy_kernels.fill(pattern, out), (out,), parameters, repeatable=True)

    def random(self, distribution: str, out: Layout) -> Kernel:
        return self._kernel(distribution, numpy_kernels.random(distribution, out), (out,), (None,) * 4)

    def take(self, out: Layout, source: Layout, indices: Sequence[Layout], axis: int = 0) -> Kernel:
        return self._kernel("take", numpy_kernels.take(axis), (out,), (source, *indices), repeatable=True)

    def put(self, target: Layout, values: Layout | None, indices: Sequence[Layout]) -> Kernel:
        return self._kernel("put", numpy_kernels.put(), (target,), (values, *indices))

    def rows(self, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
        run = numpy_kernels.rows(operation, outs, operands)
        given = (*operands, *(None,) * operation.parameters)
        return self._kernel(operation.name, run, outs, given, repeatable=operation.kind != "scatter")

    def scatters_as_it_lies(self, operation: RowOperation, target: Layout) -> bool:  # noqa: ARG002 - of each kind
        return not target.overlaps_itself()

    def update(
        self, line: Update, kind: dtype, rows: Sequence[Sequence[Tensor]], numbers: Sequence[float], shared: Any
    ) -> None:
        written, flags = len(line.written), line.shared == "flag"
        for row in rows:
            layouts = [each._layout.plain for each in row]
            plans, key = layouts[0].plans, (line, *layouts[1:])
            kernel = plans.get(key)
            if kernel is None:
                outs: list[Layout] = layouts[:written]
                operands: list[Layout | None] = [*layouts[written:], *[None] * len(numbers)]
                if shared is not None:
                    (outs if flags else operands).append(shared._layout)
                kernel = plans[key] = self._kernel(line.name, numpy_kernels.update(line, kind), outs, operands)
            if shared is None:
                kernel(*row, *numbers)
            elif flags:
                kernel(*row[:written], shared, *row[written:], *numbers)
            else:
                kernel(*row, *numbers, shared)

    def squares(self, kind: dtype, rows: Sequence[Sequence[Tensor]]) -> Tensor:
        out = self.empty(Layout.of(self, kind.computed, (len(rows),)))
        one = Layout.of(self, kind.computed, ())
        run = numpy_kernels.squares(kind)
        for position, (each,) in enumerate(rows):
            kernel = self._kernel("squares", run, (one,), (each._layout.plain,))
            kernel(make_tensor(out._storage, position, one), each)
        return out

    def join(self, out: Layout, operands: Sequence[Layout], axis: int) -> Kernel:
        return self._kernel("cat", numpy_kernels.join(axis), (out,), operands, repeatable=True)
