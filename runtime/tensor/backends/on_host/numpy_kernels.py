"""The work of tensors in NumPy: functions of arrays, prepared once for the types and shapes at hand.

Each function here returns ``run(*outs, *operands)``. Arithmetic never warns: infinities and NaN are results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any

import numpy as np

from .....allocators.core_choice import is_available
from .....allocators.errors import CuplugError
from ...core.dtypes import dtype, float64, int64
from ...core.layout import Layout
from ...core.shapes import Shape
from ...places import distributions
from ...places.optimizer_table import Update
from ...places.pattern_table import PATTERNS
from ...places.tables_with_gradients.elementwise_table import COPY, Elementwise, TypeRule
from ...places.tables_with_gradients.reduction_table import Reduction
from ...places.tables_with_gradients.scan_and_sort_table import RowOperation
from .half_conversion import converted, store

Run = Callable[..., None]


class IntegerDivisionError(CuplugError, ZeroDivisionError):
    """Integers were divided by zero on the CPU. It is a RuntimeError, as torch's is."""


_native: Any = None
_BY_CONTEXT = not np.__version__.startswith("1.")
"""Whether what NumPy says is settled for a context, and not for a thread."""
if is_available() and _BY_CONTEXT:
    from .....allocators import _native

_contexts: list[Context] = []
"""Contexts in which NumPy is silent, and which nothing runs in at the moment."""


def _silent_context() -> Context:
    context = Context()
    context.run(np.seterr, all="ignore")
    return context


