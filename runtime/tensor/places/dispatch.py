"""The one way to run an operation: find the plan that was made for operands of these layouts, or make it, and run it.

A *plan* is a function of the operands that does all the work. It stands in the ``plans`` of the first tensor's layout,
under what the operation is and the other operands' layouts, so that an operation that was done before costs one look-up
by identity, one allocation and the work.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..core.casting_seam import seam
from ..core.gradient_seam import engine
from ..core.needed_tensors import no_tensor
from ..core.tensor import Tensor

Plan = Callable[..., Any]
"""What an operation does with operands of given layouts. It takes the operands, and what else came with them."""
Prepare = Callable[..., Plan]
"""``prepare(operation, *operands)`` makes the plan for operands like these."""


class PlanForOnce:
    """A plan that is not kept, since what allowed it may change."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(self, *operands: Any) -> Any:
        return self._plan(*operands)


def dispatch(operation: Hashable, prepare: Prepare, operands: Sequence[Any], *values: Any) -> Any:
    """Run an operation on tensors and numbers.

    Args:
        operation: what identifies it, with all that settles the plan beside the operands: a line of a table, or a name
            with the dimensions asked for.
        prepare: makes the plan, if there is none yet for operands like these.
        operands: tensors, of which there is one at least, and Python numbers, of which only the types settle the plan.
        values: what the plan takes besides. It may be different each time.

    Returns:
        What the plan returns: usually the result, a new tensor.
    """
    if seam.on:
        operands = seam.convert(operation, operands)
    return plan_for(operation, prepare, operands)(*operands, *values)


def plan_for(operation: Hashable, prepare: Prepare, operands: Sequence[Any]) -> Plan:
    """The plan that ``dispatch`` runs: that which was kept, or a new one. Of operands that require gradients it also
    records what it does."""
    first = operands[0]
    key: tuple[Any, ...]
    if len(operands) == 1:  # the most usual cases, which take no loop
        key = (operation,)
    elif len(operands) == 2 and isinstance(first, Tensor):
        other = operands[1]
        key = (operation, other._layout if isinstance(other, Tensor) else type(other))
    elif isinstance(first, Tensor):
        key = (operation, *[each._layout if isinstance(each, Tensor) else type(each) for each in operands[1:]])
    else:  # a number comes first
        key = (operation, *[each._layout if isinstance(each, Tensor) else type(each) for each in operands])
        for first in operands:
            if isinstance(first, Tensor):
                break
        else:
            raise TypeError(f"none of {', '.join(type(each).__name__ for each in operands)} is a tensor")
    try:
        plans = first._layout.plans
    except AttributeError:
        raise no_tensor(first) from None
    plan: Plan | None = plans.get(key)
    if plan is None:
        for each in operands:
            if isinstance(each, Tensor) and each._layout.tracked:
                plan = engine().recorded(operation, prepare, operands)
                break
        else:
            plan = prepare(operation, *operands)
        if not isinstance(plan, PlanForOnce):
            plans[key] = plan
    return plan
