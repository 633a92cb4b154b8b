"""``utils._pytree``: values within lists, tuples and dictionaries, as one row and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]


class TreeSpec(NamedTuple):
    """What holds the leaves: ``remake`` makes it of its parts, and is None of a leaf."""

    remake: Callable[[list[Any]], Any] | None
    parts: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.remake is None else sum(part.num_leaves for part in self.parts)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and what ``tree_unflatten`` puts them back into. None is a leaf, as in torch.

    Args:
        tree: a value; lists, tuples and dictionaries are looked into.
        is_leaf: says of what is a leaf all the same.
    """
    kind = type(tree)
    if not (is_leaf is not None and is_leaf(tree)):
        if kind in (dict, OrderedDict, defaultdict):
            keys = list(tree)
            return _joined(tree.values(), is_leaf, lambda parts: _alike(tree, dict(zip(keys, parts, strict=True))))
        if kind in (list, tuple):
            return _joined(tree, is_leaf, kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return _joined(tree, is_leaf, lambda parts: kind(*parts))
    return [tree], TreeSpec(None, ())


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """What ``tree_flatten`` took apart, with these leaves.

    Raises:
        ValueError: there are fewer or more of them.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(given)} leaves are given, and {treespec.num_leaves} were there")
    return _remade(iter(given), treespec)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """``tree`` with ``func`` of each leaf, and of the leaves at the same places of ``rests``, in its place.

    Raises:
        ValueError: one of ``rests`` has another number of leaves.
    """
    leaves, treespec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return tree_unflatten([func(*row) for row in zip(leaves, *others, strict=True)], treespec)


def _joined(values: Any, is_leaf: Any, remake: Callable[[list[Any]], Any]) -> tuple[list[Any], TreeSpec]:
    found = [tree_flatten(value, is_leaf) for value in values]
    return [leaf for leaves, _ in found for leaf in leaves], TreeSpec(remake, tuple(spec for _, spec in found))


def _remade(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    return next(leaves) if spec.remake is None else spec.remake([_remade(leaves, part) for part in spec.parts])


def _alike(tree: dict[Any, Any], made: dict[Any, Any]) -> dict[Any, Any]:
    """``made`` as a dictionary of the kind of ``tree``."""
    copied = tree.copy()
    copied.update(made)
    return copied
