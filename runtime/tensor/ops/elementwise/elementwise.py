"""Element-wise operations of any kind: their types, broadcasting and devices are settled once, in a plan.

The functions by name stand in ``arithmetic.py`` and ``elementwise_functions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....allocators.errors import DeviceMismatchError
from ...core.casting_seam import seam
from ...core.dtypes import can_cast, dtype, get_default_dtype
from ...core.layout import Layout
from ...core.needed_tensors import layout_of, no_tensor
from ...core.shapes import Shape, Size, broadcast_shapes, broadcast_strides, contiguous_strides, iteration_strides
from ...core.tensor import Tensor
from ...core.tensor_errors import ElementTypeError, ShapeError
from ...places.dispatch import Plan, PlanForOnce, dispatch
from ...places.place import Kernel, Place, place_at
from ...places.tables_with_gradients.elementwise_table import COPY, Elementwise, ElementwiseInto, TypeRule
from ..arguments.numpy_arrays import number_as_tensor
from ..arguments.out_argument import resize_output
from ..arguments.overlap import lies_over, refuse_part
from ..arguments.promotion import number_of, result_types
from ..arguments.scalars import item


def apply(operation: Elementwise, *operands: Any) -> Tensor:
    """``operation`` of tensors and Python numbers, as a new tensor on the operands' device.

    Raises:
        DeviceMismatchError: operands are on different devices.
        ValueError: the shapes do not broadcast.
        TypeError: an operand is no tensor and no number, or the operation does not take its type.
    """
    tensors = 0
    for each in operands:
        if isinstance(each, Tensor):
            tensors += 1
        elif type(each) not in _NUMBERS:
            return apply(operation, *[one if isinstance(one, Tensor) else number_of(one) for one in operands])
    if not tensors:
        operands = (number_as_tensor(operands[0]), *operands[1:])
    return dispatch(operation, _prepare_new, operands)  # type: ignore[no-any-return]


_NUMBERS = frozenset((bool, int, float))


def apply1(operation: Elementwise, a: Any) -> Tensor:
    """``apply`` to one tensor: looks up its plan as ``dispatch`` does, in fewer steps."""
    try:
        plan = a._layout.plans.get((operation,))
    except AttributeError:  # a number
        plan = None
    return apply(operation, a) if plan is None or seam.on else plan(a)


def apply2(operation: Elementwise, a: Any, b: Any) -> Tensor:
    """``apply`` to a tensor and one more operand, in fewer steps: what the operators call."""
    try:
        plan = a._layout.plans.get((operation, b._layout if type(b) is Tensor else type(b)))
    except AttributeError:  # a number comes first
        plan = None
    return apply(operation, a, b) if plan is None or seam.on else plan(a, b)


def apply_into(operation: Elementwise, out: Tensor, *operands: Any) -> Tensor:
    """``operation`` of the operands, written to ``out``. Where they may overlap in memory, operands are copied first.

    Raises:
        ValueError: an operand overlaps ``out``: see ``refuse_part``.
        DeviceMismatchError: operands or ``out`` are on different devices.
        ValueError: the result does not have the shape of ``out``, or ``out`` has several indices for one element.
        TypeError: the result cannot be cast to the type of ``out``, or as for ``apply``.
    """
    key: list[Any] = [operation.into]
    for each in operands:  # as ``dispatch`` does, in fewer steps
        if type(each) is Tensor:
            if each._storage is out._storage and each is not out:
                break
            key.append(each._layout)
        elif type(each) in _NUMBERS:
            key.append(type(each))
        else:
            break
    else:
        try:
            plan = out._layout.plans.get(tuple(key))
        except AttributeError:
            raise no_tensor(out) from None
        if plan is not None:
            plan(out, *operands)
            return out
    ready = [_away_from(out, each) if isinstance(each, Tensor) else number_of(each) for each in operands]
    dispatch(operation.into, _prepare_into, (out, *ready))
    return out


def apply_into1(operation: Elementwise, a: Tensor) -> Tensor:
    """``apply_into`` of ``a`` to ``a``, in fewer steps. Mixed precision leaves alone what is written in place.

    Raises:
        TypeError: ``a`` is no tensor; and as ``apply_into``.
    """
    try:
        own = a._layout
    except AttributeError:
        raise no_tensor(a) from None
    plan = own.plans.get((operation.into, own))
    if plan is None:
        return apply_into(operation, a, a)
    plan(a, a)
    return a


def apply_into2(operation: Elementwise, a: Tensor, b: Any) -> Tensor:
    """``apply_into`` of ``a`` and ``b`` to ``a``, in fewer steps.

    Raises:
        TypeError: ``a`` is no tensor; and as ``apply_into``.
    """
    try:
        own = a._layout
    except AttributeError:
        raise no_tensor(a) from None
    if type(b) is Tensor:
        away = b._storage is not a._storage or b is a
        plan = own.plans.get((operation.into, own, b._layout)) if away else None
    else:
        plan = own.plans.get((operation.into, own, type(b))) if type(b) in _NUMBERS else None
    if plan is None:
        return apply_into(operation, a, a, b)
    plan(a, a, b)
    return a


def apply_out(operation: Elementwise, out: Tensor, *operands: Any) -> Tensor:
    """``operation`` of the operands, written to ``out``, which takes the result's shape: see ``resize_output``.

    Raises as ``apply_into`` does, but for shapes.
    """
    ready = [each if isinstance(each, Tensor) else number_of(each) for each in operands]
    layouts = [each._layout for each in ready if isinstance(each, Tensor)]
    shape = broadcast_shapes(*[each.shape for each in layouts] or [Size()])
    if layout_of(out).shape != shape:
        resize_output(out, shape, _result_strides(shape, layouts) if layouts else None)
    return apply_into(operation, out, *ready)


def run(operation: Elementwise, out: Tensor | None, *operands: Any) -> Tensor:
    """``apply``, or ``apply_out`` where ``out`` is given."""
    return apply(operation, *operands) if out is None else apply_out(operation, out, *operands)


def same_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same elements of the same storage, in the same order."""
    return isinstance(b, Tensor) and a._storage is b._storage and a._offset == b._offset and a._layout is b._layout


