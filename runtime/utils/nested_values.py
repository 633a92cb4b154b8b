"""``utils._pytree``: values within lists, tuples and dictionaries, as one row and back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["TreeSpec", "tree_flatten", "tree_leaves", "tree_map", "tree_unflatten"]


class TreeSpec(NamedTuple):
    """What holds the leaves. Those of two values are equal where both hold as many leaves in the same way."""

    kind: type[Any] | None
    """The type of the value; None of a leaf."""
    keys: tuple[Any, ...] | None
    """Of a dictionary: what makes missing values, and the keys in order."""
    parts: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.kind is None else sum(part.num_leaves for part in self.parts)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and what ``tree_unflatten`` puts them back into. None is a leaf, as in torch.

    Args:
        tree: a value; lists, tuples and dictionaries are looked into.
        is_leaf: says of what is a leaf all the same.
    """
    kind = type(tree)
    keys = (getattr(tree, "default_factory", None), *tree) if kind in _DICTIONARIES else None
    listed = kind in (list, tuple) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    if (is_leaf is not None and is_leaf(tree)) or not (listed or keys):
        return [tree], TreeSpec(None, None, ())
    found = [tree_flatten(value, is_leaf) for value in (tree if keys is None else tree.values())]
    return [leaf for leaves, _ in found for leaf in leaves], TreeSpec(kind, keys, tuple(spec for _, spec in found))


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
    """``tree`` with ``func`` of each leaf, and of what ``rests`` hold at the same place, or under the same keys.

    Raises:
        ValueError: one of ``rests`` has no value at the place of a leaf, or one too many.
    """
    leaves, treespec = tree_flatten(tree, is_leaf)
    others = [_at_leaves(treespec, rest) for rest in rests]
    return tree_unflatten([func(*row) for row in zip(leaves, *others, strict=True)], treespec)


def _remade(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.kind is None:
        return next(leaves)
    parts = [_remade(leaves, part) for part in spec.parts]
    if spec.keys is None:
        return spec.kind(*parts) if hasattr(spec.kind, "_fields") else spec.kind(parts)
    factory, *keys = spec.keys
    pairs = zip(keys, parts, strict=True)
    return defaultdict(factory, pairs) if spec.kind is defaultdict else spec.kind(pairs)


def _at_leaves(spec: TreeSpec, tree: Any) -> list[Any]:
    """What ``tree`` holds where ``spec`` has its leaves."""
    if spec.kind is None:
        return [tree]
    keys = None if spec.keys is None else spec.keys[1:]
    alike = type(tree) is spec.kind if keys is None else type(tree) in _DICTIONARIES and set(tree) == set(keys)
    if not alike or len(tree) != len(spec.parts):
        asked = f"{spec.kind.__name__} of {len(spec.parts)}" + ("" if keys is None else f" with the keys {list(keys)}")
        raise ValueError(f"tree_map: the first tree has a {asked} where another one has {tree!r:.100}")
    values = tree if keys is None else [tree[key] for key in keys]
    return [leaf for part, value in zip(spec.parts, values, strict=True) for leaf in _at_leaves(part, value)]


_DICTIONARIES = (dict, OrderedDict, defaultdict)
