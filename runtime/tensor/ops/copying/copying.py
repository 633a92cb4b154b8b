"""Copies: between types, between places, with and without waiting."""

from __future__ import annotations

from typing import Any

from ....machine.default_runtime import default_runtime
from ....machine.device_name import device as Device  # noqa: N812 - torch's class has a small name
from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import dtype, dtype_of
from ...core.gradient_seam import engine
from ...core.layout import Layout
from ...core.memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    is_in_format,
    keeps_channels_last,
    preserve_format,
)
from ...core.needed_tensors import layout_of, needed, no_tensor
from ...core.storage import pinned_storage
from ...core.tensor import Tensor, make_tensor
from ...core.tensor_errors import ArgumentError, ShapeError
from ...places.dispatch import Plan
from ...places.place import Place, place_at
from ...places.registry import place_of
from ...places.tables_with_gradients.elementwise_table import COPY
from ..elementwise.elementwise import apply1, apply_into
from ..shapes.reshape import contiguous
from ..shapes.views import expand


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy with the same strides where they leave no gaps, else with the dimensions in the same order in memory.

    With ``memory_format=contiguous_format`` the copy is in row-major order, with ``channels_last`` in that one.
    """
    return apply1(COPY, input) if memory_format is None else in_format(apply1(COPY, input), memory_format, input)


def in_format(made: Tensor, memory_format: Any, source: Tensor | None = None) -> Tensor:
    """A new tensor in the order that is asked for. One that is ``source`` itself stays where row-major order is asked
    for, unless its channels come last.

    Raises:
        ValueError: there is no such order here.
    """
    if memory_format is None or memory_format is preserve_format:
        return made
    if made is source and memory_format is contiguous_format and not channels_come_last(made._layout):
        return made
    return contiguous(made, memory_format)


def channels_come_last(layout: Layout) -> bool:
    """Whether elements lie in ``channels_last`` or ``channels_last_3d``, and not in row-major order too."""
    if layout.contiguous or len(layout.shape) not in (4, 5):
        return False
    return is_in_format(channels_last if len(layout.shape) == 4 else channels_last_3d, layout.shape, layout.strides)


def in_order_of(made: Tensor, images: Tensor) -> Tensor:
    """What was made of images or volumes, with the channels last where they are last there."""
    if not keeps_channels_last(images._layout.shape, images._layout.strides):
        return made
    return contiguous(made, channels_last if made.ndim == 4 else channels_last_3d)


def detach(input: Tensor) -> Tensor:
    """The tensor as a view that requires no gradients and is no part of the graph.

    Raises:
        TypeError: it is no tensor.
    """
    try:
        layout = input._layout
    except AttributeError:
        raise no_tensor(input) from None
    return make_tensor(input._storage, input._offset, layout.plain if layout.tracked else layout)


def copy_(input: Tensor, src: Any, non_blocking: bool = False, **kwargs: Any) -> Tensor:
    """Write the elements of ``src``, of any type and on any device, broadcast to this shape.

    Copies from and to the host wait until they are done. With ``non_blocking`` those from and to page-locked
    memory do not: the program then must not change the host memory before the stream has been synchronised.

    Args:
        input: the tensor to write.
        src: a tensor or a number.
        non_blocking: whether not to wait for copies from and to page-locked memory.
        kwargs: its old name: ``**{"async": True}``.

    Raises:
        ValueError: ``src`` does not broadcast to this shape, or several indices of the tensor mean one element.
        TypeError: another argument is given.
    """
    if kwargs:
        non_blocking = _old_name(non_blocking, kwargs, "copy_")
    if isinstance(src, Tensor):
        here, there = input._layout, src._layout
        if there.place is not here.place:
            _across(input, src if there.shape == here.shape else expand(src, *here.shape), non_blocking)
            return input
        plan = here.plans.get((COPY.into, there)) if src._storage is not input._storage else None
        if plan is not None:  # the most usual case
            plan(input, src)
            return input
    return apply_into(COPY, input, src)


def to(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor on another device, or as another type; itself if nothing would change.

    ``to(device)``, ``to(dtype)``, ``to(device, dtype)`` or ``to(other)`` (the device and type of a tensor), each also
    by keyword, with ``non_blocking`` (see ``copy_``), ``copy`` (make a copy in any case) and ``memory_format``
    (``preserve_format``, or for a copy ``contiguous_format``, row-major, or ``channels_last``).

    Raises:
        TypeError: the arguments are none of these.
        CuplugError: there is no such device.
    """
    if len(args) == 1 and not kwargs:  # the most usual cases
        (asked,) = args
        if type(asked) is dtype:
            try:
                place = place_at(input._layout)
            except AttributeError:
                raise no_tensor(input) from None
            return copied_to(input, place, asked)
        if type(asked) is Device or (type(asked) is str and asked in ("cpu", "cuda")):
            return copied_to(input, place_of(asked))
    memory_format = kwargs.pop("memory_format", None)
    place, kind, non_blocking, copy = _destination(input, args, kwargs)
    made = copied_to(input, place, kind, non_blocking=non_blocking, always=copy)
    return made if memory_format is None else in_format(made, memory_format, input)