def common_place(name: str, operands: Sequence[Any]) -> Place:
    """The place where work on these operands is done: theirs. CPU tensors without dimensions do not count.

    Raises:
        DeviceMismatchError: they are on different devices, and no peer access is enabled.
    """
    tensors = [each for each in operands if hasattr(each, "_layout")]
    chosen: Place | None = None
    for each in tensors:
        layout = each._layout
        if layout.shape or layout.place.device.type != "cpu":
            if chosen is None:
                chosen = place_at(layout)
            elif layout.place is not chosen and not chosen.reaches(place_at(layout)):
                raise _mismatch(name, chosen, place_at(layout))
    if chosen is None:
        chosen = place_at(tensors[0]._layout)
    return chosen


def _mismatch(name: str, a: Place, b: Place) -> DeviceMismatchError:
    if a.device == b.device:
        return DeviceMismatchError(
            f"{name}: operands are on {a.device} of two different runtimes; "
            "copy one to the CPU and from there to the runtime in use"
        )
    advice = f"move one with .to({str(a.device)!r})"
    if "cpu" not in (a.device.type, b.device.type):
        advice += f", or enable peer access between {a.device} and {b.device}"
    return DeviceMismatchError(
        f"Expected all tensors to be on the same device, but found at least two devices, {a.device} and "
        f"{b.device}! In {name}: {advice}"
    )


def _prepare_new(operation: Elementwise, *operands: Any) -> Plan:
    return _prepare(operation, operands, None)


def _prepare_into(into: ElementwiseInto, out: Tensor, *operands: Any) -> Plan:
    return _prepare(into.operation, operands, out)


class _Defaulting:
    """A plan that holds for one default dtype: of operands of which none is a floating-point tensor, where a number
    could be one, or the result is one."""

    def __init__(self, plan: Plan, operation: Elementwise, into: bool) -> None:
        self._plan = plan
        self._operation = operation
        self._into = into
        self._default = get_default_dtype()

    def __call__(self, *operands: Any) -> Tensor:
        if get_default_dtype() is not self._default:
            out, given = (operands[0], operands[1:]) if self._into else (None, operands)
            renewed = _prepare(self._operation, given, out)
            self._plan = renewed._plan if isinstance(renewed, _Defaulting) else renewed
            self._default = get_default_dtype()
        return self._plan(*operands)  # type: ignore[no-any-return]


def _prepare(operation: Elementwise, operands: tuple[Any, ...], out: Tensor | None) -> Plan:
    place = common_place(operation.name, operands if out is None else (out, *operands))
    layouts = [each._layout if hasattr(each, "_layout") else None for each in operands]
    shape = broadcast_shapes(*[layout.shape for layout in layouts if layout is not None] or [()])
    types, result = result_types(operation, operands)
    if out is not None:
        if place_at(out._layout) is not place:
            raise _mismatch(operation.name, place_at(out._layout), place)
        _check_out(operation, out, shape, result, layouts)
        if operation.rule is TypeRule.FIRST:
            types = (out.dtype,)
        target = out._layout
    else:
        target = Layout.of(place, result, shape, _result_strides(shape, layouts))
    # Tensors without dimensions on the CPU go to a device by value.
    by_value = [
        layout is not None and not layout.shape and layout.place is not place and layout.place.device.type == "cpu"
        for layout in layouts
    ]
    peers = {
        place_at(layout)
        for layout, value in zip(layouts, by_value, strict=True)
        if layout is not None and layout.place is not place and not value
    }
    given = [None if value else layout for layout, value in zip(layouts, by_value, strict=True)]
    kernel = place.elementwise(operation, types, target, given)
    if out is not None and result.is_half and out.dtype is not result and operation.rule is not TypeRule.FIRST:
        kernel = _rounded_first(_prepare(operation, operands, None))
    if any(by_value):
        kernel = _taking_values(kernel, by_value)
    if peers:
        kernel = _among_peers(kernel, place, peers)
    plan = _into(kernel) if out is not None else _new(kernel, place, target)
    check = None if layouts[-1] is not None else operation.check(types[-1])
    if check is not None:
        plan = _checking(plan, check)
    if peers:
        return PlanForOnce(plan)
    present = [layout for layout in layouts if layout is not None]
    if any(layout.dtype.kind == "f" for layout in present) or (operation is COPY and not layouts[0]):
        return plan
    if len(present) == len(layouts) and operation.rule is not TypeRule.FLOAT:
        return plan
    return _Defaulting(plan, operation, out is not None)


