"""``utils._pytree``, as programs import it."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest
from cuplug.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - programs do
NESTED = {"x": [1, (2, 3)], "y": Pair(4, None), "z": OrderedDict(q=5)}


def test_nested_values_become_a_row_and_come_back_in_containers_of_their_kinds() -> None:
    leaves, spec = tree_flatten(NESTED)
    assert leaves == [1, 2, 3, 4, None, 5]
    assert spec.num_leaves == 6
    back = tree_unflatten(leaves, spec)
    assert back == NESTED
    assert [type(back[key]) for key in "yz"] == [Pair, OrderedDict]
    with pytest.raises(ValueError, match="5 leaves are given, and 6 were there"):
        tree_unflatten(leaves[:5], spec)


def test_a_function_is_mapped_over_the_leaves_of_several() -> None:
    assert tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}
    assert tree_leaves([(1, 2), [3]], is_leaf=lambda each: isinstance(each, tuple)) == [(1, 2), 3]
