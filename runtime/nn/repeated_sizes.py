"""Sizes given once for several dimensions, by the names that programs import from ``torch.nn.modules.utils``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from numbers import Integral
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function by which one value becomes ``n``; what can be iterated over becomes a tuple of its own length."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """The values from the last to the first, each ``n`` times, as ``pad`` takes them."""
    return tuple(each for each in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: Sequence[int]) -> Any:
    """Sizes with those of ``defaults``, counted from its end, in place of None.

    Raises:
        ValueError: ``defaults`` is not longer.
    """
    if isinstance(out_size, Integral):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [default if size is None else size for size, default in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take ``prefix`` (``module.``, say) off the names of a state, in place."""
    for name in [name for name in state_dict if name.startswith(prefix)]:
        state_dict[name[len(prefix) :]] = state_dict.pop(name)
