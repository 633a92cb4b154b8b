"""``Parameter``: a tensor that a module takes for one of its own to be trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..tensor.core.needed_tensors import layout_of
from ..tensor.core.tensor import Tensor
from ..tensor.ops.copying.copying import clone, detach
from ..tensor.ops.making.creation import empty

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Parameter"]


class Parameter(Tensor):
    """A leaf that requires gradients, unless told otherwise. A module registers those that it is assigned."""

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        """A parameter that shares the memory of ``data``.

        Args:
            data: a tensor; None for one without elements.
            requires_grad: whether gradients are computed for it.

        Raises:
            TypeError: ``data`` is no tensor; or gradients are wanted of other elements than floating-point numbers.
        """
        source = empty(0) if data is None else data
        layout = layout_of(source).plain
        made = object.__new__(cls)
        made._storage, made._offset, made._array, made._gradient = source._storage, source._offset, None, None
        made._layout = layout
        if requires_grad:
            made.requires_grad_()
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter with a copy of the elements; ``grad`` is not copied."""
        found = memo.get(id(self))
        if found is None:
            found = memo[id(self)] = type(self)(clone(detach(self)), self.requires_grad)
        return found

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return type(self), (detach(self), self.requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