def silent(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, while NumPy says nothing of overflows and the like. It runs in a context in which that was settled
    before: to settle it for each call, by ``np.errstate``, costs three times as much."""

    def in_context(*arguments: Any) -> Any:
        try:
            context = _contexts.pop()
        except IndexError:
            context = _silent_context()
        try:
            return context.run(function, *arguments)
        finally:
            _contexts.append(context)

    def silent_in_thread(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    if _native is not None:
        made: Callable[..., Any] = _native.Silent(function, False, _silent_context)
        return made
    return in_context if _BY_CONTEXT else silent_in_thread


def _silent_writing(implementation: Callable[..., Any]) -> Run:
    """``run(out, *operands)`` of a function of NumPy's that writes to an argument ``out``, silently."""
    if _native is not None:
        made: Run = _native.Silent(implementation, True, _silent_context)
        return made
    return silent(lambda out, *operands: implementation(*operands, out=out))


def elementwise(
    operation: Elementwise,
    types: Sequence[dtype],
    out: Layout,
    operands: Sequence[Layout | None],
    *,
    division_by_zero: bool = True,
) -> Run:
    """See ``Place.elementwise``. ``division_by_zero``: whether integers divided by zero raise ZeroDivisionError."""
    if operation is COPY:
        return _copy(types[0], operands[0])
    computed = _computed(operation, types)
    convert = [_convert(operand, target) for operand, target in zip(operands, computed, strict=True)]
    if operation.rule is TypeRule.TEST:  # numbers are compared as what the tensors hold
        convert = [
            _rounding(kind) if operand is None and kind.is_half else change
            for operand, kind, change in zip(operands, types, convert, strict=True)
        ]
    integers = computed[-1].kind != "f"
    divides = division_by_zero and integers and operation.divides
    implementation = operation.numpy
    loud = not integers or divides  # NumPy is silent about integers but for their division
    by_pieces = out.numel > 2 * _PIECE
    changed = _changing(convert)

    if _writes(implementation, computed, out.dtype):
        # Integers are divided in one pass: only quotients of floats make arrays on the way.
        by_pieces = by_pieces and operation.pieces and not (integers and operation.divides)
        if not any(convert):
            if not loud:
                return lambda out, *operands: implementation(*operands, out=out)
            if not divides and not by_pieces:
                return _silent_writing(implementation)

            def run(out: Any, *operands: Any) -> None:
                implementation(*operands, out=out)
        else:

            def run(out: Any, *operands: Any) -> None:
                implementation(*changed(operands), out=out)

    else:

        def run(out: Any, *operands: Any) -> None:
            store(out, implementation(*changed(operands)))

    if by_pieces:
        run = _in_pieces(run)
    return _dividing(run) if divides else silent(run)


def computing(
    operation: Elementwise, types: Sequence[dtype], out: Layout, operands: Sequence[Layout | None]
) -> Callable[..., Any] | None:
    """What ``elementwise`` writes, as a new array, which takes less time than to make one first; None where that goes
    by pieces, or is copied."""
    computed = _computed(operation, types)
    implementation = operation.numpy
    rounds = operation.rule is TypeRule.TEST and any(each.is_half for each in types)
    if operation is COPY or operation.divides or rounds:
        return None
    writes = _writes(implementation, computed, out.dtype)
    if out.numel > 2 * _PIECE and (operation.pieces or not writes):
        return None
    convert = [_convert(operand, target) for operand, target in zip(operands, computed, strict=True)]
    wanted = out.dtype.numpy
    if writes and not any(convert):
        return implementation if computed[-1].kind != "f" else silent(implementation)
    if writes and list(operands[1:]) == [None] and convert[0] is None:
        scalar = computed[1].scalar  # this takes half as long as what suits all operands
        return silent(lambda a, number: implementation(a, scalar(number)))
    changed = _changing(convert)

    @silent
    def made(*operands: Any) -> Any:
        return converted(implementation(*changed(operands)), wanted)

    return made


def _changing(convert: Sequence[Callable[[Any], Any] | None]) -> Callable[[Sequence[Any]], list[Any]]:
    """What gives operands as a list, those changed for which there is a function."""
    changes = [(position, change) for position, change in enumerate(convert) if change is not None]

    def changed(operands: Sequence[Any]) -> list[Any]:
        ready = list(operands)
        for position, change in changes:
            ready[position] = change(ready[position])
        return ready

    return changed


def _computed(operation: Elementwise, types: Sequence[dtype]) -> Sequence[dtype]:
    """The types that operands come in: what only chooses takes what is stored."""
    return types if operation.rule is TypeRule.SELECT else [each.computed for each in types]


_PIECE = 1 << 15


def _in_pieces(run: Run) -> Run:
    """``run`` of an element-wise operation that makes several arrays on the way, of long operands: by pieces, so that
    these stay in the processor's cache."""

    def in_pieces(out: Any, *operands: Any) -> None:
        long = [each for each in (out, *operands) if isinstance(each, np.ndarray) and each.ndim]
        if any(each.shape != out.shape or not each.flags.c_contiguous for each in long):
            run(out, *operands)
            return
        flat = [each.reshape(-1) if isinstance(each, np.ndarray) and each.ndim else each for each in operands]
        target = out.reshape(-1)
        for start in range(0, out.size, _PIECE):
            part = slice(start, start + _PIECE)
            run(target[part], *[each[part] if isinstance(each, np.ndarray) and each.ndim else each for each in flat])

    return in_pieces


@silent
def _writes(implementation: Callable[..., Any], computed: Sequence[dtype], out: dtype) -> bool:
    """Whether an implementation, for operands of these types, writes its result of the type wanted to ``out``."""
    ones = [np.ones(1, each.numpy) for each in computed]
    made = implementation(*ones)
    try:
        return bool(made.dtype == out.numpy) and implementation(*ones, out=np.empty_like(made)) is not None
    except TypeError:
        return False


def _convert(operand: Layout | None, target: dtype) -> Callable[[Any], Any] | None:
    if operand is None:
        return target.scalar
    if operand.dtype is target:
        return None
    numpy_dtype = target.numpy
    return lambda array: converted(array, numpy_dtype)


def _rounding(kind: dtype) -> Callable[[Any], Any]:
    return lambda number: kind.computed.scalar(float(kind.scalar(number)))


def _dividing(run: Run) -> Run:
    def checked(out: Any, *operands: Any) -> None:
        try:
            with np.errstate(all="ignore", divide="raise"):
                run(out, *operands)
        except FloatingPointError:
            raise IntegerDivisionError(
                "integers were divided by zero; floating-point tensors give inf or nan"
            ) from None

    return checked


def _copy(target: dtype, operand: Layout | None) -> Run:
    if operand is None:
        scalar = target.scalar

        @silent
        def run(out: Any, source: Any) -> None:
            out[...] = scalar(source)
    elif operand.dtype is target:

        def run(out: Any, source: Any) -> None:
            out[...] = source
    elif target.is_half or operand.dtype.is_half:
        run = silent(store)
    else:

        @silent
        def run(out: Any, source: Any) -> None:
            out[...] = source

    return run


def reduction(reduction: Reduction, computed: dtype, operand: Layout, axes: Shape) -> Run:
    """See ``Place.reduction``."""
    implementation = reduction.numpy
    target = None if operand.dtype is computed else computed.numpy

    @silent
    def run(*tensors: Any) -> None:
        *results, array, parameter = tensors
        if target is not None:
            array = converted(array, target)
        found = implementation(array, axes, parameter)
        if len(results) == 1:
            found = (found,)
        for out, each in zip(results, found, strict=True):
            out[...] = each

    return run


def matmul(out: Layout) -> Run:
    """See ``Place.matmul``."""
    if out.dtype.is_half:
        wide = np.dtype(np.float32)

        @silent
        def run(out: Any, a: Any, b: Any) -> None:
            store(out, np.matmul(converted(a, wide), converted(b, wide)))
    else:

        @silent
        def run(out: Any, a: Any, b: Any) -> None:
            np.matmul(a, b, out)

    return run


def product(a: Layout, turned: tuple[bool, bool]) -> tuple[Callable[..., Any], Run]:
    """See ``Place.product``: what makes the product as a new array, and what writes it."""
    turns_a, turns_b = turned
    inner = a.shape[-1]
    flat = len(a.shape) > 2

    def matrix(array: Any, turns: bool) -> Any:
        return array.T if turns else array

    @silent
    def made(a: Any, b: Any, row: Any = None) -> Any:
        left = a.reshape(-1, inner) if flat else matrix(a, turns_a)
        result = np.matmul(left, matrix(b, turns_b))
        if row is not None:
            np.add(result, row, result)
        return result.reshape(*a.shape[:-1], -1) if flat else result

    @silent
    def run(out: Any, a: Any, b: Any, row: Any = None) -> None:
        left = a.reshape(-1, inner) if flat else matrix(a, turns_a)
        result = out.reshape(-1, out.shape[-1]) if flat else out
        np.matmul(left, matrix(b, turns_b), result)
        if row is not None:
            np.add(result, row, result)

    return made, run


def fill(pattern: str, out: Layout) -> Run:
    """See ``Place.fill``."""
    found = PATTERNS[pattern]
    number = (float64 if found.floating else int64).scalar
    assert out.contiguous

    @silent
    def run(out: Any, *parameters: Any) -> None:
        found.numpy(out.reshape(-1), *map(number, parameters))

    return run


def random(distribution: str, out: Layout) -> Run:
    """See ``Place.random``."""
    count, shape, kind = out.numel, out.shape, out.dtype
    if out.contiguous:

        @silent
        def run(out: Any, *parameters: Any) -> None:
            distributions.fill(distribution, kind, out.reshape(-1), *parameters)
    else:

        @silent
        def run(out: Any, *parameters: Any) -> None:
            made = np.empty(count, kind.numpy)
            distributions.fill(distribution, kind, made, *parameters)
            out[...] = made.reshape(shape)

    return run


def take(axis: int) -> Run:
    """See ``Place.take``."""
    before = (slice(None),) * axis

    def run(out: Any, source: Any, *indices: Any) -> None:
        if len(indices) == 1 and source.flags.c_contiguous:  # NumPy would copy the whole source otherwise
            source.take(indices[0], axis, out, "wrap" if _within(indices[0], source.shape[axis], out) else "raise")
        else:
            out[...] = source[before + indices]

    return run


def _within(index: Any, length: int, out: Any) -> bool:
    """Whether indices are seen to be in range: NumPy then need not keep the result back until it knows. Worth the look
    where much is copied for each index, or more than fits into the processor's cache."""
    if out.nbytes < 1 << 16 or (out.size < 8 * index.size and out.nbytes < 1 << 20):
        return False
    return bool(index.min() >= -length and index.max() < length)


def taking(axis: int) -> Callable[..., Any]:
    """What ``take`` writes, as a new array."""
    before = (slice(None),) * axis

    def taken(source: Any, *indices: Any) -> Any:
        if len(indices) == 1 and source.flags.c_contiguous:
            return source.take(indices[0], axis)
        return source[before + indices]

    return taken


def put() -> Run:
    """See ``Place.put``."""

    def run(target: Any, values: Any, *indices: Any) -> None:
        target[indices] = values

    return run


def join(axis: int) -> Run:
    """See ``Place.join``."""

    def run(out: Any, *arrays: Any) -> None:
        np.concatenate(arrays, axis, out, casting="unsafe")

    return run


def rows(operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]) -> Run:
    """See ``Place.rows``."""
    implementation, many = operation.numpy, len(outs)
    if operation.kind in ("gather", "scatter"):  # these move what is stored

        def move(out: Any, *operands: Any) -> None:
            if operation.kind == "scatter":
                implementation(out, *operands)
            else:
                out[...] = implementation(*operands)

        return move
    wide = [each.dtype.computed.numpy if each.dtype.is_half else None for each in operands]
    if not _has_halves(outs, operands):

        @silent
        def run_as_it_is(*given: Any) -> None:
            found = implementation(*given[many:])
            if many == 1:
                given[0][...] = found
                return
            for out, each in zip(given, found):  # noqa: B905 - the operands come behind the results
                out[...] = each

        return run_as_it_is

    @silent
    def run(*given: Any) -> None:
        results, rest = given[:many], given[many:]
        ready = [each if kind is None else converted(each, kind) for kind, each in zip(wide, rest, strict=False)]
        found = implementation(*ready, *rest[len(wide) :])
        for out, each in zip(results, found if many > 1 else (found,), strict=True):
            store(out, each)

    return run


