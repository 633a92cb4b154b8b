"""Tensors like this one: ``new_full`` and its kin, the older ``new``, and ``type``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.layout import shape_of
from ..core.tensor import TensorCore
from .reshaping import given

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["CreationMethods"]


class CreationMethods(TensorCore):
    """The methods of a tensor that make others with its type and on its device, unless told otherwise."""

    __slots__ = ()

    def new_empty(self, *size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Tensor:
        """An uninitialised tensor of this shape."""
        from .creation import empty

        return empty(shape_of(given(size, named, "size")), dtype=self._kind(dtype), device=self._home(device))

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Tensor:
        """A tensor of this shape with 0 everywhere."""
        return self.new_empty(*size, dtype=dtype, device=device, **named).zero_()

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Tensor:
        """A tensor of this shape with 1 everywhere."""
        return self.new_empty(*size, dtype=dtype, device=device, **named).fill_(1)

    def new_full(self, size: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """A tensor of this shape with ``fill_value`` everywhere."""
        return self.new_empty(size, dtype=dtype, device=device).fill_(fill_value)

    def new_tensor(self, data: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """A tensor with a copy of ``data``."""
        from .creation import tensor

        return tensor(data, dtype=self._kind(dtype), device=self._home(device))

    def new(self, *args: Any) -> Tensor:
        """As the legacy constructor of this type: ``new(2, 3)``, ``new(size)``, ``new([[1, 2]])``, ``new()``."""
        from .legacy_types import legacy_tensor

        return legacy_tensor(self.dtype, self.device, args)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the legacy type, such as ``torch.cuda.FloatTensor``; or the tensor as another type, given as a
        dtype, a legacy class or its name."""
        from .legacy_types import LegacyType, legacy_name, named_type

        if dtype is None:
            return legacy_name(self)  # type: ignore[arg-type]
        if isinstance(dtype, str) and dtype.endswith("Tensor"):
            dtype = named_type(dtype)
        elif dtype is self.__class__:
            dtype = named_type("Tensor")
        tensor: Tensor = self  # type: ignore[assignment]
        if isinstance(dtype, LegacyType):
            device = "cuda" if dtype.device == "cuda" and not self.is_cuda else None
            device = "cpu" if dtype.device == "cpu" else device
            return tensor.to(self.device if device is None else device, dtype.dtype, non_blocking=non_blocking)
        return tensor.to(dtype, non_blocking=non_blocking)

    def _kind(self, dtype: Any) -> Any:
        return self._layout.dtype if dtype is None else dtype

    def _home(self, device: Any) -> Any:
        return self._layout.place.device if device is None else device
