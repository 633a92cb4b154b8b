"""How a tensor's elements lie in memory: shape and strides, with the element type and the place.

Layouts are interned by their place: equal ones are one object, which carries what was worked out about it and the
*plans* of the operations that were done with it. A repeated operation is then one dictionary look-up by identity.
"""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from ...machine.device_name import device
from .dtypes import dtype
from .shapes import Shape, Size, contiguous_strides, is_contiguous, iteration_strides
from .tensor_errors import ShapeError

_MOST_DIMENSIONS = 64  # of arrays of NumPy, which computes on the CPU
_MOST_LAYOUTS = 4096
_MOST_PLANS = 512


class Layout:
    """Shape and strides in elements of one element type, at one place. Made by ``Layout.of``, never changed."""

    __slots__ = (
        "_twin",
        "byte_strides",
        "contiguous",
        "dtype",
        "lengths",
        "nbytes",
        "numel",
        "place",
        "plans",
        "shape",
        "strides",
    )

    tracked: ClassVar[bool] = False
    """Whether tensors of this layout require gradients: see ``gradient_seam.py``."""

    def __init__(self, place: Location, dtype: dtype, shape: Size, strides: Shape) -> None:
        """A layout of its own: ``of`` gives those that tensors share.

        Raises:
            ShapeError: 64 bits do not count the bytes, or there are more dimensions than NumPy's arrays have.
        """
        self.place = place
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        """In elements. The stride of a dimension of length 0 or 1 means nothing."""
        self.lengths = tuple(shape)
        """``shape`` for NumPy, which asks a ``Size`` for each length, and takes twice the time."""
        self.byte_strides = tuple(stride * dtype.itemsize for stride in strides)
        self.numel = prod(shape)
        self.nbytes = self.numel * dtype.itemsize
        """The bytes of all elements, as if they lay side by side."""
        if len(shape) > _MOST_DIMENSIONS:
            raise ShapeError(f"a tensor has at most {_MOST_DIMENSIONS} dimensions, and {len(shape)} are asked for")
        reach = sum(abs(step) * (length - 1) for step, length in zip(strides, shape, strict=True) if self.numel)
        if max(self.nbytes, reach * dtype.itemsize, *strides, 0) >= 2**63:
            what = "Storage size" if self.numel else "Stride"  # a tensor without elements has strides, too
            raise ShapeError(
                f"{what} calculation overflowed with sizes={list(shape)}: that is more bytes than 64 bits count"
            )
        self.contiguous = is_contiguous(shape, strides)
        """Whether the elements lie side by side in row-major order."""
        self.plans: dict[Any, Any] = _Plans()
        self._twin: TrackedLayout | None = None

    @property
    def plain(self) -> Layout:
        """The same layout of tensors that require no gradients."""
        return self

    @property
    def twin(self) -> TrackedLayout:
        """The same layout of tensors that require gradients."""
        if self._twin is None:
            self._twin = TrackedLayout(self)
        return self._twin

    @staticmethod
    def of(place: Location, dtype: dtype, shape: Shape, strides: Shape | None = None) -> Layout:
        """The layout with these properties; without ``strides`` the contiguous one."""
        key = (dtype, shape, strides)
        layouts = place.layouts
        found = layouts.get(key)
        if found is None:
            if len(layouts) >= _MOST_LAYOUTS:
                layouts.clear()  # those in use live on with their tensors
            size = Size(shape)
            default = contiguous_strides(size)
            found = layouts.get((dtype, size, default))
            if strides is not None and strides != default:
                found = Layout(place, dtype, size, strides)
            elif found is None:
                found = layouts[dtype, size, default] = Layout(place, dtype, size, default)
            layouts[dtype, size, strides] = found
        return found

    def like(self, dtype: dtype | None = None, shape: Shape | None = None) -> Layout:
        """The contiguous layout at the same place, of another type or shape."""
        return Layout.of(self.place, dtype or self.dtype, self.shape if shape is None else shape)

    def span(self) -> tuple[int, int]:
        """The first and the one after the last element that is used, relative to element [0, ..., 0]."""
        if self.contiguous or not self.numel:
            return 0, self.numel
        low = high = 0
        for length, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += stride * (length - 1)
            else:
                high += stride * (length - 1)
        return low, high + 1

    def overlaps_itself(self) -> bool:
        """Whether several indices may mean one element, as in an expanded tensor. Never wrong when it says no."""
        reach = 0
        steps = sorted(
            (abs(stride), length) for length, stride in zip(self.shape, self.strides, strict=True) if length > 1
        )
        for stride, length in steps:
            if stride <= reach:
                return bool(self.numel)
            reach += stride * (length - 1)
        return False

    def kept_strides(self) -> Shape:
        """The strides of a copy: the same if these leave no gaps, else the dimensions in the same order in memory."""
        return self.dense_order() or iteration_strides(self.shape, [self.strides])

    def dense_order(self) -> Shape | None:
        """The strides, if the elements fill their span without gaps in some order of the dimensions; else None."""
        if self.contiguous:
            return self.strides
        expected = 1
        for stride, length in sorted(
            (stride, length) for length, stride in zip(self.shape, self.strides, strict=True) if length > 1
        ):
            if stride != expected:
                return None
            expected *= length
        return self.strides


class TrackedLayout(Layout):
    """The layout of tensors that require gradients. The plans that stand in it come from who records them."""

    __slots__ = ("_plain",)

    tracked = True

    def __init__(self, plain: Layout) -> None:
        super().__init__(plain.place, plain.dtype, plain.shape, plain.strides)
        self._plain = plain

    @property
    def plain(self) -> Layout:
        """The same layout of tensors that require no gradients."""
        return self._plain

    @property
    def twin(self) -> TrackedLayout:
        """This layout."""
        return self


class Location:
    """Where tensors can be: the CPU, or a device of a runtime. What it can do is the matter of ``places``."""

    def __init__(self, device: device) -> None:
        self.device = device
        """Its name."""
        self.layouts: dict[Any, Layout] = {}
        """Every layout in use here: see ``Layout.of``."""


class _Plans(dict[Any, Any]):
    """What was prepared for one layout. Bounded: other operands' shapes may depend on data, and never come again."""

    __slots__ = ()

    def __setitem__(self, key: Any, plan: Any) -> None:
        if len(self) >= _MOST_PLANS:
            self.clear()
        super().__setitem__(key, plan)
