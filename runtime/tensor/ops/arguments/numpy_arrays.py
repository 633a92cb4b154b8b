"""NumPy's arrays as CPU tensors, in the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....machine.callers import warn_program
from ...backends.on_host.cpu_place import HOST
from ...core.dtypes import from_numpy as dtype_from_numpy
from ...core.dtypes import scalar_dtype
from ...core.layout import Layout
from ...core.storage import ArrayStorage
from ...core.tensor import Tensor, make_tensor


def from_numpy(array: npt.NDArray[Any]) -> Tensor:
    """NumPy's array as a CPU tensor in the same memory. One that cannot be written to is warned of: what writes to the
    tensor raises.

    Raises:
        TypeError: it is no array, or of a type that tensors do not have.
        ValueError: its strides are no multiples of an element.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy() takes NumPy's arrays, not {type(array).__name__}")
    if not array.flags.writeable:
        warn_program(
            "The given NumPy array is not writable, and writing to the tensor raises. You may want to copy the array, "
            "or make it writable before converting it to a tensor",
        )
    return sharing(array)


def sharing(array: npt.NDArray[Any]) -> Tensor:
    """``from_numpy`` of what is known to be an array, without a warning.

    Raises:
        TypeError: it is of a type that tensors do not have.
        ValueError: its strides are no multiples of an element.
    """
    kind = dtype_from_numpy(array.dtype)
    itemsize = kind.itemsize
    if any([stride % itemsize for stride in array.strides]):  # noqa: C419 - few: a list takes half as long
        raise ValueError(
            f"the array's strides {array.strides} are no multiples of an element of {itemsize} bytes; copy it"
        )
    layout = Layout.of(HOST, kind, array.shape, tuple([stride // itemsize for stride in array.strides]))
    storage = ArrayStorage.of_array(HOST, array)
    return make_tensor(storage, -layout.span()[0], layout, array if type(array) is np.ndarray else None)


def adopt_array(array: Any) -> Tensor:
    """An array of NumPy's without gaps, made for the purpose, as a CPU tensor: in fewer steps than ``from_numpy``."""
    kind = dtype_from_numpy(array.dtype)
    strides = None if array.flags.c_contiguous else tuple(stride // kind.itemsize for stride in array.strides)
    layout = Layout.of(HOST, kind, array.shape, strides)
    return make_tensor(ArrayStorage(HOST, layout.nbytes, array), 0, layout, array)


def number_as_tensor(value: bool | float) -> Tensor:
    """A Python number as a CPU tensor without dimensions, of the type that it stands for."""
    return adopt_array(np.array(value, scalar_dtype(type(value)).numpy))
