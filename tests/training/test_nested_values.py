"""``utils._pytree``, as programs import it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

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


def test_structures_are_equal_where_values_hold_leaves_alike() -> None:
    assert tree_flatten(NESTED)[1] == tree_flatten(tree_map(str, NESTED))[1]
    assert tree_flatten([1, 2])[1] != tree_flatten((1, 2))[1]
    assert tree_flatten({"a": 1})[1] != tree_flatten({"b": 1})[1]
    counts = tree_map(len, defaultdict(list, a=[[1, 2]]), is_leaf=lambda each: each == [1, 2])
    assert (counts, counts["new"]) == ({"a": [2], "new": []}, [])
    assert tree_map(str, [{}, [], ()]) == [{}, [], ()]


def test_several_trees_are_joined_by_their_keys_and_told_where_they_differ() -> None:
    assert tree_map(lambda a, b: (a, b), {"x": 1, "y": 2}, {"y": 20, "x": 10}) == {"x": (1, 10), "y": (2, 20)}
    assert tree_map(lambda a, b: (a, b), [1], [[2, 3]]) == [(1, [2, 3])]
    for other in ([3], (3, 4), {"x": 3, "y": 4}, 3):
        with pytest.raises(ValueError, match="the first tree has a list of 2 where another one has"):
            tree_map(max, [1, 2], other)
    with pytest.raises(ValueError, match=r"with the keys \['x'\] where another one has \{'z': 1\}"):
        tree_map(max, {"x": 1}, {"z": 1})
