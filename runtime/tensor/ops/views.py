"""Views: other shapes and strides over the same storage. Nothing here copies, but for ``reshape`` where it must."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import prod
from operator import index as integer
from typing import TYPE_CHECKING, Any

from ..core.dtypes import dtype
from ..core.layout import (
    Layout,
    broadcast_strides,
    normal_axes,
    normal_axis,
)
from ..core.tensor import TensorCore, make
from ..core.tensor_errors import ArgumentError, RangeError, ShapeError
from .reshaping import completed, given, strides_for, viewed_as

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["ViewMethods"]


class ViewMethods(TensorCore):
    """The methods of a tensor that return views."""

    __slots__ = ()

    def view(self, *size: Any) -> Tensor:
        """The same elements in another shape, in which one length may be -1; or, given a dtype, the same bytes as
        elements of another type: of another size, the last dimension becomes longer or shorter.

        Raises:
            ValueError: the number of elements differs, or the strides do not allow it without a copy.
        """
        if len(size) == 1 and isinstance(size[0], dtype):
            return viewed_as(self, size[0])
        shape = completed(size, self._layout.numel)
        strides = strides_for(self._layout, shape)
        if strides is None:
            raise ShapeError(
                f"view: a tensor of shape {list(self.shape)} and strides {list(self.stride())} cannot be seen as "
                f"{list(shape)} without a copy; use .reshape(...), which copies where it must"
            )
        return self._view(shape, strides)

    def view_as(self, other: Tensor) -> Tensor:
        """``view`` with the shape of ``other``."""
        return self.view(*other.shape)

    def reshape(self, *shape: Any, **named: Any) -> Tensor:
        """The same elements in another shape, in which one length may be -1: a view if it can be, else a copy.

        Raises:
            ValueError: the number of elements differs.
        """
        wanted = completed(given(shape, named, "shape"), self._layout.numel)
        strides = strides_for(self._layout, wanted)
        if strides is None:
            return self.contiguous().view(wanted)
        return self._view(wanted, strides)

    def reshape_as(self, other: Tensor) -> Tensor:
        """``reshape`` with the shape of ``other``."""
        return self.reshape(*other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The dimensions from ``start_dim`` to ``end_dim`` made one.

        Raises:
            IndexError: there is no such dimension.
        """
        shape = self.shape
        first, last = normal_axis(start_dim, len(shape)), normal_axis(end_dim, len(shape))
        if not shape:
            return self.reshape(1)
        if first > last:
            raise ArgumentError(f"flatten: dimension {start_dim} comes after dimension {end_dim}")
        if first == last:
            return self  # type: ignore[return-value]
        return self.reshape(*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])

    ravel = flatten

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One dimension made several, one of which may be -1."""
        axis = self._axis(dim)
        parts = completed(tuple(sizes), self.shape[axis])
        return self.reshape(*self.shape[:axis], *parts, *self.shape[axis + 1 :])

    def contiguous(self) -> Tensor:
        """This tensor if its elements lie side by side in row-major order, else a copy in which they do."""
        return self if self._layout.contiguous else self._contiguous_copy()  # type: ignore[return-value]

    def permute(self, *dims: Any, **named: Any) -> Tensor:
        """The dimensions in another order.

        Raises:
            ValueError: ``dims`` does not name each dimension once.
        """
        dims = given(dims, named, "dims")
        axes = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
        ndim = self.ndim
        order = [normal_axis(axis, ndim) for axis in axes]
        if sorted(order) != list(range(ndim)):
            raise ShapeError(f"permute: {list(axes)} does not name each of {ndim} dimensions once")
        shape, strides = self.shape, self.stride()
        return self._view(tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged.

        Raises:
            IndexError: there is no such dimension.
        """
        ndim = self.ndim
        a, b = normal_axis(dim0, ndim), normal_axis(dim1, ndim)
        shape, strides = list(self.shape), list(self.stride())
        if shape:
            shape[a], shape[b] = shape[b], shape[a]
            strides[a], strides[b] = strides[b], strides[a]
        return self._view(tuple(shape), tuple(strides))

    swapaxes = transpose
    swapdims = transpose

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """Dimensions moved to other positions; the others keep their order."""
        ndim = self.ndim
        old = [normal_axis(axis, ndim) for axis in ([source] if isinstance(source, int) else source)]
        new = [normal_axis(axis, ndim) for axis in ([destination] if isinstance(destination, int) else destination)]
        if len(old) != len(new) or len(set(old)) != len(old) or len(set(new)) != len(new):
            raise ArgumentError(f"movedim: {source} and {destination} must name as many dimensions, none of them twice")
        rest = iter(axis for axis in range(ndim) if axis not in old)
        places = dict(zip(new, old, strict=True))
        return self.permute(*(places[axis] if axis in places else next(rest) for axis in range(ndim)))

    moveaxis = movedim

    def t(self) -> Tensor:
        """A matrix transposed; with fewer dimensions the tensor itself.

        Raises:
            ValueError: it has more than two dimensions.
        """
        if self.ndim > 2:
            raise ShapeError(
                f"t() is for two dimensions at most, and this tensor has {self.ndim}; use .transpose(a, b)"
            )
        return self.transpose(0, 1) if self.ndim == 2 else self._view(self.shape, self.stride())

    @property
    def T(self) -> Tensor:  # noqa: N802 - torch's name
        """All dimensions in reverse order."""
        return self._view(self.shape[::-1], self.stride()[::-1])

    @property
    def mT(self) -> Tensor:  # noqa: N802 - torch's name
        """The last two dimensions exchanged."""
        return self.transpose(-2, -1)

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without the dimensions of length 1: all of them, or those of ``dim`` that have it."""
        axes = () if dim is not None and not isinstance(dim, int) and not dim else normal_axes(dim, self.ndim)
        kept = [axis for axis in range(self.ndim) if axis not in axes or self.shape[axis] != 1]
        return self._view(tuple(self.shape[axis] for axis in kept), tuple(self.stride()[axis] for axis in kept))

    def unsqueeze(self, dim: int) -> Tensor:
        """With a dimension of length 1 inserted at ``dim``."""
        axis = normal_axis(dim, self.ndim + 1)
        shape, strides = self.shape, self.stride()
        step = shape[axis] * strides[axis] if axis < len(shape) else 1
        return self._view((*shape[:axis], 1, *shape[axis:]), (*strides[:axis], step, *strides[axis:]))

    def expand(self, *size: Any, **named: Any) -> Tensor:
        """Dimensions of length 1 repeated without a copy; -1 keeps a length, new dimensions stand in front.

        Raises:
            ValueError: a dimension of another length would have to be repeated.
        """
        size = given(size, named, "size")
        wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        added = len(wanted) - self.ndim
        own = (1,) * added + self.shape
        shape = tuple(have if want == -1 else want for want, have in zip(wanted, own[-len(wanted) or len(own) :]))  # noqa: B905
        if (
            added < 0
            or -1 in wanted[:added]
            or any(have not in (1, want) for want, have in zip(shape, own, strict=True))
        ):
            raise ShapeError(f"expand: a tensor of shape {list(self.shape)} does not expand to {list(wanted)}")
        return self._view(shape, broadcast_strides(self.shape, self.stride(), shape))

    def expand_as(self, other: Tensor) -> Tensor:
        """``expand`` to the shape of ``other``."""
        return self.expand(*other.shape)

    def broadcast_to(self, *size: Any) -> Tensor:
        """``expand``."""
        return self.expand(*size)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """``length`` positions of one dimension from ``start`` on.

        Raises:
            IndexError: they reach beyond the dimension.
        """
        axis = self._axis(dim)
        have = self.shape[axis]
        start = integer(start)
        begin = start + have if start < 0 else start
        if length < 0 or begin < 0 or begin + length > have:
            raise RangeError(f"narrow: positions {start} to {start + length} of a dimension of length {have}")
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        return self._view(shape, self.stride(), self._offset + begin * self.stride()[axis])

    def select(self, dim: int, index: int) -> Tensor:
        """One position of one dimension, which then is gone.

        Raises:
            IndexError: there is no such position.
        """
        axis = self._axis(dim)
        length, step = self.shape[axis], self.stride()[axis]
        position = integer(index)
        if not -length <= position < length:
            raise IndexError(f"index {position} is out of bounds for dimension {axis} of length {length}")
        offset = self._offset + position % length * step
        shape, strides = self.shape, self.stride()
        return self._view((*shape[:axis], *shape[axis + 1 :]), (*strides[:axis], *strides[axis + 1 :]), offset)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The positions of one dimension, each as a view."""
        axis = normal_axis(dim, self.ndim)
        return self._pieces(axis, range(self.shape[axis]), [None] * self.shape[axis])

    def _pieces(self, axis: int, starts: Iterable[int], lengths: Iterable[int | None]) -> tuple[Tensor, ...]:
        """Views of parts of a dimension, which is gone where the length is None. Those of one length share a layout."""
        own = self._layout
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
            pieces.append(make(self._storage, self._offset + start * step, layout))
        return tuple(pieces)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along one dimension: of one size (the last may be smaller), or of the sizes given.

        Raises:
            ValueError: the sizes do not add up to the dimension's length.
        """
        axis = self._axis(dim)
        length = self.shape[axis]
        if isinstance(split_size, int):
            if split_size < 0 or not (split_size or not length):
                raise ArgumentError(f"split: a piece has at least length 1, not {split_size}")
            sizes = [min(split_size, length - start) for start in range(0, length, split_size or 1)] or [0]
        else:
            sizes = list(split_size)
            if sum(sizes) != length or min(sizes, default=0) < 0:
                raise ShapeError(f"split: sizes {sizes} do not add up to the length {length} of dimension {dim}")
        return self._pieces(axis, accumulate(sizes, initial=0), sizes)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most ``chunks`` pieces of equal size (the last may be smaller) along one dimension."""
        if chunks < 1:
            raise ArgumentError(f"chunk: into 1 piece at least, not {chunks}")
        length = self.shape[self._axis(dim)]
        return self.split(-(-length // chunks), dim) if length else self.split([0] * chunks, dim)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements whose positions in two dimensions differ by ``offset``, as the last dimension."""
        a, b = normal_axis(dim1, self.ndim), normal_axis(dim2, self.ndim)
        if a == b:
            raise ArgumentError("diagonal: the two dimensions must differ")
        shape, strides = self.shape, self.stride()
        down, right = max(-offset, 0), max(offset, 0)
        length = max(min(shape[a] - down, shape[b] - right), 0)
        start = self._offset + (down * strides[a] + right * strides[b] if length else 0)
        rest = [axis for axis in range(self.ndim) if axis not in (a, b)]
        return self._view(
            (*(shape[axis] for axis in rest), length),
            (*(strides[axis] for axis in rest), strides[a] + strides[b]),
            start,
        )

    def as_strided(self, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
        """Any shape and strides over the storage, in elements.

        Raises:
            ValueError: they reach beyond the storage.
        """
        if len(size) != len(stride):
            raise ShapeError(f"as_strided: {len(size)} lengths and {len(stride)} strides")
        offset = self._offset if storage_offset is None else storage_offset
        layout = Layout(self._layout.place, self.dtype, self._layout.shape.__class__(size), tuple(stride))
        low, high = layout.span()
        if offset + low < 0 or (offset + high) * self.itemsize > self._storage.nbytes:
            raise ShapeError(
                f"as_strided: shape {list(size)} with strides {list(stride)} from element {offset} on does not lie in "
                f"a storage of {self._storage.nbytes // self.itemsize} elements"
            )
        return self._view(tuple(size), tuple(stride), offset)

    def _axis(self, dim: int) -> int:
        """``dim`` counted from the front, of a tensor that must have dimensions."""
        if not self.ndim:
            raise RangeError(f"dimension {dim} was asked for; the tensor has none")
        return normal_axis(dim, self.ndim)

    def _become(self, view: Tensor) -> Tensor:
        self._layout, self._offset, self._array = view._layout, view._offset, None
        return self  # type: ignore[return-value]

    if TYPE_CHECKING:

        def _contiguous_copy(self) -> Tensor: ...


def _in_place(name: str) -> Callable[..., Tensor]:
    view = getattr(ViewMethods, name)

    def method(self: ViewMethods, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(view(self, *args, **kwargs))

    method.__name__ = method.__qualname__ = f"{name}_"
    method.__doc__ = f"``{name}``, in place: this tensor becomes the view."
    return method


for _name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims"):
    setattr(ViewMethods, f"{_name}_", _in_place(_name))