def cuda(
    input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None, **kwargs: Any
) -> Tensor:
    """The tensor on a CUDA device, by default the current one; itself if it is there.

    The keyword ``async`` of old programs, which Python reserves since 3.7, is understood in ``**{"async": True}``.

    Args:
        input: the tensor.
        device: the device, its text or its ordinal.
        non_blocking: whether not to wait for a copy from page-locked memory.
        memory_format: the order of dimensions in memory; that of the tensor if None.

    Raises:
        CuplugError: there is no CUDA device.
        ValueError: ``device`` is no CUDA device.
    """
    non_blocking = _old_name(non_blocking, kwargs, "cuda")
    named = Device("cuda" if device is None else device)
    if named.type != "cuda":
        raise ArgumentError(f"cuda() moves to a CUDA device; {named!r} is none, use .to({str(named)!r})")
    return in_format(copied_to(input, place_of(named), non_blocking=non_blocking), memory_format, input)


def _old_name(non_blocking: bool, others: dict[str, Any], name: str) -> bool:
    """``non_blocking`` by its old name, ``async``, where it is given; nothing else may be."""
    non_blocking = bool(others.pop("async", non_blocking))
    if others:
        raise TypeError(f"{name}() got unexpected arguments: {', '.join(others)}")
    return non_blocking


