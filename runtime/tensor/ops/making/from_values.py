"""New tensors of values: of numbers, nested sequences of them, NumPy's arrays and other tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .....allocators.errors import CuplugError
from ...backends.on_host.numpy_kernels import silent
from ...core.dtypes import dtype, dtype_of, get_default_dtype, int64, promote_types, scalar_dtype
from ...core.dtypes import from_numpy as dtype_from_numpy
from ...core.gradient_seam import required
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError, ElementTypeError
from ...places.place import place_at
from ...places.tables_with_gradients.elementwise_table import COPY
from ..arguments.dlpack import import_
from ..arguments.numpy_arrays import adopt_array, from_numpy
from ..arguments.scalars import item, tolist
from ..copying.copying import copied_to, detach, to
from ..copying.copying import pin_memory as pin_memory_of
from .creation import Device, factory_place

__all__ = ["as_tensor", "scalar_tensor", "tensor"]


def tensor(
    data: Any, *, dtype: Any = None, device: Device = None, pin_memory: bool = False, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``: a number, nested sequences of numbers, NumPy's array, a tensor, or another
    library's array that is exchanged by DLPack.

    Without ``dtype``: integers become int64, floats the default dtype, and arrays and tensors keep their own. It has no
    history: gradients do not reach ``data``.

    Raises:
        ValueError: the sequences are ragged.
        TypeError: an element is no number.
    """
    if isinstance(data, Tensor):
        data = detach(data)
        place = place_at(data._layout) if device is None else factory_place(device)
        return required(copied_to(data, place, None if dtype is None else dtype_of(dtype), always=True), requires_grad)
    if not isinstance(data, _KNOWN) and hasattr(data, "__dlpack__"):
        return tensor(import_(data), dtype=dtype, device=factory_place(device).device, requires_grad=requires_grad)
    made = _from_values(data, None if dtype is None else dtype_of(dtype))
    if pin_memory:
        made = pin_memory_of(made)
    place = factory_place(device)
    return required(made if place is made._layout.place else copied_to(made, place), requires_grad)


def as_tensor(data: Any, *, dtype: Any = None, device: Device = None) -> Tensor:
    """``tensor``, but without a copy where ``data`` is a tensor or NumPy's array that fits as it is."""
    if isinstance(data, np.ndarray):
        data = from_numpy(data)
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    if device is None and dtype is None:
        return data
    return to(data, data.device if device is None else device, dtype=dtype)


def scalar_tensor(value: Any, *, dtype: Any = None, device: Device = None, requires_grad: bool = False) -> Tensor:
    """A number as a tensor without dimensions."""
    kind = get_default_dtype() if dtype is None else dtype
    return tensor(value, dtype=kind, device=device, requires_grad=requires_grad)


def _from_values(data: Any, wanted: dtype | None) -> Tensor:
    if isinstance(data, _NUMPYS):
        array = np.asarray(data)
    else:
        data, own = _without_typed(data)
        array = _array_of(data, wanted)
        if wanted is None and own:
            wanted = reduce(promote_types, own)
        if wanted is None:
            if array.dtype.kind == "f":
                wanted = get_default_dtype()
            elif array.dtype.kind == "i":
                wanted = int64
        if not array.size:
            wanted = wanted or get_default_dtype()
        if wanted is not None and wanted.kind in "ui" and array.size and array.dtype.kind in "uif":
            check = COPY.check(wanted)
            assert check is not None
            check(array.min().item())
            check(array.max().item())
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        if array.dtype.kind == "c":
            raise TypeError(
                f"tensor(): {array.dtype} is not part of cuplug; use two tensors, of real and imaginary parts"
            )
        raise TypeError(
            f"tensor(): invalid data type: the elements must be numbers; NumPy makes {array.dtype} of what was given"
        )
    kind = wanted or dtype_from_numpy(array.dtype)
    return adopt_array(array.copy("K") if array.dtype == kind.numpy else _cast(array, kind.numpy))


@silent
def _cast(array: Any, kind: np.dtype[Any]) -> Any:
    return array.astype(kind)


