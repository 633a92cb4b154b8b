"""What mixed precision does with operands: each operation runs in the type that torch's lists give it.

``amp`` stands above networks and says when; the thread's state is at the seam, ``tensor/core/casting_seam.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from ..autograd.grad_mode import recording
from ..autograd.graph import plain
from ..tensor.core.casting_seam import autocasting, seam
from ..tensor.core.dtypes import dtype, float32
from ..tensor.core.needed_tensors import layout_of
from ..tensor.core.printed_names import entitle
from ..tensor.core.tensor import Tensor
from ..tensor.ops.arguments.promotion import common_dtype
from ..tensor.ops.copying.copying import copied_to
from ..tensor.places.place import place_at
from ..tensor.places.tables_with_gradients.elementwise_table import Elementwise

_FULL_ON_CUDA = frozenset(
    (
        *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log1p", "log2", "pow", "reciprocal"),
        *("rsqrt", "sinh", "tan", "cumprod", "cumsum", "log_softmax", "logsumexp", "norm", "prod", "softmax", "sum"),
    )
)
"""What runs in float32 on CUDA devices (PyTorch, "Automatic Mixed Precision: CUDA Ops that can autocast to float32");
of these, what are lines of tables. Losses and normalisations convert by themselves."""
_FULL_ON_CPU = frozenset(("prod",))
_WIDEST = frozenset(("dot", "index_put", "scatter_add"))
"""What runs in the widest type of its operands, on all devices."""


def _convert(operation: Hashable, operands: Sequence[Any]) -> Sequence[Any]:
    kind = _wanted(operands)
    if kind is None:
        return operands
    if operation == "matmul":
        return cast_to_fast(*operands)  # type: ignore[no-any-return]
    if isinstance(operation, Elementwise):
        name = operation.name
        if name == "div" and not isinstance(operands[0], Tensor):
            name = "reciprocal"
    elif isinstance(operation, tuple):
        name = operation[0]
        if len(operation) == 4 and operation[3] is not None:
            return operands  # a reduction in a type that was asked for
    else:
        return operands
    if name in _WIDEST:
        kind = common_dtype(operands)
        return [each if each.dtype is kind else copied_to(each, place_at(each._layout), kind) for each in operands]
    first = next(each for each in operands if isinstance(each, Tensor))
    full = _FULL_ON_CPU if first.device.type == "cpu" else _FULL_ON_CUDA
    return cast_to_full(*operands) if name in full else operands


seam.convert = _convert


def _wanted(tensors: Sequence[Any]) -> dtype | None:
    fast = autocasting.fast
    if not fast:
        return None
    for each in tensors:
        if isinstance(each, Tensor):
            return fast.get(each._layout.place.device.type)
    return None


def cast_to_fast(*tensors: Any) -> Any:
    """Operands of an operation that runs in the fast type: products of matrices and convolutions. float64 stays."""
    kind = _wanted(tensors)
    if kind is None:
        return tensors
    made = list(tensors)
    for position, each in enumerate(tensors):
        if isinstance(each, Tensor):
            own = each._layout.dtype
            if own is not kind and own.kind == "f" and own.itemsize <= _SINGLE:
                made[position] = _converted(each, kind)
    return made


_SINGLE = 4
"""Bytes of an element of float32: wider ones stay as they are."""


def _converted(tensor: Tensor, kind: dtype) -> Tensor:
    layout = tensor._layout
    cache = autocasting.cache
    if cache is None or not (layout.tracked and tensor.is_leaf):
        return copied_to(tensor, place_at(layout), kind)
    found = cache.get(id(tensor))
    version = tensor._storage.version
    if found is not None and found[0] is tensor and found[1] == version:
        made: Tensor = found[2]
        if made._layout.tracked or not recording.enabled:  # one made within no_grad has no history
            return made
    made = copied_to(tensor, place_at(layout), kind)
    cache[id(tensor)] = (tensor, version, made)
    return made


def bare_in_fast(tensor: Tensor) -> Tensor:
    """An operand as ``cast_to_fast`` gives it, without history: for operations that give its gradient its own type.
    That is one node less, and a gradient less to hand on."""
    layout, bare, kind = tensor._layout, plain(tensor), _wanted((tensor,))
    own = layout.dtype
    if kind is None or own is kind or own.kind != "f" or own.itemsize > _SINGLE:
        return bare
    cache = autocasting.cache
    if cache is None or not (layout.tracked and tensor.is_leaf):
        return copied_to(bare, place_at(layout), kind)
    key, version = (id(tensor), "bare"), tensor._storage.version
    found = cache.get(key)
    if found is not None and found[0] is tensor and found[1] == version:
        made: Tensor = found[2]
        return made
    made = copied_to(bare, place_at(layout), kind)
    cache[key] = (tensor, version, made)
    return made


def full_type(tensor: Tensor) -> dtype:
    """The type that ``cast_to_full`` gives a tensor."""
    kind = layout_of(tensor).dtype
    return float32 if kind.is_half and _wanted((tensor,)) is not None else kind


def cast_to_full(*tensors: Any) -> Any:
    """Operands of an operation that runs in float32: sums, exponentials and losses."""
    if _wanted(tensors) is None:
        return tensors
    return tuple(each.to(float32) if isinstance(each, Tensor) and each.dtype.is_half else each for each in tensors)


_Made = TypeVar("_Made", bound=Callable[..., Tensor])


def rounds_once(function: _Made) -> _Made:
    """Let a convolution of halves on the CPU be computed in float32: its sums and its bias are rounded once, as torch
    does. On a device cuDNN does as much; under ``autocast`` operands have types of their own."""

    @functools.wraps(function)
    def called(input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
        layout = layout_of(input)
        kind = layout.dtype
        if kind.is_half and layout.place.device.type == "cpu" and not autocasting.fast.get("cpu"):
            given = (input, weight, bias)
            if all(each is None or each.dtype is kind for each in given):
                wide = [each if each is None else each.to(float32) for each in given]
                made = function(*wide, *args, **kwargs).to(kind)
                entitle("ConvolutionBackward0", made)
                return made
        return function(input, weight, bias, *args, **kwargs)

    return called  # type: ignore[return-value]
