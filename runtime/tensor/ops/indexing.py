"""``tensor[...]``: views by integers, slices, None and Ellipsis; copies by integer and boolean tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtypes import bool_, int64
from ..core.layout import Layout, broadcast_shapes
from ..core.tensor import TensorCore
from ..places.elementwise_table import BY_NAME, COPY
from .elementwise import apply, apply_into
from .index_parts import check_mask, found_there, is_searched_there, positions, put_on, resolve, tensor_of
from .take_and_put import fill_where, filling, put, shortened, take, taken

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["IndexMethods"]


class IndexMethods(TensorCore):
    """The methods of a tensor that pick elements."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, TensorCore) and _is_plain(key._layout, self._layout):
            return taken(self, [key], key._layout.shape)  # type: ignore[arg-type, list-item]
        view, indices = resolve(self, key, writing=False)  # type: ignore[arg-type]
        return view if indices is None else take(view, indices)

    def __setitem__(self, key: Any, value: Any) -> None:
        target: Tensor = self  # type: ignore[assignment]
        if isinstance(value, (list, tuple, np.ndarray)):
            value = tensor_of(value)
        if isinstance(key, TensorCore) and key.dtype is bool_ and not (isinstance(value, TensorCore) and value.ndim):
            check_mask(key.shape, self.shape, 0)
            mask: Any = key if key._layout.place is self._layout.place else key.to(self.device)  # type: ignore[attr-defined]
            fill_where(target, mask, value)
            return
        view, indices = resolve(target, key, writing=True)
        if indices is not None:
            put(view, indices, value)
        elif isinstance(value, TensorCore):
            view.copy_(shortened(value, view.ndim))
        else:
            apply_into(COPY, view, value)

    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """Write ``value``, a number or a tensor without dimensions, where ``mask``, which broadcasts, is True.

        Raises:
            ValueError: ``value`` has dimensions.
        """
        return apply_into(BY_NAME["where"], self, mask, filling(self, value), self)  # type: ignore[arg-type]

    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """A copy with ``value`` where ``mask`` is True; it has the shape to which both broadcast."""
        return apply(BY_NAME["where"], mask, filling(self, value), self)

    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask``, which broadcasts with this tensor, is True, in one dimension."""
        shape = broadcast_shapes(self.shape, mask.shape)
        if not shape:
            return self.reshape(1)[mask.reshape(1)]
        source: Any = self if self.shape == shape else self.expand(*shape)
        return source[mask if mask.shape == shape else mask.expand(*shape)]  # type: ignore[no-any-return]

    def nonzero(self, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0: one row each, or one tensor a dimension. Waits for the device."""
        place = self._layout.place
        if is_searched_there(self._layout):
            there = found_there(self.reshape(self.shape or (1,)))
            return there.unbind(0) if as_tuple else there[: self.ndim].t()
        elements = place.read(self)  # type: ignore[arg-type]
        if as_tuple:
            return put_on(place, np.array(positions(elements.reshape(self.shape or (1,))))).unbind(0)
        found = positions(elements) if self.ndim else []
        rows = np.empty((len(found[0]) if found else np.count_nonzero(elements), self.ndim), np.int64)
        for axis, each in enumerate(found):
            rows[:, axis] = each
        return put_on(place, rows)

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The positions ``index`` of one dimension, in that order.

        Raises:
            IndexError: ``index`` has more than one dimension.
        """
        if index.ndim != 1:
            if index.ndim:
                raise IndexError(f"index_select: the index has {index.ndim} dimensions, and must have one")
            index = index.reshape(1)
        return self[(slice(None),) * (dim % (self.ndim or 1)) + (index,)]

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("a tensor without dimensions has nothing to go through")
        return iter(self.unbind(0))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor without dimensions has no length")
        return int(self.shape[0])

    if TYPE_CHECKING:

        def clone(self) -> Tensor: ...
        def expand(self, *size: Any) -> Tensor: ...
        def reshape(self, *shape: Any) -> Tensor: ...
        def unbind(self, dim: int = 0) -> tuple[Tensor, ...]: ...
        def item(self) -> Any: ...


def _is_plain(index: Layout, target: Layout) -> bool:
    """Whether an index tensor can be used as it is, and alone."""
    ready = index.dtype is int64 and index.contiguous and index.place is target.place
    return ready and bool(index.shape) and bool(target.shape)
