"""Views of a tensor's dimensions: in another order, with or without those of length 1, in parts. Nothing is copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import index as integer
from typing import Any

from ...core.gradient_seam import engine
from ...core.kept_views import kept, shown_as, titled
from ...core.layout import Layout
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.shapes import (
    Shape,
    Size,
    as_lengths,
    broadcast_shapes,
    broadcast_strides,
    existing_axis,
    given_once,
    normal_axes,
    normal_axis,
    shape_of,
)
from ...core.tensor import Tensor, make_tensor, view_of
from ...core.tensor_errors import ArgumentError, ElementTypeError, RangeError, ShapeError

__all__ = [
    "as_strided",
    "broadcast_tensors",
    "broadcast_to",
    "chunk",
    "conj",
    "diagonal",
    "movedim",
    "narrow",
    "permute",
    "select",
    "split",
    "squeeze",
    "swapaxes",
    "t",
    "transpose",
    "unbind",
    "unsqueeze",
]


@kept
def permute(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The dimensions in another order.

    Raises:
        ValueError: ``dims`` does not name each dimension once.
    """
    axes = given_once(axes, dims, "dims")
    axes = tuple(axes[0]) if len(axes) == 1 and not isinstance(axes[0], int) else axes
    ndim = needed(input).ndim
    order = [normal_axis(axis, ndim) for axis in axes]
    if sorted(order) != list(range(ndim)):
        raise ShapeError(f"permute: {list(axes)} does not name each of {ndim} dimensions once")
    shape, strides = input._layout.shape, input._layout.strides
    return view_of(input, tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order))


@kept
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged.

    Raises:
        IndexError: there is no such dimension.
    """
    ndim = needed(input).ndim
    a, b = normal_axis(dim0, ndim), normal_axis(dim1, ndim)
    layout = input._layout
    shape, strides = list(layout.shape), list(layout.strides)
    if shape:
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
    return view_of(input, tuple(shape), tuple(strides))


@kept
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other positions; the others keep their order.

    Raises:
        ArgumentError: the two name different numbers of dimensions, or one dimension twice.
    """
    ndim = needed(input).ndim
    old = [normal_axis(axis, ndim) for axis in as_lengths((source,))]
    new = [normal_axis(axis, ndim) for axis in as_lengths((destination,))]
    if len(old) != len(new):
        raise ArgumentError(
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)"
        )
    if len(set(old)) != len(old):
        raise ArgumentError(f"movedim: repeated dim in `source` ({source})")
    if len(set(new)) != len(new):
        raise ArgumentError(f"movedim: repeated dim in `destination` ({destination})")
    rest = iter([axis for axis in range(ndim) if axis not in old])
    places = dict(zip(new, old, strict=True))
    return permute(input, *[places[axis] if axis in places else next(rest) for axis in range(ndim)])


@kept
def t(input: Tensor) -> Tensor:
    """A matrix transposed; with fewer dimensions the tensor itself.

    Raises:
        ValueError: it has more than two dimensions.
    """
    if needed(input).ndim > 2:
        raise ShapeError(f"t() is for two dimensions at most, and this tensor has {input.ndim}; use .transpose(a, b)")
    return transpose(input, 0, 1) if input.ndim == 2 else view_of(input, input._layout.shape, input._layout.strides)