def row_results(
    operation: RowOperation, outs: Sequence[Layout], operands: Sequence[Layout]
) -> Callable[..., list[Any]] | None:
    """What ``rows`` writes, as new arrays, which takes less time than to make them first; None where elements are
    moved, or converted on the way."""
    if operation.kind in ("gather", "scatter") or _has_halves(outs, operands):
        return None
    implementation, many = operation.numpy, len(outs)
    wanted = [(each.dtype.numpy, each.lengths) for each in outs]

    @silent
    def made(*operands: Any) -> list[Any]:
        found = implementation(*operands)
        results = []
        for each, (kind, lengths) in zip((found,) if many == 1 else found, wanted, strict=True):
            own = each
            if each.base is not None or each.dtype != kind or each.shape != lengths or not each.flags.carray:
                own = np.empty(lengths, kind)
                own[...] = each
            results.append(own)
        return results

    return made


def _has_halves(outs: Sequence[Layout], operands: Sequence[Layout]) -> bool:
    return any(each.dtype.is_half for each in (*outs, *operands))


def update(line: Update, kind: dtype) -> Run:
    """See ``Place.update``: ``run(*written, flag if there is one, *read, *numbers, factor if there is one)``."""
    written, many, flags = len(line.written), len(line.tensors), line.shared == "flag"
    wide = kind.computed.numpy if kind.is_half else None
    implementation = line.run

    @silent
    def run(*given: Any) -> None:
        shared = None
        if flags:
            shared, given = given[written], (*given[:written], *given[written + 1 :])
        elif line.shared:
            shared, given = given[-1], given[:-1]
        flat = [each.reshape(-1) for each in given[:many]]
        arrays = flat if wide is None else [each.astype(wide) for each in flat]
        implementation(*arrays, *given[many:], shared)
        if wide is not None:
            for target, made in zip(flat[:written], arrays, strict=False):
                target[...] = made

    return run


def squares(kind: dtype) -> Run:
    """See ``Place.squares``."""
    computed = kind.computed.numpy

    @silent
    def run(out: Any, array: Any) -> None:
        flat = array.reshape(-1).astype(computed, copy=False)
        out[...] = np.dot(flat, flat)

    return run
