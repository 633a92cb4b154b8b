"""A CUDA device: kernels generated for the layouts at hand, compiled once and kept on disk; cuBLAS for products, cuDNN
for convolutions and attention."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from struct import Struct
from typing import Any

from ...drivers.base import Dim3
from ...kernels import SourceModule
from ...kernels.launch.quick_calls import quick_copy, quick_launch
from ...kernels.launch.target import Target
from ...kernels.launch.unrolling import Unroller
from ...machine.current import Current
from ...machine.runtime import Runtime
from ...machine.runtime_upstream import PER_THREAD_KEY
from ..core.dtypes import dtype, int64
from ..core.layout import Layout
from ..core.shapes import Shape
from ..core.storage import make_storage
from ..core.tensor import Tensor, address_of, make_tensor
from ..places.distributions import wide
from ..places.optimizer_table import Update
from ..places.pattern_table import PATTERNS
from ..places.place import Kernel
from ..places.registry import serve_devices
from ..places.tables_with_gradients.elementwise_table import COPY, Elementwise, TypeRule
from ..places.tables_with_gradients.library_table import Attending, Convolving, RecurrentKernel, Recurring
from ..places.tables_with_gradients.reduction_table import Reduction
from ..places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_kernels import cuda_elementwise, cuda_fill, cuda_indexing, cuda_reduce
from .cuda_kernels.cuda_join import joined_at_once
from .cuda_kernels.cuda_optimizers import Updates
from .cuda_kernels.cuda_products import product_by_kernel, small_product
from .cuda_kernels.cuda_row_kernels import combines_narrow, row_kernel
from .cuda_kernels.cuda_source import THREADS
from .device_place import DevicePlace
from .libraries.cublas import Blas, Dot, Gemm, cublas
from .libraries.cudnn import Dnn, cudnn
from .libraries.cudnn_kernels import library_kernel, recurrent_kernel

_OneD = (THREADS, 1, 1)
_SPARED = 1 << 14
"""Bytes of memory that hold less than there was room for, and are not made fewer: a copy takes longer."""


class CudaPlace(DevicePlace):
    """A device that runs CUDA C."""

    def __init__(self, runtime: Runtime, ordinal: int) -> None:
        super().__init__(runtime, ordinal)
        self._handles: dict[tuple[str, str], int] = {}
        self._modules: dict[str, SourceModule] = {}
        self._recurrent: dict[tuple[Recurring, dtype], RecurrentKernel | None] = {}
        self._updates = Updates(self)

    # --- compiling and launching

    def function(self, source: str, name: str = "kernel") -> int:
        """The driver's handle of a kernel, compiled or taken from the cache."""
        handle = self._handles.get((source, name))
        if handle is None:
            with self.runtime.on_device(self.ordinal):
                module = self._modules.get(source)
                if module is None:
                    module = self._modules[source] = SourceModule(source, runtime=self.runtime)
                handle, _ = module.load_function(name, self.ordinal)
            self._handles[source, name] = handle
        return handle

    def bound(self, function: int, grid: Dim3, block: Dim3, letters: str, before: bytes = b"") -> Callable[..., None]:
        """``launch(current, *values)`` of a kernel, on the current stream of this device, whatever device is current.

        Args:
            function: the driver's handle.
            grid: the number of blocks.
            block: the threads of a block.
            letters: the values, as the module ``struct`` has them.
            before: the parameter block up to the values.
        """
        runtime, ordinal, offset = self.runtime, self.ordinal, len(before)
        layout = Struct("@" + letters)
        pack_into, per_thread = layout.pack_into, PER_THREAD_KEY if not runtime.launch_blocking else 0
        target = Target(runtime, function, (grid, block, 0), ordinal, offset + layout.size)
        pop, push, again, room = target.pop, target.push, target.call_again, target.room

        def launch(current: Current, *values: Any) -> None:
            try:
                slot = pop()
            except IndexError:
                slot = room()
                slot.parameters[:offset] = before
            pack_into(slot.parameters, offset, *values)
            stream = current.stream
            if current.device != ordinal or stream >= per_thread:
                target.queue(slot, current, self.stream_handle())
                return
            if slot.stream != stream:
                slot.move(stream)
            if slot.call():
                again(slot)
            push(slot)

        return quick_launch(launch, runtime.driver, function, grid, block, letters, before, ordinal, per_thread)

    def copy_bytes(self, target: int, source: int, nbytes: int) -> None:
        """A copy by the driver on the current stream of this device, by addresses."""
        self._call("memcpy_dtod", target, source, nbytes)

    # --- the seam

    def elementwise(
        self, operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None]
    ) -> Kernel:
        if not out.numel:
            return _nothing
        if operation is COPY and _is_one_piece(out, operands[0]):
            return self._driver_copy(out)
        plain = cuda_elementwise.plan(operation, types, out, operands, aligned=False)
        fast = cuda_elementwise.plan(operation, types, out, operands, aligned=True)
        given = list(zip(operands, types, strict=True))
        letters = "P" + "".join(kind.computed.struct if layout is None else "P" for layout, kind in given) + "q"
        count = out.numel
        # Compiled when first needed: most tensors are aligned, most kernels have one form.
        forms: dict[bool, Callable[..., None]] = {}
        mask = _alignment(fast.vector, out, operands)

        def form(aligned: bool) -> Callable[..., None]:
            chosen = fast if aligned else plain
            grid = chosen.grid or (-(-count // chosen.per_block), 1, 1)
            forms[aligned] = self.bound(self.function(chosen.source), grid, chosen.block, letters, chosen.before)
            return forms[aligned]

        # What makes an address or a number of each operand.
        tests = operation.rule is TypeRule.TEST
        settled = [layout.dtype.itemsize if layout is not None else _to_number(kind, tests) for layout, kind in given]
        launchers = _element_wise_launchers("".join("n" if layout is None else "t" for layout in operands))
        write, into, new = launchers(self, out, forms, form, mask, *settled)
        write.into = into  # type: ignore[attr-defined]
        if out.contiguous:
            write.new = new  # type: ignore[attr-defined]
        return write

    def _driver_copy(self, out: Layout) -> Kernel:
        """A copy of all bytes by the driver. A kernel would have to be loaded first, which waits for running ones."""
        nbytes, size, runtime, allocate = out.nbytes, out.dtype.itemsize, self.runtime, self.allocate

        def by_call(_: Current, target: int, source: int) -> None:
            self._call("memcpy_dtod", target, source, nbytes)

        per_thread = PER_THREAD_KEY if not runtime.launch_blocking else 0
        copy = quick_copy(by_call, self.driver, nbytes, self.ordinal, per_thread)

        def write(target: Tensor, source: Tensor) -> None:
            to = target._storage.address + target._offset * size
            copy(runtime.current, to, source._storage.address + source._offset * size)

        def new(source: Tensor) -> Tensor:
            current = runtime.current
            storage = allocate(nbytes, current)
            copy(current, storage.address, source._storage.address + source._offset * size)
            return make_tensor(storage, 0, out)

        if out.contiguous:
            write.new = new  # type: ignore[attr-defined]
        return write

    def reduction(
        self, reduction: Reduction, computed: dtype, outs: Sequence[Layout], operand: Layout, axes: Shape
    ) -> Kernel:
        if not outs[0].numel:
            return _nothing
        processors = self.runtime.properties(self.ordinal).multi_processor_count
        plan = cuda_reduce.plan(reduction, computed, outs, operand, axes, processors=processors)
        many, before = len(outs), plan.before
        first = self.bound(self.function(plan.source, "reduce"), plan.grid, plan.block, "P" * many + "PPd", before)
        finish = self.function(plan.source, "finish") if plan.splits > 1 else 0
        second = self.bound(finish, plan.finish_grid, plan.finish_block, "P" * many + "Pd", before)
        scratch = plan.splits * plan.outputs * plan.partial_bytes if plan.splits > 1 else 0

        runtime, size = self.runtime, operand.dtype.itemsize

        def one(out: Any, source: Any, parameter: Any) -> None:
            p = 0.0 if parameter is None else float(parameter)
            first(runtime.current, out._address, source._storage.address + source._offset * size, 0, p)

        if many == 1 and not scratch:
            return one

        def kernel(*tensors: Any) -> None:
            *results, source, parameter = tensors
            targets = [each._address for each in results]
            p = 0.0 if parameter is None else float(parameter)
            # Dropped when this returns: the stream reuses it after the kernels, not before.
            partial = self.allocate(scratch) if scratch else None
            address = 0 if partial is None else partial.address
            current = self.runtime.current
            first(current, *targets, source._address, address, p)
            if partial is not None:
                second(current, *targets, address, p)

        return kernel

    def matmul(self, out: Layout, a: Layout, b: Layout) -> Kernel:
        if out.dtype.kind == "f":
            small = small_product(self, out, a, b)
            if small is not None:
                return small
            blas = self._blas
            if blas is not None:
                return Dot(blas, out, a, b) if Dot.takes(out, a, b) else Gemm(blas, out, a, b)
        return product_by_kernel(self, out, a, b)

    @cached_property
    def _blas(self) -> Blas | None:
        library = self._installed(
            cublas,
            "cuBLAS is not installed (pip install nvidia-cublas): products of matrices use a kernel that is many times "
            "slower",
        )
        return None if library is None else Blas(library, self)

    @cached_property
    def _dnn(self) -> Dnn | None:
        library = self._installed(
            cudnn,
            "cuDNN is not installed (pip install nvidia-cudnn-cu13): convolutions, attention and recurrent layers use "
            "kernels that are several times slower",
        )
        return None if library is None else Dnn(library, self)

    def _installed(self, find: Callable[[], Any], missing: str) -> Any | None:
        """A library for GPUs; where there is a GPU and no library, warn of what is ``missing``."""
        if self.driver.simulator is not None:
            return None
        library = find()
        if library is None:
            warnings.warn(missing, RuntimeWarning, stacklevel=4)
        return library

    def library(self, work: Convolving | Attending, layouts: Sequence[Layout]) -> Kernel | None:
        dnn = self._dnn
        return None if dnn is None else library_kernel(dnn, work, layouts)

    def recurrent(self, work: Recurring, kind: dtype) -> RecurrentKernel | None:
        try:
            return self._recurrent[work, kind]
        except KeyError:
            dnn = self._dnn
            found = self._recurrent[work, kind] = None if dnn is None else recurrent_kernel(dnn, work, kind)
            return found

    def fill(self, pattern: str, out: Layout) -> Kernel:
        found = PATTERNS[pattern]
        letter, number = ("d", float) if found.floating else ("q", int)
        return self._linear(
            cuda_fill.pattern_source(pattern, out.dtype), out, 1, letter * found.parameters, [number] * found.parameters
        )

    def random(self, distribution: str, out: Layout) -> Kernel:
        # Ranges of integers are up to 2**64 wide.
        letters, number = ("qQ", int) if distribution.endswith("integers") else ("dd", float)
        per_thread = 4 if wide(distribution, out.dtype) else 8
        source = cuda_fill.random_source(distribution, out.dtype)
        return self._linear(source, out, per_thread, "QQ" + letters, [int, int, number, number])

    def _linear(self, source: str, out: Layout, per_thread: int, letters: str, numbers: Sequence[Any]) -> Kernel:
        """A kernel of numbers only. It writes side by side, if need be to another tensor that is then copied."""
        count = out.numel
        grid = (-(-count // (THREADS * per_thread)), 1, 1)
        launch = self.bound(self.function(source), grid, _OneD, "P" + letters + "q")
        runtime, size = self.runtime, out.dtype.itemsize

        def fill(out: Any, *values: Any) -> None:
            converted = [number(value) for number, value in zip(numbers, values, strict=True)]
            launch(runtime.current, out._storage.address + out._offset * size, *converted, count)

        def by_way_of_another(out: Any, *values: Any) -> None:
            target = self.empty(out._layout.like())
            fill(target, *values)
            self.copy(out, target)

        return fill if out.contiguous else by_way_of_another

    def take(self, out: Layout, source: Layout, indices: Sequence[Layout], axis: int = 0) -> Kernel:
        assert not axis  # the indexed dimensions come first
        return self._picking(source, out, len(indices), put=False)

    def put(self, target: Layout, values: Layout | None, indices: Sequence[Layout]) -> Kernel:
        assert values is not None  # numbers are for places that index as NumPy does
        return self._picking(target, values, len(indices), put=True)

    def _picking(self, target: Layout, values: Layout, indices: int, *, put: bool) -> Kernel:
        letters = "PP" + "P" * indices + "q"
        forms: dict[bool, tuple[Callable[..., None], int]] = {}
        mask = cuda_indexing.picking(target, values, indices, put=put).word - 1
        runtime, size = self.runtime, target.dtype.itemsize

        def form(aligned: bool) -> tuple[Callable[..., None], int]:
            widest = 16 if aligned else target.dtype.itemsize
            plan = cuda_indexing.picking(target, values, indices, put=put, widest=widest)
            grid = (-(-plan.count // cuda_indexing.PER_BLOCK), 1, 1)
            forms[aligned] = self.bound(self.function(plan.source), grid, _OneD, letters, plan.before), plan.count
            return forms[aligned]

        def kernel(a: Any, b: Any, *given: Any) -> None:
            x, y = a._address, b._address
            aligned = not (x | y) & mask
            launch, count = forms.get(aligned) or form(aligned)
            launch(runtime.current, x, y, *[each._address for each in given], count)

        def with_one(a: Any, b: Any, index: Any) -> None:
            x, y = a._storage.address + a._offset * size, b._storage.address + b._offset * size
            aligned = not (x | y) & mask
            launch, count = forms.get(aligned) or form(aligned)
            launch(runtime.current, x, y, index._storage.address + index._offset * 8, count)

        return with_one if indices == 1 else kernel

    def join(self, out: Layout, operands: Sequence[Layout], axis: int) -> Kernel:
        return joined_at_once(self, out, operands, axis) or super().join(out, operands, axis)

    def rows(self, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
        return row_kernel(self, operation, outs, operands)

    def scatters_as_it_lies(self, operation: RowOperation, target: Layout) -> bool:
        # Narrow elements are combined in a copy of the target, which must hold nothing of others.
        alone = target.contiguous or not combines_narrow(operation, target.dtype)
        return alone and not target.overlaps_itself()

    def update(
        self, line: Update, kind: dtype, rows: Sequence[Sequence[Tensor]], numbers: Sequence[float], shared: Any
    ) -> None:
        current = self.runtime.current
        for launch in self._updates.run(line, kind, rows, numbers, 0 if shared is None else shared._address):
            launch(current)

    def squares(self, kind: dtype, rows: Sequence[Sequence[Tensor]]) -> Tensor:
        count, launches = self._updates.squares(kind, rows)
        out = self.empty(Layout.of(self, kind.computed, (count,)))
        current = self.runtime.current
        for launch in launches(out._address):
            launch(current)
        return out

    def positions(self, flags: Layout) -> Callable[[Tensor], Tensor]:
        ndim, length = len(flags.shape), flags.numel
        blocks = -(-length // cuda_indexing.SEARCHED)
        source, before = cuda_indexing.position_source(flags.shape)
        if blocks == 1:
            return self._positions_by_one_block(source, before, ndim, length)
        grid = (blocks, 1, 1)
        count = self.bound(self.function(source, "count_true"), grid, _OneD, "PPq")
        add_up = self.bound(self.function(source, "add_up"), (1, 1, 1), _OneD, "Pq")
        write = self.bound(self.function(source, "positions"), grid, _OneD, "PPqPq", before)
        counts, one = Layout.of(self, int64, (blocks + 1,)), Layout.of(self, int64, ())

        def find(tensor: Tensor) -> Tensor:
            if tensor._address % 16:
                tensor = self.contiguous_copy(tensor)
            current, found = self.runtime.current, self.empty(counts)
            count(current, tensor._address, found._address, length)
            add_up(current, found._address, blocks)
            total = self.read(make_tensor(found._storage, blocks, one)).item()
            out = self.empty(Layout.of(self, int64, (ndim, total)))
            write(current, tensor._address, found._address, blocks, out._address, length)
            return out

        return find

    def _positions_by_one_block(self, source: str, before: bytes, ndim: int, length: int) -> Callable[[Tensor], Tensor]:
        launch = self.bound(self.function(source, "only_block"), (1, 1, 1), _OneD, "PPq", before)
        nbytes, one = (ndim * length + 1) * 8, Layout.of(self, int64, ())

        def find(tensor: Tensor) -> Tensor:
            if tensor._address % 16:
                tensor = self.contiguous_copy(tensor)
            current = self.runtime.current
            storage = self.allocate(nbytes, current)
            launch(current, tensor._address, storage.address, length)
            total = self.read(make_tensor(storage, 0, one)).item()
            if ndim == 1 and nbytes <= _SPARED:
                found = make_storage(self, total * 8, storage.owner, storage.address + 8)
                return make_tensor(found, 0, Layout.of(self, int64, (1, total)))
            return make_tensor(storage, 1, Layout.of(self, int64, (ndim, total), (length, 1)))

        return find


@cache
def _element_wise_launchers(kinds: str) -> Callable[..., tuple[Kernel, Kernel, Kernel]]:
    """Makes the functions that launch an element-wise kernel: ``write(out, *operands)``; ``into``, which does the same
    and counts that ``out`` was written to; and ``new(*operands)``, whose result is a new contiguous tensor. They are
    generated: a loop over the operands takes half as long as a launch.

    Args:
        kinds: one letter for each operand, ``t`` for a tensor and ``n`` for a number.
    """
    arguments = Unroller(kinds)
    pointers = {"t": "\n        p{k} = " + address_of("a{k}", "s{k}"), "n": "\n        p{k} = s{k}(a{k})"}
    body = arguments.each(pointers)
    body += f"\n        aligned = not (x{arguments.each(' | p{k}', only='t')}) & mask"
    body += f"\n        (forms.get(aligned) or form(aligned))(current, x, {arguments.each('p{k}, ')}count)"
    given = arguments.each("a{k}", between=", ")
    source = f"""
def launchers(place, layout, forms, form, mask, {arguments.each("s{k}", between=", ")}):
    runtime, allocate = place.runtime, place.allocate
    size, nbytes, count = layout.dtype.itemsize, layout.nbytes, layout.numel
    def write(out, {given}):
        current = runtime.current
        x = {address_of("out", "size")}{body}
    def into(out, {given}):
        current = runtime.current
        x = {address_of("out", "size")}{body}
        out._storage.version += 1
        return out
    def new({given}):
        current = runtime.current
        storage = allocate(nbytes, current)
        x = storage.address{body}
        return make_tensor(storage, 0, layout)
    return write, into, new
"""
    return arguments.function(source, "launchers", {"make_tensor": make_tensor})


def _is_one_piece(out: Layout, source: Layout | None) -> bool:
    """Whether a copy moves one piece of memory as it is: same type, shape, order and device, and no gaps."""
    if source is None or source.place is not out.place or source.dtype is not out.dtype or source.shape != out.shape:
        return False
    if source.contiguous and out.contiguous:
        return True
    pairs = zip(out.shape, out.strides, source.strides, strict=True)
    alike = all(mine == theirs for length, mine, theirs in pairs if length > 1)
    return alike and out.dense_order() is not None


def _nothing(*_: Any) -> None:
    """There are no elements to work on."""


def _to_number(kind: dtype, rounded: bool) -> Any:
    """Makes of a Python number what the module ``struct`` packs for this type. ``rounded``: as a tensor holds it, where
    a half type is computed with in a wider one."""
    if rounded and kind.is_half:
        return lambda value: float(kind.scalar(value))
    if kind.kind == "b":
        return bool
    if kind.kind == "f":
        return float  # in the machine's own format struct makes an infinity of what is beyond the range of float32
    return lambda value: int(kind.scalar(value))


def _alignment(vector: int, out: Layout, operands: Sequence[Layout | None]) -> int:
    """The bits that must be 0 in every address for vectors to be used."""
    widest = max(each.dtype.itemsize for each in (out, *operands) if each is not None)
    return vector * widest - 1


serve_devices(CudaPlace, simulated=False)
