"""What is refused because tensors lie over one another in memory, as in torch: a result that would depend on the order
in which elements are read and written."""

from __future__ import annotations

from typing import Any

from ....machine.callers import warn_program
from ...core.needed_tensors import layout_of, needed
from ...core.tensor import Tensor
from ...core.tensor_errors import ArgumentError


def lies_over(a: Tensor, b: Tensor) -> bool:
    """Whether the memory from the first to the last element of one tensor meets that of the other."""
    if needed(a)._storage is not needed(b)._storage:
        return False
    (a_low, a_high), (b_low, b_high) = _bytes_of(a), _bytes_of(b)
    return a_low < b_high and b_low < a_high


def refuse_part(written: Tensor, read: Tensor) -> None:
    """Raise if ``read`` lies over a part of ``written``, or over all of it in another order.

    Of tensors with gaps, or in which several indices mean one element, torch does not know, and takes them.

    Raises:
        ArgumentError: it does.
    """
    if not lies_over(written, read) or not (_is_dense(written) and _is_dense(read)):
        return
    if _bytes_of(written) != _bytes_of(read) or written._layout.strides != read._layout.strides:
        raise _overlapping(written, read)


def refuse_overlap(written: Tensor, *read: Any) -> None:
    """Raise if a tensor of ``read`` lies over ``written`` at all.

    Raises:
        ArgumentError: it does.
    """
    for each in read:
        if isinstance(each, Tensor) and lies_over(written, each) and _is_dense(written) and _is_dense(each):
            raise _overlapping(written, each)


def refuse_expanded(written: Tensor) -> None:
    """Raise if a dimension of ``written`` is expanded: all its indices mean one element.

    Raises:
        ArgumentError: it is.
    """
    if _is_expanded(written):
        raise ArgumentError(
            f"unsupported operation: more than one element of the tensor to be written, of shape {list(written.shape)} "
            f"and strides {list(written._layout.strides)}, refers to a single memory location; .clone() it first"
        )


def warn_of_expanded(name: str, written: Tensor) -> None:
    """Warn if a dimension of ``written`` is expanded."""
    if _is_expanded(written):
        warn_program(
            f"Use of {name} on expanded tensors is deprecated: several indices mean one element. Please .clone() the "
            "tensor first",
        )


def _bytes_of(tensor: Tensor) -> tuple[int, int]:
    layout = tensor._layout
    low, high = layout.span()
    if not layout.numel:
        return 0, 0
    return (tensor._offset + low) * layout.dtype.itemsize, (tensor._offset + high) * layout.dtype.itemsize


def _is_dense(tensor: Tensor) -> bool:
    return tensor._layout.dense_order() is not None


def _is_expanded(tensor: Tensor) -> bool:
    layout = layout_of(tensor)
    return any(not stride and length > 1 for length, stride in zip(layout.shape, layout.strides, strict=True))


def _overlapping(written: Tensor, read: Tensor) -> ArgumentError:
    return ArgumentError(
        "unsupported operation: some elements of the tensor to be written, of shape "
        f"{list(written.shape)}, and of one that is read, of shape {list(read.shape)}, refer to a single memory "
        "location; .clone() the latter first"
    )
