"""Copies whose elements stand in another order, or several times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.layout import Layout, Shape, normal_axes, shape_of
from ..core.tensor import TensorCore
from ..core.tensor_errors import ShapeError
from ..places.elementwise_table import COPY
from .elementwise import apply_into
from .reshaping import given

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["ArrangeMethods"]


class ArrangeMethods(TensorCore):
    """The methods of a tensor that copy it in another arrangement."""

    __slots__ = ()

    def flip(self, *dims: Any, **named: Any) -> Tensor:
        """Some dimensions reversed."""
        dims = given(dims, named, "dims")
        which = dims[0] if len(dims) == 1 else dims
        axes = normal_axes(which, self.ndim) if isinstance(which, int) or which else ()
        offset, strides = self._offset, list(self.stride())
        for axis in axes:
            offset += max(self.shape[axis] - 1, 0) * strides[axis]
            strides[axis] = -strides[axis]
        own = self._layout
        out = own.place.empty(Layout.of(own.place, own.dtype, own.shape, own.kept_strides()))
        return apply_into(COPY, out, self._view(own.shape, tuple(strides), offset))

    def repeat(self, *sizes: Any) -> Tensor:
        """Each dimension one after another as often as ``sizes`` says; additional ones stand in front.

        Raises:
            ValueError: there are fewer sizes than dimensions.
        """
        counts = shape_of(sizes)
        added = len(counts) - self.ndim
        if added < 0:
            raise ShapeError(f"repeat: {len(counts)} sizes for a tensor of {self.ndim} dimensions")
        return self._repeated(counts, (1,) * added + self.shape)

    def tile(self, *dims: Any) -> Tensor:
        """``repeat``; where ``dims`` are fewer than the dimensions, it says how often to repeat the last ones."""
        counts = shape_of(dims)
        ndim = max(len(counts), self.ndim)
        return self._repeated((1,) * (ndim - len(counts)) + counts, (1,) * (ndim - self.ndim) + self.shape)

    def _repeated(self, counts: Shape, shape: Shape) -> Tensor:
        own = self._layout
        strides = (0,) * (len(shape) - self.ndim) + own.strides
        pairs = [each for pair in zip(counts, shape, strict=True) for each in pair]
        steps = [each for stride in strides for each in (0, stride)]
        final = Layout.of(own.place, own.dtype, tuple(n * length for n, length in zip(counts, shape, strict=True)))
        out = own.place.empty(final)
        apply_into(COPY, out.view(*pairs) if pairs else out, self._view(tuple(pairs), tuple(steps)))
        return out
