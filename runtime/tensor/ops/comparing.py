"""Whether tensors are equal, or nearly so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.dtypes import get_default_dtype
from ..core.tensor import TensorCore
from ..core.tensor_errors import ElementTypeError

if TYPE_CHECKING:
    from ..methods import Tensor

__all__ = ["CompareMethods"]


class CompareMethods(TensorCore):
    """The methods of a tensor that compare it with another as a whole, or within a tolerance."""

    __slots__ = ()

    def equal(self, other: Tensor) -> bool:
        """Whether shape and elements are the same. Waits until they are there."""
        own: Any = self
        return self._layout.shape == other._layout.shape and bool((own == other).all())

    def isclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
        """Whether each element differs by ``atol + rtol * abs(other)`` at most; infinities only equal themselves.

        Raises:
            TypeError: the element types differ.
        """
        own: Any = self
        if own.dtype is not other.dtype:
            raise ElementTypeError(f"isclose: the tensors are of {own.dtype!r} and {other.dtype!r}; convert one")
        close: Tensor = own == other
        if own.dtype.kind != "f":  # differences of unsigned integers would wrap around
            own, other = own.to(get_default_dtype()), other.to(get_default_dtype())
        close = close | (((own - other).abs() <= atol + rtol * other.abs()) & own.isfinite() & other.isfinite())
        return close | (own.isnan() & other.isnan()) if equal_nan else close

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether all elements are close: see ``isclose``. Waits until they are there."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all())
