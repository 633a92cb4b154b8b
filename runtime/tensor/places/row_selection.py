"""The largest or smallest elements of rows by partition, in NumPy: in order, equal elements as they stood."""

from __future__ import annotations

from typing import Any

import numpy as np


def sorted_rows(a: Any, descending: int) -> tuple[Any, Any]:
    """Stable. NaN counts as the largest number, as it does for NumPy."""
    if descending:
        order = a.shape[1] - 1 - np.argsort(a[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        order = np.argsort(a, axis=1, kind="stable")
    return _taken(a, order), order


def _taken(a: Any, places: Any) -> Any:
    """The elements at places of each row. From one row NumPy takes in a fifth of the time: all rows are made one."""
    if len(a) != 1:
        places = places + np.arange(len(a))[:, None] * a.shape[1]
    return a.reshape(-1).take(places)


_FEW = 256
"""Up to so many elements a whole sort takes less time than to find which belong to the first ones."""


def first_of_rows(a: Any, descending: int, wanted: int) -> tuple[Any, Any]:
    """The first ``wanted`` elements of the rows in order, and where they are."""
    rows, length = a.shape
    if a.size <= _FEW or not 0 < wanted < length:
        values, order = sorted_rows(a, descending)
        return values[:, :wanted], order[:, :wanted]
    place = length - wanted if descending else wanted - 1
    last = np.partition(a, place, axis=1)[:, place, None]
    found = np.flatnonzero(~(a < last) if descending else ~(a > last))  # NaN is neither, and may be too many
    if len(found) > rows * wanted:
        found = _without_surplus(a, found, last, descending, wanted)
    places = (found % length).reshape(rows, wanted)
    values, order = sorted_rows(_taken(a, places), descending)
    return values, _taken(places, order)


def ranked_in_rows(a: Any, rank: int) -> tuple[Any, Any]:
    """The element of a rank in each row, counted from 1, and where it is."""
    value = np.partition(a, rank - 1, axis=1)[:, rank - 1, None]
    before, same = _before_and_same(a, value, 0)
    wanted = rank - np.count_nonzero(before, axis=1, keepdims=True)
    return value, np.argmax(np.cumsum(same, axis=1, dtype=np.int32) == wanted, axis=1)[:, None]


def _without_surplus(a: Any, found: Any, last: Any, descending: int, wanted: int) -> Any:
    """Of elements that are not after the last one wanted, as many as are wanted of each row: of equals the first."""
    row = found // a.shape[1]
    before, same = _before_and_same(a.reshape(-1)[found], last[row, 0], descending)
    left = wanted - np.bincount(row, before, len(a)).astype(np.int64)
    upto = np.cumsum(same)
    starts = np.searchsorted(row, np.arange(len(a)))
    in_earlier_rows = np.concatenate(([0], upto))[starts]
    return found[before | (same & (upto - in_earlier_rows[row] <= left[row]))]


def _before_and_same(values: Any, last: Any, descending: int) -> tuple[Any, Any]:
    """What stands before an element in order, and what is its equal."""
    before = values > last if descending else values < last
    same = values == last
    if values.dtype.kind == "f":
        nan, last_is_nan = np.isnan(values), np.isnan(last)
        before |= nan & ~last_is_nan if descending else ~nan & last_is_nan
        same |= nan & last_is_nan
    return before, same