def _rounded_first(plan: Plan) -> Kernel:
    """What a half type's operation does with a tensor of another type: its results are rounded to the half type."""

    def run(out: Tensor, *operands: Any) -> None:
        apply_into(COPY, out, plan(*operands))

    return run


def _new(kernel: Kernel, place: Place, target: Layout) -> Plan:
    own: Plan | None = getattr(kernel, "new", None)
    if own is not None:
        return own
    empty = place.empty

    def plan(*operands: Any) -> Tensor:
        out = empty(target)
        kernel(out, *operands)
        return out

    return plan


def _into(kernel: Kernel) -> Plan:
    own: Plan | None = getattr(kernel, "into", None)
    if own is not None:
        return own

    def plan(out: Tensor, *operands: Any) -> Tensor:
        kernel(out, *operands)
        out._storage.version += 1
        return out

    return plan


def _checking(plan: Plan, check: Callable[[Any], None]) -> Plan:
    def checked(*operands: Any) -> Tensor:
        check(operands[-1])
        return plan(*operands)  # type: ignore[no-any-return]

    return checked


def _taking_values(kernel: Kernel, by_value: Sequence[bool]) -> Kernel:
    def run(out: Tensor, *operands: Any) -> None:
        kernel(out, *[item(each) if value else each for each, value in zip(operands, by_value, strict=True)])

    return run


def _among_peers(kernel: Kernel, place: Place, peers: set[Place]) -> Kernel:
    def run(out: Tensor, *operands: Any) -> None:
        for peer in peers:
            place.wait_for(peer)
        kernel(out, *operands)
        for peer in peers:
            peer.wait_for(place)  # what is done there next may write what is read here

    return run


def _check_out(
    operation: Elementwise, out: Tensor, shape: Shape, result: dtype, operands: Sequence[Layout | None]
) -> None:
    own = out._layout
    if broadcast_shapes(own.shape, shape) != own.shape:
        raise ShapeError(
            f"{operation.name}: the result has the shape {list(shape)} and is to be written to a tensor of the shape "
            f"{list(own.shape)}"
        )
    if operation is not COPY and not can_cast(result, own.dtype):
        raise ElementTypeError(
            f"result type {result!r} can't be cast to the desired output type {own.dtype!r}, by {operation.name}; "
            "convert the tensor first, or use the operation that makes a new one"
        )
    if operation.exact_out and own.dtype is not result and sum(each is not None for each in operands) == 1:
        raise ElementTypeError(
            f"{operation.name}: the result is of {result!r}, and out= names a tensor of {own.dtype!r}"
        )
    if own.overlaps_itself() and not (operation is COPY and operands == [None]):  # one number may go to all
        raise ShapeError(
            f"unsupported operation: {operation.name}: several indices of the tensor to be written, of shape "
            f"{list(own.shape)} and strides {list(own.strides)}, mean one element; .clone() it first"
        )


def _away_from(out: Tensor, operand: Tensor) -> Tensor:
    """``operand``, or a copy if writing to ``out`` could change it before it is read."""
    if operand._storage is not out._storage or same_memory(out, operand):
        return operand
    refuse_part(out, operand)
    return apply1(COPY, operand) if lies_over(out, operand) else operand


def _result_strides(shape: Shape, layouts: Sequence[Layout | None]) -> Shape | None:
    """The operands' strides if all are equally dense; else those that follow the operands' order. None if row-major."""
    present = [layout for layout in layouts if layout is not None]
    if all(layout.contiguous and layout.shape == shape for layout in present):
        return None
    first = present[0]
    if first.shape == shape and first.dense_order() and all(each.strides == first.strides for each in present):
        return first.strides
    found = iteration_strides(shape, [broadcast_strides(each.shape, each.strides, shape) for each in present])
    return None if found == contiguous_strides(shape) else found