def cpu(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor on the CPU; itself if it is there. Waits until the copy is done."""
    return in_format(copied_to(input, HOST), memory_format, input)


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor with the element type and the device of another."""
    return to(input, needed(other))


def pin_memory(input: Tensor) -> Tensor:
    """A copy of a CPU tensor in page-locked memory; itself if it lies there.

    Raises:
        CuplugError: there is no CUDA device, or the tensor is on one.
    """
    if input._storage.pinned:
        return input
    if not input.is_cpu:
        raise ArgumentError(f"only CPU tensors can be pinned, and this one is on {input.device}")
    return apply_into(COPY, pinned_empty(input._layout.like()), input)


def copied_to(
    source: Tensor, place: Place, kind: dtype | None = None, *, non_blocking: bool = False, always: bool = False
) -> Tensor:
    """``source`` at another place or as another type; itself if it is so already, unless ``always``."""
    own = source._layout
    kind = kind or own.dtype
    if own.place is place and own.dtype is kind:
        return clone(source) if always else source
    if own.place is place and own.numel:
        bare = own.plain
        new = bare.plans.get((copied_to, kind))
        if new is None:
            target = Layout.of(place, kind, own.shape, own.kept_strides())
            new = bare.plans[copied_to, kind] = _conversion(place, target, bare)
        if bare is own:
            return new(source)  # type: ignore[no-any-return]
        made: Tensor = new(make_tensor(source._storage, source._offset, bare, source._array))
        engine().moved(made, source)
        return made
    if own.place is not place and not own.contiguous and own.dense_order() is None:
        source = clone(source)
        own = source._layout
    layout = Layout.of(place, kind, own.shape, own.kept_strides())
    # To pageable memory the driver's copy would wait: torch's rule.
    out = pinned_empty(layout) if non_blocking and place is HOST and own.place is not HOST else place.empty(layout)
    if own.place is place:
        return apply_into(COPY, out, source)
    _across(out, source, non_blocking)
    return out


def _conversion(place: Place, converted: Layout, own: Layout) -> Plan:
    kernel = place.elementwise(COPY, (converted.dtype,), converted, (own,))
    new: Plan | None = getattr(kernel, "new", None)
    if new is not None:
        return new

    def copied(source: Tensor) -> Tensor:
        out = place.empty(converted)
        kernel(out, source)
        return out

    return copied


def _across(out: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copy between two places. Conversion and gathering happen on the source's side, scattering on the target's."""
    if source._layout.tracked or out._layout.tracked:
        _across(detach(out), detach(source), non_blocking)
        engine().moved(out, source)
        return
    here, there = source._layout, out._layout
    if not there.numel:
        return
    if here.contiguous and there.contiguous and here.dtype is there.dtype:  # the most usual case
        _move(out, source, non_blocking)
        return
    if there.overlaps_itself():
        raise ShapeError(
            "unsupported operation: copy_: several indices of the tensor to be written mean one element; "
            ".clone() it first"
        )
    if here.dtype is not there.dtype:
        # Convert where the memory is moved least, and by the device where there is one.
        if here.place.device.type == "cpu" and here.dtype.itemsize < there.dtype.itemsize:
            staged = place_at(there).empty(Layout.of(there.place, here.dtype, here.shape))
            _across(staged, source, non_blocking)
            apply_into(COPY, out, staged)
            return
        converted = place_at(here).empty(Layout.of(here.place, there.dtype, here.shape, here.dense_order()))
        source = apply_into(COPY, converted, source)
        here = source._layout
    if here.strides != there.strides or there.dense_order() is None:
        source = contiguous(source)
    target = out
    if source._layout.strides != there.strides or there.dense_order() is None:
        target = out if there.contiguous else place_at(there).empty(there.like())
    _move(target, source, non_blocking)
    if target is not out:
        apply_into(COPY, out, target)


def _move(out: Tensor, source: Tensor, non_blocking: bool) -> None:
    """Copy between two places what lies in memory in the same order, without gaps."""
    here, there = place_at(source._layout), place_at(out._layout)
    out._storage.version += 1
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
    return make_tensor(pinned_storage(default_runtime(), layout.place, layout.nbytes), 0, layout)


def destination(tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Place, dtype | None, bool]:
    """Where ``to`` with these arguments takes a tensor, as which type, and whether it waits."""
    return _destination(tensor, args, kwargs)[:3]


def _destination(
    tensor: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Place, dtype | None, bool, bool]:
    given = dict(kwargs)
    non_blocking, copy = bool(given.pop("non_blocking", False)), bool(given.pop("copy", False))
    non_blocking = bool(given.pop("async", non_blocking))
    place: Place | None = None
    kind: dtype | None = None
    wanted = [each for each in args if not isinstance(each, bool)]
    flags = [each for each in args if isinstance(each, bool)]  # they follow what is wanted, in this order
    if len(flags) > 2:
        raise TypeError(f"to() takes non_blocking and copy, and no third flag; got {flags}")
    non_blocking, copy = (*flags, *(non_blocking, copy)[len(flags) :])
    if given.get("dtype") is not None:
        given["dtype"] = dtype_of(given["dtype"])
    wanted.extend(given.pop(name) for name in ("device", "dtype", "other") if name in given)
    if given:
        raise TypeError(f"to() got unexpected arguments: {', '.join(given)}")
    for each in wanted:
        if isinstance(each, Tensor):
            place, kind = place_at(each._layout), each._layout.dtype
        elif isinstance(each, (Device, int)) or (isinstance(each, str) and each.partition(":")[0] in ("cpu", "cuda")):
            place = place_of(each)
        elif each is not None:
            try:
                kind = dtype_of(each)
            except TypeError:
                if not isinstance(each, str):
                    raise
                place = place_of(each)  # says which devices there are
    return place or place_at(layout_of(tensor)), kind, non_blocking, copy
