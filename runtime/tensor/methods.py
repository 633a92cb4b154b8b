"""Gives the functions of ``ops`` to ``Tensor`` as its methods and operators: the only file that changes the class."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from ..kernels.launch.arguments import ADDRESS_FORMS, AddressForm
from .core.absent import ABSENT_OF_TENSORS, AbsentAttribute
from .core.casting_seam import seam
from .core.dtypes import (
    bfloat16,
    bool_,
    dtype,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from .core.tensor import Tensor, address_of
from .ops.arguments import scalars
from .ops.arguments.numpy_arrays import sharing
from .ops.arguments.promotion import OperandTypeError
from .ops.arithmetic import arithmetic, comparing, repairing
from .ops.copying import copying
from .ops.elementwise import elementwise_functions, filling
from .ops.elementwise.elementwise import apply, apply1, apply_into2
from .ops.exchange import exchange, pickling, printing, process_sharing
from .ops.indexing import indexing
from .ops.joining import stacking
from .ops.making import new_tensors
from .ops.making.legacy_types import legacy_tensor
from .ops.products import matmul, products
from .ops.random import random_choices, random_numbers
from .ops.rearranging import repeating, triangles
from .ops.reductions import combined_reductions, normalising, reductions, scans
from .ops.scattering import index_writes, scattering
from .ops.shapes import reshape, resizing, typed_storage, views
from .ops.sorting import counting, sorting
from .places.place import place_at
from .places.tables_with_gradients.elementwise_table import TABLE, Elementwise

__all__ = ["Tensor", "add_in_place", "add_operators"]

_BY_THEIR_NAMES: dict[ModuleType, str] = {
    arithmetic: "add add_ clamp clamp_ div div_ positive sub sub_",
    comparing: "allclose equal isclose",
    copying: "clone copy_ cpu cuda detach pin_memory to type_as",
    counting: "bincount histc unique unique_consecutive",
    random_choices: "bernoulli bernoulli_ exponential_ multinomial",
    exchange: "numpy record_stream",
    filling: "fill_ zero_",
    index_writes: (
        "index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_put index_put_ masked_scatter "
        "masked_scatter_ put_"
    ),
    indexing: "index_select masked_fill masked_fill_ masked_select nonzero",
    matmul: "bmm dot matmul mm mv",
    new_tensors: "new new_empty new_empty_strided new_full new_ones new_tensor new_zeros",
    process_sharing: "is_shared share_memory_",
    products: (
        "addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_ inner "
        "outer vdot"
    ),
    random_numbers: "normal_ random_ uniform_",
    reductions: "all amax amin any argmax argmin count_nonzero max mean min norm prod std sum var",
    repairing: "nan_to_num nan_to_num_ round round_",
    repeating: "flip fliplr flipud repeat repeat_interleave roll tile",
    reshape: "contiguous flatten ravel reshape reshape_as unflatten view view_as",
    resizing: "is_set_to resize_ resize_as_ set_ unfold",
    scalars: "item tolist",
    scans: "cummax cummin cumprod cumprod_ cumsum cumsum_ logcumsumexp",
    scattering: ("gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take take_along_dim"),
    normalising: "log_softmax logsumexp softmax",
    sorting: "argsort kthvalue median msort nanmedian sort topk",
    stacking: "dsplit hsplit tensor_split vsplit",
    combined_reductions: "aminmax nanmean nansum",
    triangles: "diag diag_embed diagflat trace tril tril_ triu triu_",
    views: (
        "adjoint as_strided as_strided_ broadcast_to chunk conj diagonal expand expand_as movedim narrow permute "
        "select split squeeze squeeze_ swapaxes swapaxes_ t t_ transpose transpose_ unbind unsqueeze unsqueeze_"
    ),
}
"""The functions of each module that are methods of the same name. Those of the table are, too."""

_BY_OTHER_NAMES: dict[str, Callable[..., Any]] = {
    "clip": arithmetic.clamp,
    "clip_": arithmetic.clamp_,
    "divide": arithmetic.div,
    "divide_": arithmetic.div_,
    "is_nonzero": scalars.truth,
    "moveaxis": views.movedim,
    "storage": typed_storage.storage,
    "subtract": arithmetic.sub,
    "subtract_": arithmetic.sub_,
    "swapdims": views.transpose,
    "swapdims_": views.transpose_,
    "true_divide": arithmetic.div,
    "true_divide_": arithmetic.div_,
    "type": new_tensors.as_type,
    "where": arithmetic.where_method,
    "__array__": exchange.as_array,
    "__array_wrap__": exchange.wrap_array,
    "__bool__": scalars.truth,
    "__contains__": indexing.contains,
    "__copy__": pickling.shallow_copy,
    "__deepcopy__": pickling.deep_copy,
    "__dlpack__": exchange.dlpack_capsule,
    "__dlpack_device__": exchange.dlpack_device,
    "__float__": scalars.to_float_number,
    "__format__": scalars.format_as,
    "__getitem__": indexing.get_item,
    "__index__": scalars.as_index,
    "__int__": scalars.to_int_number,
    "__iter__": indexing.iterate,
    "__len__": indexing.length,
    "__matmul__": matmul.matmul_operator,
    "__pos__": arithmetic.positive,
    "__reduce_ex__": pickling.reduce_tensor,
    "__repr__": printing.text_of,
    "__reversed__": repeating.reversed_,
    "__setitem__": indexing.set_item,
}
_CONVERSIONS: dict[str, dtype] = {
    "bfloat16": bfloat16,
    "bool": bool_,
    "byte": uint8,
    "char": int8,
    "double": float64,
    "float": float32,
    "half": float16,
    "int": int32,
    "long": int64,
    "short": int16,
}
"""The methods that convert the elements, each to a type."""
_PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "H": views.transposed_matrix,
    "T": views.reversed_dimensions,
    "mH": views.adjoint,
    "mT": views.transposed_matrices,
    "__cuda_array_interface__": exchange.cuda_array_interface,
}


def _bind() -> None:
    for name, each in vars(elementwise_functions).items():
        if getattr(each, "__module__", "") == elementwise_functions.__name__:  # not what it imports
            setattr(Tensor, name, each)
    for operation in TABLE:
        add_operators(operation)
    for module, names in _BY_THEIR_NAMES.items():
        for name in names.split():
            setattr(Tensor, name, getattr(module, name))
    for name, function in _BY_OTHER_NAMES.items():
        setattr(Tensor, name, function)
    for operation in TABLE:
        if operation.public and operation.in_place and f"{operation.name}_" not in vars(Tensor):
            add_in_place(operation)
    for name, kind in _CONVERSIONS.items():
        _add_conversion(name, kind)
    for name, function in _PROPERTIES.items():
        setattr(Tensor, name, property(function))
    for name in ABSENT_OF_TENSORS:
        setattr(Tensor, name, AbsentAttribute(name, ABSENT_OF_TENSORS))
    Tensor.__new__ = staticmethod(_new)  # type: ignore[method-assign]
    # On the CPU there is no ordinal: that raises.
    ADDRESS_FORMS[Tensor] = AddressForm(address_of("{0}"), layout="_layout")


def _new(cls: type[Tensor], *args: Any, device: Any = None) -> Tensor:  # noqa: ARG001 - there is one class
    return legacy_tensor(get_default_dtype(), "cpu" if device is None else device, args)


def add_operators(operation: Elementwise) -> None:
    """Give ``Tensor`` the operators of a line of the table: on the left, on the right and in place."""
    name = operation.operator
    if not name:
        return
    if operation.arity == 1:
        _add(f"__{name}__", lambda self: apply1(operation, self), {"return": "Tensor"})
        return

    def forward(self: Tensor, other: Any) -> Tensor:
        plan = self._layout.plans.get((operation, other._layout if type(other) is Tensor else type(other)))
        if plan is not None and not seam.on:  # as in apply2
            return plan(self, other)  # type: ignore[no-any-return]
        try:
            return apply(operation, self, sharing(other) if isinstance(other, np.ndarray) else other)
        except OperandTypeError:
            return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand, and raises TypeError in the end

    commutes = name in ("add", "mul", "and", "or", "xor")

    def backward(self: Tensor, other: Any) -> Tensor:
        if commutes and not isinstance(other, np.ndarray):
            return forward(self, other)  # recorded as in torch, and prepared as ``self + other`` is
        try:
            return apply(operation, other, self)
        except OperandTypeError:
            return NotImplemented  # type: ignore[no-any-return]

    def in_place(self: Tensor, other: Any) -> Tensor:
        if type(other) is Tensor and other._storage is not self._storage:  # as in apply_into2
            own = self._layout
            plan = own.plans.get((operation.into, own, other._layout))
            if plan is not None:
                plan(self, self, other)
                return self
        try:
            return apply_into2(operation, self, other)
        except OperandTypeError:
            return NotImplemented  # type: ignore[no-any-return]

    _add(f"__{name}__", forward)
    if name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return
    _add(f"__r{name}__", backward)
    _add(f"__i{name}__", in_place)


def add_in_place(operation: Elementwise) -> None:
    """Give ``Tensor`` the method of a line of the table that writes the result of two operands to the first."""

    def method(self: Tensor, other: Any) -> Tensor:
        return apply_into2(operation, self, other)

    method.__doc__ = f"``{operation.name}``, written to the tensor itself. Raises as it, and where it does not fit."
    method.__annotations__ = {"other": "Any" if operation.numbers else "Tensor", "return": "Tensor"}
    _add(f"{operation.name}_", method)
    for alias in operation.aliases:
        setattr(Tensor, f"{alias}_", method)


def _add_conversion(name: str, kind: dtype) -> None:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        own = self._layout
        if memory_format is None and own.dtype is kind:
            return self
        return copying.in_format(copying.copied_to(self, place_at(own), kind), memory_format, self)

    text = f"The elements converted to {kind.name}; the tensor itself if they are of it."
    if kind.kind in "iu":
        text += " Numbers out of range wrap around."
    method.__doc__ = (
        text if kind is not bool_ else "Whether each element differs from 0; the tensor itself if it is of bool."
    )
    _add(name, method)


def _add(name: str, method: Any, annotations: dict[str, str] | None = None) -> None:
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    if annotations is not None:
        method.__annotations__ = annotations
    setattr(Tensor, name, method)


_bind()