@kept
def reversed_dimensions(input: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    return view_of(input, tuple(input._layout.shape)[::-1], input._layout.strides[::-1])


@kept
def transposed_matrices(input: Tensor) -> Tensor:
    """The last two dimensions exchanged; a tensor without dimensions as it is.

    Raises:
        ValueError: it has one dimension.
    """
    if input.ndim == 1:
        raise ShapeError(
            ".mT, .mH and adjoint() are only supported on matrices or batches of matrices, and this tensor is 1-D"
        )
    return transpose(input, -2, -1) if input.ndim else transpose(input, 0, 0)


def transposed_matrix(input: Tensor) -> Tensor:
    """The two dimensions of a matrix exchanged; a tensor without dimensions as it is.

    Raises:
        ValueError: it has another number of dimensions.
    """
    if input.ndim not in (0, 2):
        raise ShapeError(
            f".H is only supported on matrices (2-D tensors), and this tensor is {input.ndim}-D; use .mH for several"
        )
    return transposed_matrices(input)


def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged: the conjugate transpose of matrices of real numbers.

    Raises:
        ValueError: the tensor has one dimension.
    """
    return transposed_matrices(input)


def conj(input: Tensor) -> Tensor:
    """The tensor itself: elements are real numbers, which are their own conjugates."""
    return input


@kept
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Without the dimensions of length 1: all of them, or those of ``dim`` that have it."""
    wanted = None if dim is None else as_lengths((dim,))
    axes = () if wanted == () else normal_axes(wanted, needed(input).ndim)
    kept = [axis for axis in range(input.ndim) if axis not in axes or input._layout.shape[axis] != 1]
    return view_of(
        input, tuple(input._layout.shape[axis] for axis in kept), tuple(input._layout.strides[axis] for axis in kept)
    )


@kept
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of length 1 inserted at ``dim``."""
    axis = normal_axis(dim, needed(input).ndim + 1)
    shape, strides = input._layout.shape, input._layout.strides
    step = shape[axis] * strides[axis] if axis < len(shape) else 1
    return view_of(input, (*shape[:axis], 1, *shape[axis:]), (*strides[:axis], step, *strides[axis:]))


def _why_not_expanded(own: Shape, wanted: Shape) -> str:
    """What forbids that dimensions are repeated so: the first sentence is torch's."""
    asked = f"Target sizes: {list(wanted)}. Tensor sizes: {list(own)}"
    added = len(wanted) - len(own)
    if added < 0:
        return (
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({len(own)}). {asked}"
        )
    for axis in reversed(range(len(own))):
        want, have = wanted[added + axis], own[axis]
        if want not in (-1, have) and have != 1:
            return (
                f"The expanded size of the tensor ({want}) must match the existing size ({have}) at non-singleton "
                f"dimension {added + axis}. {asked}"
            )
    if min(wanted) < -1:
        return f"expand: lengths are not negative, but for -1, which keeps one. {asked}"
    return f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension. {asked}"


@kept
def expand(input: Tensor, *lengths: Any, size: Any = None) -> Tensor:
    """Dimensions of length 1 repeated without a copy; -1 keeps a length, new dimensions stand in front.

    Raises:
        ValueError: a dimension of another length would have to be repeated, or a length is negative.
    """
    lengths = given_once(lengths, size, "size")
    wanted = as_lengths(lengths)
    added = len(wanted) - needed(input).ndim
    own = (1,) * added + input._layout.shape
    shape = tuple(have if want == -1 else want for want, have in zip(wanted, own[-len(wanted) or len(own) :]))  # noqa: B905
    forbidden = added < 0 or -1 in wanted[:added] or min(shape, default=0) < 0
    if forbidden or any(have not in (1, want) for want, have in zip(shape, own, strict=True)):
        raise ShapeError(_why_not_expanded(input._layout.shape, wanted))
    strides = list(broadcast_strides(input._layout.shape, input._layout.strides, shape))
    for axis in reversed(range(added)):  # of length 1, a new dimension has the stride that torch gives it
        if shape[axis] == 1 and axis + 1 < len(shape):
            strides[axis] = shape[axis + 1] * strides[axis + 1]
    return view_of(input, shape, tuple(strides))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """``expand`` to the shape of ``other``."""
    return expand(input, *layout_of(other).shape)


def broadcast_to(input: Tensor, *lengths: Any, size: Any = None) -> Tensor:
    """``expand``."""
    return expand(input, *given_once(lengths, size, "size"))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose``."""
    return transpose(input, axis0, axis1)


def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """``length`` positions of one dimension from ``start`` on, which may be a tensor without dimensions.

    Raises:
        IndexError: they reach beyond the dimension.
        TypeError: ``start`` is no integer.
    """
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind not in "ui"):
        raise ElementTypeError(
            f"narrow: the start is an integer, or a tensor of one without dimensions; this one is of {start.dtype!r} "
            f"and has {start.ndim}"
        )
    axis = existing_axis(dim, input.ndim)
    have = input._layout.shape[axis]
    start = integer(start)
    begin = start + have if start < 0 else start
    if length < 0 or begin < 0 or begin + length > have:
        raise RangeError(f"narrow: positions {start} to {start + length} of a dimension of length {have}")
    own = input._layout
    found = own.plans.get((narrow, axis, length))
    if found is None:
        shape = (*own.shape[:axis], length, *own.shape[axis + 1 :])
        found = own.plans[narrow, axis, length] = Layout.of(own.place, own.dtype, shape, own.strides)
    return shown_as(input, found, input._offset + begin * own.strides[axis], "SliceBackward")


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One position of one dimension, which then is gone.

    Raises:
        IndexError: there is no such position.
    """
    try:
        own = input._layout
    except AttributeError:
        raise no_tensor(input) from None
    axis = existing_axis(dim, len(own.shape))
    length = tuple.__getitem__(own.shape, axis)
    position = integer(index)
    if not -length <= position < length:
        raise IndexError(f"index {position} is out of bounds for dimension {axis} with size {length}")
    found = own.plans.get((select, axis))
    if found is None:
        shape, strides = tuple(own.shape), own.strides
        without = (*shape[:axis], *shape[axis + 1 :]), (*strides[:axis], *strides[axis + 1 :])
        found = own.plans[select, axis] = Layout.of(own.place, own.dtype, *without)
    return shown_as(input, found, input._offset + position % length * own.strides[axis], "SelectBackward")


def unbind(input: Tensor, dim: int = 0, *, axis: int | None = None) -> tuple[Tensor, ...]:
    """The positions of one dimension, each as a view; ``axis`` means ``dim``."""
    shape = layout_of(input).shape
    axis = normal_axis(dim if axis is None else axis, len(shape))
    length = shape[axis]
    return _pieces(input, axis, range(length), [None] * length, "UnbindBackward")


def _pieces(
    input: Tensor, axis: int, starts: Iterable[int], lengths: Iterable[int | None], title: str
) -> tuple[Tensor, ...]:
    """Views of parts of a dimension, which is gone where the length is None. Those of one length share a layout."""
    own = input._layout
    shape, strides = tuple(own.shape), own.strides
    step = strides[axis]
    layouts: dict[int | None, Layout] = {}
    pieces = []
    for start, length in zip(starts, lengths):  # noqa: B905 - as many
        layout = layouts.get(length)
        if layout is None:
            middle = () if length is None else (length,)
            layout = layouts[length] = Layout.of(
                own.place,
                own.dtype,
                (*shape[:axis], *middle, *shape[axis + 1 :]),
                (*strides[:axis], *(() if length is None else (step,)), *strides[axis + 1 :]),
            )
        pieces.append(make_tensor(input._storage, input._offset + start * step, layout))
    if not own.tracked:
        return tuple(pieces)
    return tuple(engine().pieces(input, pieces, title))


_SIZES = frozenset((int, list, tuple))


def split(
    input: Tensor, split_size: Any = None, dim: int = 0, *, split_size_or_sections: Any = None
) -> tuple[Tensor, ...]:
    """Pieces along one dimension: of one size (the last may be smaller), or of the sizes given.

    Args:
        input: the tensor.
        split_size: the size, or a sequence of sizes; ``split_size_or_sections`` means the same.
        dim: the dimension.
        split_size_or_sections: torch's name of it for the function.

    Raises:
        ValueError: the sizes do not add up to the dimension's length.
        TypeError: there is neither, or both.
    """
    if split_size_or_sections is not None:
        given = () if split_size is None else (split_size,)
        (split_size,) = given_once(given, split_size_or_sections, "split_size_or_sections")
    shape = layout_of(input).shape
    axis = existing_axis(dim, len(shape))
    length = shape[axis]
    usual = type(split_size) in _SIZES or isinstance(split_size, Sequence)
    if not usual and not getattr(split_size, "ndim", 0):
        split_size = integer(split_size)
    if isinstance(split_size, int):
        if split_size < 0 or not (split_size or not length):
            raise ArgumentError(f"split: a piece has at least length 1, not {split_size}")
        sizes: Sequence[int] = [min(split_size, length - at) for at in range(0, length, split_size or 1)] or [0]
    else:
        sizes = as_lengths((split_size,))
        if sum(sizes) != length or min(sizes, default=0) < 0:
            raise ShapeError(f"split: sizes {list(sizes)} do not add up to the length {length} of dimension {dim}")
    title = "SplitBackward" if isinstance(split_size, int) else "SplitWithSizesBackward"
    return _pieces(input, axis, accumulate(sizes, initial=0), sizes, title)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size (the last may be smaller) along one dimension.

    Raises:
        ArgumentError: ``chunks`` is less than 1.
    """
    if chunks < 1:
        raise ArgumentError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    shape = layout_of(input).shape
    length = shape[existing_axis(dim, len(shape))]
    return split(input, -(-length // chunks), dim) if length else split(input, [0] * chunks, dim)


@kept
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose positions in two dimensions differ by ``offset``, as the last dimension.

    Raises:
        ArgumentError: the two dimensions are the same.
    """
    a, b = normal_axis(dim1, needed(input).ndim), normal_axis(dim2, input.ndim)
    if a == b:
        raise ArgumentError("diagonal: the two dimensions must differ")
    shape, strides = input._layout.shape, input._layout.strides
    offset = integer(offset)
    down, right = max(-offset, 0), max(offset, 0)
    length = max(min(shape[a] - down, shape[b] - right), 0)
    start = input._offset + (down * strides[a] + right * strides[b] if length else 0)
    rest = [axis for axis in range(input.ndim) if axis not in (a, b)]
    return view_of(
        input,
        (*(shape[axis] for axis in rest), length),
        (*(strides[axis] for axis in rest), strides[a] + strides[b]),
        start,
    )


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """Any shape and strides over the storage, in elements.

    Raises:
        ValueError: they reach beyond the storage, or a length is negative.
    """
    if len(size) != len(stride):
        raise ShapeError(f"mismatch in length of strides and shape: {len(size)} lengths and {len(stride)} strides")
    own = layout_of(input)
    offset = input._offset if storage_offset is None else integer(storage_offset)
    shape, strides = shape_of((size,)), as_lengths((stride,))
    layout = Layout(own.place, own.dtype, own.shape.__class__(shape), strides)
    low, high = layout.span()
    if offset + low < 0 or (offset + high) * input.itemsize > input._storage.length:
        raise ShapeError(
            f"as_strided: shape {list(shape)} with strides {list(strides)} from element {offset} on does not lie in "
            f"a storage of {input._storage.length // input.itemsize} elements"
        )
    return titled(view_of(input, shape, strides, offset), "AsStridedBackward")


def as_strided_(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """``as_strided``, in place: the tensor itself becomes the view."""
    return _become(input, as_strided(input, size, stride, storage_offset))


def squeeze_(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """``squeeze``, in place: the tensor itself becomes the view."""
    return _become(input, squeeze(input, dim))


def unsqueeze_(input: Tensor, dim: int) -> Tensor:
    """``unsqueeze``, in place: the tensor itself becomes the view."""
    return _become(input, unsqueeze(input, dim))


def swapaxes_(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """``transpose_``."""
    return transpose_(input, axis0, axis1)


def transpose_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose``, in place: the tensor itself becomes the view."""
    return _become(input, transpose(input, dim0, dim1))


def t_(input: Tensor) -> Tensor:
    """``t``, in place: the tensor itself becomes the view."""
    return _become(input, t(input))


def _become(input: Tensor, view: Tensor) -> Tensor:
    if input._layout.tracked:
        engine().become(input, view)
    input._layout, input._offset, input._array = view._layout, view._offset, None
    return input


def common_shape(*shapes: int | Sequence[int]) -> Size:
    """``broadcast_shapes``: the shape to which all ``shapes`` broadcast; one number stands for one dimension.

    Raises:
        ValueError: they do not, a length is negative, or one is neither an integer nor a sequence.
    """
    for each in shapes:
        if not isinstance(each, (int, tuple, list)):
            raise ArgumentError(f"broadcast_shapes: a shape is an integer or a sequence of them, not {each!r}")
    given = [Size((each,) if isinstance(each, int) else each) for each in shapes]
    for shape in given:
        if min(shape, default=0) < 0:
            raise ShapeError(f"broadcast_shapes: {list(shape)} has a negative length")
    return Size(broadcast_shapes(*given)) if given else Size()


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    Raises:
        ValueError: they do not broadcast.
    """
    shape = broadcast_shapes(*(layout_of(each).shape for each in tensors))
    return tuple(expand(each, *shape) if shape else each for each in tensors)