def _array_of(data: Any, wanted: dtype | None) -> Any:
    try:
        array = np.array(data)
    except ValueError:
        if any(isinstance(each, str) for each in _leaves(data)):
            raise ElementTypeError(
                "tensor(): invalid data type: the elements must be numbers, and one of them is text"
            ) from None
        uneven = _ragged(data, _lengths_of_first(data))
        if uneven is None:  # NumPy refuses it for another reason, and says which
            raise
        raise uneven from None
    except OverflowError:
        array = np.array(data, dtype=object)
    if array.dtype.kind in "uO" and all(isinstance(each, (int, float)) for each in array.ravel().tolist()):
        if array.min() >= -(2**63) and array.max() < 2**63:
            return array.astype(np.int64)
        if wanted is None and not any(isinstance(each, float) for each in array.ravel().tolist()):
            raise ArgumentError("tensor(): a number is beyond the range of int64; name a floating-point dtype for it")
        try:
            return array.astype(np.float64)
        except OverflowError:
            raise ArgumentError("tensor(): a number is beyond the range of float64") from None
    return array


def _lengths_of_first(data: Any) -> list[int]:
    """The lengths of a sequence, its first item and so on: those that all others must have."""
    if not _is_sequence(data):
        return []
    return [len(data), *(_lengths_of_first(data[0]) if len(data) else ())]


def _is_sequence(data: Any) -> bool:
    """As NumPy takes it: of what has a length and items, all but texts, mappings and arrays without dimensions."""
    if isinstance(data, (str, bytes, bytearray, Mapping)) or getattr(data, "ndim", 1) == 0:
        return False
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _ragged(data: Any, lengths: Sequence[int], depth: int = 0) -> CuplugError | None:
    """The error, in torch's words, for the first sequence that has another length than the first of its level."""
    if depth == len(lengths):
        return ElementTypeError(f"must be real number, not {type(data).__name__}") if _is_sequence(data) else None
    if not _is_sequence(data):
        return ElementTypeError(f"not a sequence: {type(data).__name__} at dim {depth}, where the first item is one")
    if len(data) != lengths[depth]:
        return ArgumentError(f"expected sequence of length {lengths[depth]} at dim {depth} (got {len(data)})")
    return next(filter(None, (_ragged(each, lengths, depth + 1) for each in data)), None)


def _without_typed(data: Any) -> tuple[Any, set[dtype]]:
    """``data`` with numbers in place of tensors; and the types of all elements, if any has one of its own."""
    if not _holds_typed(data):
        return data, set()
    kinds: set[dtype] = set()

    def plain(part: Any) -> Any:
        if isinstance(part, Tensor):
            kinds.add(part.dtype)
            return item(part) if part.numel() == 1 else tolist(part)
        if isinstance(part, (list, tuple)):
            return [plain(each) for each in part]
        kinds.add(dtype_from_numpy(part.dtype) if isinstance(part, _NUMPYS) else scalar_dtype(type(part)))
        return part

    return plain(data), kinds


def _leaves(data: Any) -> Iterator[Any]:
    for each in data:
        if isinstance(each, (list, tuple)):
            yield from _leaves(each)
        else:
            yield each


def _holds_typed(data: Any, depth: int = 0) -> bool:
    if not isinstance(data, (list, tuple)):
        return False
    if depth > _DEEPEST:
        raise ElementTypeError(
            f"tensor(): the sequences are nested in more than {_DEEPEST} levels, or in themselves: self-referential "
            "lists are incompatible"
        )
    kinds = set(map(type, data))  # of few kinds, however many there are
    if any(issubclass(each, (Tensor, *_NUMPYS)) for each in kinds):
        return True
    return not kinds.isdisjoint((list, tuple)) and any(_holds_typed(each, depth + 1) for each in data)


_DEEPEST = 64
_NUMPYS = (np.ndarray, np.generic)
_KNOWN = (bool, int, float, list, tuple, *_NUMPYS)
"""What is taken apart by its own rules."""
