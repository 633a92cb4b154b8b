"""``Tensor.storage()``: the memory behind a tensor, as elements of the tensor's type."""

from __future__ import annotations

from typing import Any

from ...core.needed_tensors import layout_of
from ...core.storage import Storage
from ...core.tensor import Tensor
from .views import as_strided


class TypedStorage:
    """The elements of a storage, in the order of memory. What it does not have itself, the storage of bytes has."""

    def __init__(self, tensor: Tensor) -> None:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        self._row = as_strided(tensor.detach(), (count,), (1,), 0)
        self.dtype = tensor.dtype
        """The type of the elements."""

    def untyped(self) -> Storage:
        """The same memory, in bytes."""
        return self._row.untyped_storage()

    def size(self) -> int:
        """The number of elements."""
        return self._row.numel()

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self._row.element_size()

    def tolist(self) -> list[Any]:
        """The elements as Python's numbers."""
        return self._row.tolist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._row.numel()

    def __getitem__(self, index: int) -> Any:
        return self._row[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._row[index] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked of a copy that is being made and has no elements yet
            raise AttributeError(f"'TypedStorage' object has no attribute {name!r}")
        return getattr(self.untyped(), name)

    def __repr__(self) -> str:
        lines = "".join(f" {each}\n" for each in self.tolist())
        return f"{lines}[TypedStorage(dtype={self.dtype}, device={self._row.device}) of size {len(self)}]"


def storage(input: Tensor) -> Any:
    """The memory that this tensor shares with its views, as elements of its type (``TypedStorage``)."""
    layout_of(input)
    return TypedStorage(input)
