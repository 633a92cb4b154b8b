"""How the kernels for work along rows are launched: one function for each kind of line in the table of rows."""

# ruff: noqa: ARG001 - launchers of one form, of which some do not need the line itself

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import dtype, int64
from ...core.layout import Layout
from ...core.tensor import Tensor
from ...places.place import Kernel
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .cuda_channels import CHANNEL_KERNELS
from .cuda_geometry import Walk, merged
from .cuda_histogram import PER_THREAD, SHARED_BINS, histogram_source
from .cuda_launching import Launching
from .cuda_long_sort import sweep
from .cuda_rows import (
    KEPT,
    PER_BLOCK,
    gather_source,
    kept_soft_source,
    scatter_along_source,
    scatter_source,
    search_source,
    soft_source,
    soft_threads,
)
from .cuda_scan import TILE, scan_source
from .cuda_select import select_source
from .cuda_softmax_and_norms import FUSED_KERNELS
from .cuda_sort import LONGEST_BLOCK_ROW, short_distinct_source, short_row_source
from .cuda_source import THREADS
from .cuda_triangles import TRIANGLE_KERNELS
from .cuda_windows import WINDOW_KERNELS

_BLOCK = (THREADS, 1, 1)
"""Blocks that look for the digits that vary."""


def row_kernel(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    """See ``Place.rows``. There are elements."""
    return _KINDS[operation.kind](place, operation, outs, operands)


def _scan(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    plan = scan_source(operation, outs, operands[0])
    rows, length = operands[0].shape
    tiles = -(-length // TILE)
    # Few long rows are scanned by many blocks each: twice as many as are resident at once, each with the same work.
    wanted = -(-10 * place.runtime.properties(place.ordinal).multi_processor_count // rows)
    share = -(-tiles // wanted)
    chunks = -(-tiles // share)
    grid = (rows * chunks, 1, 1)
    scan = place.bound(place.function(plan.source, "scan"), grid, _BLOCK, "P" * len(outs) + "PPqqq")
    if chunks == 1:

        def short(*tensors: Tensor) -> None:
            scan(place.runtime.current, *[each._address for each in tensors], 0, length, 1, tiles)

        return short
    totals = place.bound(place.function(plan.source, "totals"), grid, _BLOCK, "PPqqq")
    add_up = place.bound(place.function(plan.source, "add_up"), (rows, 1, 1), _BLOCK, "Pq")
    scratch = rows * chunks * plan.acc_bytes

    def kernel(*tensors: Tensor) -> None:
        *_, source = tensors
        # Dropped when this returns: the stream reuses it after the kernels, not before.
        total = place.allocate(scratch)
        current = place.runtime.current
        totals(current, source._address, total.address, length, chunks, share)
        add_up(current, total.address, chunks)
        scan(current, *[each._address for each in tensors], total.address, length, chunks, share)

    return kernel


def _sort(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    fits = operands[0].shape[1] <= LONGEST_BLOCK_ROW[operands[0].dtype.itemsize]
    return (_sort_short if fits else _sort_long)(place, outs, operands)


def _sort_short(place: Launching, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    """Rows that a block holds, or what comes first in them."""
    stored, (rows, length) = operands[0].dtype, operands[0].shape
    launch = place.bound(place.function(short_row_source(stored, length)), (rows, 1, 1), _BLOCK, "PPPPqqqq")

    def kernel(
        values: Tensor, places: Tensor, given: Tensor, descending: int, kept: int = length, begin: int = 0
    ) -> None:
        addresses = values._address, places._address, given._address
        launch(place.runtime.current, *addresses, 0, length, descending, kept, begin)

    return kernel


def _distinct(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    stored, (_, length) = operands[0].dtype, operands[0].shape
    launch = place.bound(place.function(short_distinct_source(stored, length)), (1, 1, 1), _BLOCK, "PPPq")

    def kernel(values: Tensor, found: Tensor, given: Tensor) -> None:
        launch(place.runtime.current, values._address, found._address, given._address, length)

    return kernel


def _sort_long(place: Launching, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    stored, (rows, length) = operands[0].dtype, operands[0].shape
    plan = sweep(stored, length=length)
    tiles = -(-length // plan.tile)
    # As many blocks as are resident at once, each with the same work.
    wanted = -(-8 * place.runtime.properties(place.ordinal).multi_processor_count // rows)
    share = -(-length // (wanted * 2048)) * 2048
    chunks = -(-length // share)
    block = (plan.threads, 1, 1)
    survey = place.bound(place.function(plan.source, "survey"), (rows * chunks, 1, 1), _BLOCK, "PPqqq")
    prepare = place.bound(place.function(plan.source, "prepare"), (rows, 1, 1), _BLOCK, "PPqq")
    move = place.bound(place.function(plan.source, "move"), (rows * tiles, 1, 1), block, "PPPPPPPPqqq")
    counted, taken = rows * stored.itemsize * 256 * plan.word_bytes, (rows * tiles + 1) * 256 * plan.word_bytes
    several, spare = stored.itemsize > 1, rows * length
    sizes = (counted, rows * 4, taken, several * spare * plan.spare_bytes, several * spare * plan.spare_places_bytes)

    def kernel(values: Tensor, places: Tensor, given: Tensor, descending: int) -> None:
        current, source = place.runtime.current, given._address
        # Dropped when this returns: the stream reuses them after the kernels, not before.
        kept = [place.allocate(size) for size in sizes if size]
        counts, turns, tickets, spare, spare_places, *_ = [*(each.address for each in kept), 0, 0]
        place.clear_bytes(counts, counted)
        survey(current, source, counts, length, chunks, share)
        prepare(current, counts, turns, descending, length)
        buffers = source, values._address, places._address, spare, spare_places, counts, turns, tickets
        for digit in range(stored.itemsize):
            place.clear_bytes(tickets, taken)
            move(current, *buffers, digit, descending, length)

    return kernel


def _first(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    stored, (rows, length), kept = operands[0].dtype, operands[0].shape, outs[0].shape[1]
    if length <= LONGEST_BLOCK_ROW[stored.itemsize]:
        return _sort_short(place, outs, operands)
    select = _selection(place, operands[0])
    order = place.bound(place.function(short_row_source(stored, kept)), (rows, 1, 1), _BLOCK, "PPPPqqqq")

    def kernel(values: Tensor, places: Tensor, given: Tensor, descending: int, kept: int) -> None:
        some_values, some_places = (place.allocate(each.numel * each.dtype.itemsize) for each in outs)
        select(some_values.address, some_places.address, given._address, descending, kept, 0)
        chosen = some_values.address, some_places.address
        order(place.runtime.current, values._address, places._address, *chosen, kept, descending, kept, 0)

    return kernel


def _ranked(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    if operands[0].shape[1] <= LONGEST_BLOCK_ROW[operands[0].dtype.itemsize]:
        sort = _sort_short(place, outs, operands)

        def short(values: Tensor, places: Tensor, given: Tensor, rank: int) -> None:
            sort(values, places, given, 0, 1, rank - 1)

        return short
    select = _selection(place, operands[0])

    def kernel(values: Tensor, places: Tensor, given: Tensor, rank: int) -> None:
        select(values._address, places._address, given._address, 0, rank, 1)

    return kernel


def _selection(place: Launching, operand: Layout) -> Callable[..., None]:
    """``select(values, places, source, descending, wanted, alone)`` of rows: addresses, how many elements of each are
    wanted, and whether the last of these alone."""
    stored, (rows, length) = operand.dtype, operand.shape
    wide = length >= 2**32
    source = select_source(stored, wide=wide)
    blocks = -(-8 * place.runtime.properties(place.ordinal).multi_processor_count // rows)
    share = -(-length // (4096 * blocks)) * 4096
    chunks = -(-length // share)
    grid, letters = (rows * chunks, 1, 1), "PqqqqqP"
    count = place.bound(place.function(source, "count"), grid, _BLOCK, letters + "q")
    survey = place.bound(place.function(source, "survey"), grid, _BLOCK, letters + "P")
    pick = place.bound(place.function(source, "pick"), grid, _BLOCK, letters + "PPPq")
    narrow = 8 if wide else 4
    counted, surveyed = rows * stored.itemsize * 256 * narrow, rows * chunks * 2 * narrow

    def select(values: int, places: int, given: int, descending: int, wanted: int, alone: int) -> None:
        current = place.runtime.current
        # Dropped when this returns: the stream reuses them after the kernels, not before.
        counts, found = place.allocate(counted), place.allocate(surveyed)
        place.clear_bytes(counts.address, counted)
        row = given, descending, length, chunks, share, wanted, counts.address
        for digit in reversed(range(stored.itemsize)):
            count(current, *row, digit)
        survey(current, *row, found.address)
        pick(current, *row, found.address, values, places, alone)

    return select


def _gather(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    count, length = outs[0].numel, operands[0].shape[1]
    walk = Walk(outs[0].shape, [(length, 0)])
    launch = _linear(place, gather_source(walk, outs[0].dtype), count, "PPPqq", walk.packed)
    runtime, size = place.runtime, outs[0].dtype.itemsize

    def kernel(out: Tensor, source: Tensor, index: Tensor) -> None:
        x = out._storage.address + out._offset * size
        y = source._storage.address + source._offset * size
        launch(runtime.current, x, y, index._storage.address + index._offset * 8, length, count)

    return kernel


def _scatter(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    target, (index, values) = outs[0], operands
    length, count = target.shape[-1], index.numel
    numbers: tuple[int, ...]
    if len(target.shape) == 2 and target.contiguous and index.contiguous and values.contiguous and index.dtype is int64:
        walk = Walk(index.shape, [(length, 0)])
        source, numbers = scatter_source(walk, operation.cuda, target.dtype), (length, count)
    else:
        walk = _walk_along(target, index, values)
        source = scatter_along_source(walk, operation.cuda, target.dtype, index.dtype)
        numbers = length, target.strides[-1], count
    launch = _linear(place, source, count, "PPP" + "q" * len(numbers), walk.packed)
    runtime, size, nbytes, wide = place.runtime, target.dtype.itemsize, target.nbytes, index.dtype.itemsize
    narrow = combines_narrow(operation, target.dtype)

    def kernel(target: Tensor, index: Tensor, values: Tensor) -> None:
        x = target._storage.address + target._offset * size
        y = values._storage.address + values._offset * size
        at, current = index._storage.address + index._offset * wide, runtime.current
        if not narrow:
            launch(current, x, at, y, *numbers)
            return
        copied = place.allocate(-(-nbytes // 4) * 4)
        place.copy_bytes(copied.address, x, nbytes)
        launch(current, copied.address, at, y, *numbers)
        place.copy_bytes(x, copied.address, nbytes)

    return kernel


def combines_narrow(operation: RowOperation, stored: dtype) -> bool:
    """Whether elements are combined that are narrower than the words of 4 bytes that are exchanged: in a copy, whose
    last word is whole."""
    return operation.cuda != "Write" and stored.itemsize < 4


def _walk_along(target: Layout, index: Layout, values: Layout) -> Walk:
    """The way through what is scattered along the last dimension, so that neighbouring threads read neighbouring
    values: the offsets in the target, at the beginning of that dimension, in the index and in the values."""
    axes = [axis for axis, length in enumerate(index.shape) if length != 1]
    axes.sort(key=lambda axis: values.strides[axis], reverse=True)
    strides = (*target.strides[:-1], 0), index.strides, values.strides
    chosen = [tuple(each[axis] for axis in axes) for each in strides]
    return Walk(*merged(tuple(index.shape[axis] for axis in axes), chosen))


def _histogram(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    count, nbytes = operands[0].numel, outs[0].nbytes
    most = 8 * place.runtime.properties(place.ordinal).multi_processor_count
    blocks = min(-(-count // (THREADS * PER_THREAD)), most)
    alone = blocks == 1 and outs[0].numel <= SHARED_BINS
    source = histogram_source(operation.cuda, operands[0].dtype, outs[0].dtype if alone else None)
    launch = place.bound(place.function(source), (blocks, 1, 1), _BLOCK, "PPqqdd")

    def kernel(found: Tensor, given: Tensor, bins: int, low: float = 0.0, high: float = 0.0) -> None:
        if not alone:
            place.clear_bytes(found._address, nbytes)
        launch(place.runtime.current, found._address, given._address, count, bins, low, high)

    return kernel


def _search(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    (rows, length), count = operands[0].shape, outs[0].numel
    walk = Walk(outs[0].shape, [(length if rows > 1 else 0, 0)])
    source = search_source(walk, operands[0].dtype, outs[0].dtype, wide=length >= 2**31)
    launch = _linear(place, source, count, "PPPqqq", walk.packed)
    runtime, size, wide = place.runtime, operands[0].dtype.itemsize, outs[0].dtype.itemsize

    def kernel(found: Tensor, ordered: Tensor, values: Tensor, right: int = 0) -> None:
        x = found._storage.address + found._offset * wide
        y = ordered._storage.address + ordered._offset * size
        z = values._storage.address + values._offset * size
        launch(runtime.current, x, y, z, length, right, count)

    return kernel


def _soft(place: Launching, operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Kernel:
    stored, (rows, length) = operands[0].dtype, operands[0].shape
    lanes = 32 if length <= 32 * KEPT else THREADS
    threads = soft_threads(lanes)
    grid = (-(-(rows * lanes) // threads), 1, 1)
    together = 16 // stored.itemsize
    forms: dict[bool, Callable[..., None]] = {}

    def form(aligned: bool) -> Callable[..., None]:
        if length > lanes * KEPT:
            source = soft_source(operation.cuda, stored, lanes)
        else:
            vector = together if aligned else 1
            items = vector
            while lanes * items < length:
                items *= 2
            source = kept_soft_source(operation.cuda, stored, lanes, items, vector, whole=lanes * items == length)
        forms[aligned] = place.bound(place.function(source), grid, (threads, 1, 1), "PPqq")
        return forms[aligned]

    def kernel(out: Tensor, given: Tensor) -> None:
        x, y = out._address, given._address
        aligned = not (x | y) % 16 and not length % together
        (forms.get(aligned) or form(aligned))(place.runtime.current, x, y, rows, length)

    return kernel


def _linear(place: Launching, source: str, count: int, letters: str, before: bytes) -> Callable[..., None]:
    return place.bound(place.function(source), (-(-count // PER_BLOCK), 1, 1), _BLOCK, letters, before)


_KINDS: dict[str, Callable[[Any, RowOperation, Sequence[Layout], Sequence[Layout]], Kernel]] = {
    "scan": _scan,
    "sort": _sort,
    "first": _first,
    "ranked": _ranked,
    "distinct": _distinct,
    "gather": _gather,
    "scatter": _scatter,
    "histogram": _histogram,
    "search": _search,
    "soft": _soft,
    **FUSED_KERNELS,
    **CHANNEL_KERNELS,
    **WINDOW_KERNELS,
    **TRIANGLE_KERNELS,
}
