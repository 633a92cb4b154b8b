"""Copies: between types, between places, with and without waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backends.host_place import HOST
from ..core.device_name import device as Device  # noqa: N812 - torch's class has a small name
from ..core.dtypes import dtype, dtype_of
from ..core.layout import Layout
from ..core.tensor import TensorCore, make
from ..core.tensor_errors import ArgumentError, ShapeError
from ..places.elementwise_table import COPY
from ..places.place import Place
from ..places.registry import place_of
from .elementwise import apply1, apply_into

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["CopyMethods", "copied_to", "pinned_empty"]


class CopyMethods(TensorCore):
    """The methods of a tensor that copy it, or convert what it holds."""

    __slots__ = ()

    def clone(self) -> Tensor:
        """A copy with the same strides where they leave no gaps, else in row-major order."""
        return apply1(COPY, self)  # type: ignore[arg-type]

    def _contiguous_copy(self) -> Tensor:
        out = self._layout.place.empty(self._layout.like())
        return apply_into(COPY, out, self)

    def detach(self) -> Tensor:
        """The tensor as a view: there are no gradients to detach from."""
        return self._view(self.shape, self.stride())

    def copy_(self, src: Any, non_blocking: bool = False) -> Tensor:
        """Write the elements of ``src``, of any type and on any device, broadcast to this shape.

        Copies from and to the host wait until they are done. With ``non_blocking`` those from and to page-locked
        memory do not: the program then must not change the host memory before the stream has been synchronised.

        Raises:
            ValueError: ``src`` does not broadcast to this shape.
        """
        target: Tensor = self  # type: ignore[assignment]
        if isinstance(src, TensorCore) and src._layout.place is not self._layout.place:
            if src.shape != self.shape:
                src = src.expand(*self.shape)  # type: ignore[attr-defined]
            _across(target, src, non_blocking)
            return target
        return apply_into(COPY, target, src)

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(other)`` (the device and type of a tensor), each
        also by keyword, with ``non_blocking`` and ``copy``. The tensor itself if nothing would change.

        Raises:
            TypeError: the arguments are none of these.
            CuplugError: there is no such device.
        """
        place, kind, non_blocking, copy = _destination(self, args, kwargs)
        return copied_to(self, place, kind, non_blocking=non_blocking, always=copy)  # type: ignore[arg-type]

    def cuda(self, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        """The tensor on a CUDA device, by default the current one; itself if it is there.

        The keyword ``async`` of old programs, which Python reserves since 3.7, is understood in ``**{"async": True}``.

        Raises:
            CuplugError: there is no CUDA device.
        """
        non_blocking = bool(kwargs.pop("async", non_blocking))
        if kwargs:
            raise TypeError(f"cuda() got unexpected arguments: {', '.join(kwargs)}")
        named = Device("cuda" if device is None else device)
        if named.type != "cuda":
            raise ArgumentError(f"cuda() moves to a CUDA device; {named!r} is none, use .to({str(named)!r})")
        return copied_to(self, place_of(named), non_blocking=non_blocking)  # type: ignore[arg-type]

    def cpu(self) -> Tensor:
        """The tensor on the CPU; itself if it is there. Waits until the copy is done."""
        return copied_to(self, HOST)  # type: ignore[arg-type]

    def type_as(self, other: Tensor) -> Tensor:
        """The tensor with the element type and the device of another."""
        return self.to(other)

    def pin_memory(self) -> Tensor:
        """A copy of a CPU tensor in page-locked memory; itself if it lies there.

        Raises:
            CuplugError: there is no CUDA device, or the tensor is on one.
        """
        if self._storage.pinned:
            return self  # type: ignore[return-value]
        if not self.is_cpu:
            raise ArgumentError(f"only CPU tensors can be pinned, and this one is on {self.device}")
        return apply_into(COPY, pinned_empty(self._layout.like()), self)

    def half(self) -> Tensor:
        """As float16."""
        return self.to("float16")

    def bfloat16(self) -> Tensor:
        """As bfloat16."""
        return self.to("bfloat16")

    def float(self) -> Tensor:
        """As float32."""
        return self.to("float32")

    def double(self) -> Tensor:
        """As float64."""
        return self.to("float64")

    def bool(self) -> Tensor:
        """As bool: whether each element differs from 0."""
        return self.to("bool")

    def byte(self) -> Tensor:
        """As uint8."""
        return self.to("uint8")

    def char(self) -> Tensor:
        """As int8."""
        return self.to("int8")

    def short(self) -> Tensor:
        """As int16."""
        return self.to("int16")

    def int(self) -> Tensor:
        """As int32."""
        return self.to("int32")

    def long(self) -> Tensor:
        """As int64."""
        return self.to("int64")


def copied_to(
    source: Tensor, place: Place, kind: dtype | None = None, *, non_blocking: bool = False, always: bool = False
) -> Tensor:
    """``source`` at another place or as another type; itself if it is so already, unless ``always``."""
    own = source._layout
    kind = kind or own.dtype
    if own.place is place and own.dtype is kind:
        return source.clone() if always else source
    if own.place is not place and not own.contiguous and own.dense_order() is None:
        source = source.contiguous()
        own = source._layout
    out = place.empty(Layout.of(place, kind, own.shape, own.kept_strides()))
    if own.place is place:
        return apply_into(COPY, out, source)
    _across(out, source, non_blocking)
    return out


def _across(out: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copy between two places. Conversion and gathering happen on the source's side, scattering on the target's."""
    here, there = source._layout, out._layout
    if not there.numel:
        return
    if there.overlaps_itself():
        raise ShapeError("copy_: several indices of the tensor to be written mean one element; .clone() it first")
    if here.dtype is not there.dtype:
        # Convert where the memory is moved least, and by the device where there is one.
        if here.place.device.type == "cpu" and here.dtype.itemsize < there.dtype.itemsize:
            staged = there.place.empty(Layout.of(there.place, here.dtype, here.shape))
            _across(staged, source, non_blocking)
            apply_into(COPY, out, staged)
            return
        converted = here.place.empty(Layout.of(here.place, there.dtype, here.shape, here.dense_order()))
        source = apply_into(COPY, converted, source)
        here = source._layout
    if here.strides != there.strides or there.dense_order() is None:
        source = source.contiguous()
    target = out
    if source._layout.strides != there.strides or there.dense_order() is None:
        target = out if there.contiguous else there.place.empty(there.like())
    _move(target, source, non_blocking)
    if target is not out:
        apply_into(COPY, out, target)


def _move(out: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copy between two places what lies in memory in the same order, without gaps."""
    here, there = source._layout.place, out._layout.place
    if here.device.type == "cpu":
        there.upload(out, source, non_blocking=non_blocking)
    elif there.device.type == "cpu":
        here.download(out, source, non_blocking=non_blocking)
    else:
        there.receive(out, source)


def pinned_empty(layout: Layout) -> Tensor:
    """An uninitialised CPU tensor in page-locked memory.

    Raises:
        CuplugError: there is no CUDA device.
    """
    from ...runtime import default_runtime
    from .pinning import pinned_storage

    return make(pinned_storage(default_runtime(), layout.place, layout.nbytes), 0, layout)


def _destination(
    tensor: TensorCore, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Place, dtype | None, bool, bool]:
    given = dict(kwargs)
    non_blocking, copy = bool(given.pop("non_blocking", False)), bool(given.pop("copy", False))
    non_blocking = bool(given.pop("async", non_blocking))
    place: Place | None = None
    kind: dtype | None = None
    wanted = [*args]
    if len(wanted) > 2 and all(isinstance(each, bool) for each in wanted[2:]):
        non_blocking, copy = (*wanted[2:], copy)[:2]
        wanted = wanted[:2]
    for name in ("device", "dtype", "other"):
        if name in given:
            wanted.append(given.pop(name))
    if given:
        raise TypeError(f"to() got unexpected arguments: {', '.join(given)}")
    for each in wanted:
        if isinstance(each, TensorCore):
            place, kind = each._layout.place, each._layout.dtype
        elif isinstance(each, bool):
            non_blocking = each
        elif isinstance(each, (Device, int)) or (isinstance(each, str) and each.partition(":")[0] in ("cpu", "cuda")):
            place = place_of(each)
        elif each is not None:
            kind = dtype_of(each)
    return place or tensor._layout.place, kind, non_blocking, copy
