"""Pairing allocations with frees, against a plain model."""

from __future__ import annotations

import numpy as np
from cuplug.allocators.events import EventKind as Kind
from cuplug.plugins.tracing.trace_in_memory import EVENT_DTYPE, EventArray
from cuplug.tools.analysis.blocks import curves, find_blocks
from hypothesis import given
from hypothesis import strategies as st


def events(*rows: tuple[Kind, int, int]) -> EventArray:
    """Events of (kind, address, requested bytes), rounded to 512."""
    made = np.zeros(len(rows), EVENT_DTYPE)
    for place, (kind, address, requested) in enumerate(rows):
        made["kind"][place], made["address"][place], made["requested"][place] = kind, address, requested
        made["nbytes"][place] = -(-requested // 512) * 512
    return made


def test_an_address_that_is_used_again_belongs_to_another_block() -> None:
    found = find_blocks(events((Kind.ALLOCATE, 1, 5), (Kind.FREE, 1, 5), (Kind.ALLOCATE, 1, 7), (Kind.FREE, 1, 7)))
    assert found.allocated.tolist() == [0, 2]
    assert found.freed.tolist() == [1, 3]
    assert found.reusable.tolist() == [1, 3]


def test_a_block_that_waits_is_reusable_when_its_fence_has_passed() -> None:
    found = find_blocks(
        events((Kind.ALLOCATE, 1, 5), (Kind.RECORD_STREAM, 1, 5), (Kind.FREE, 1, 5), (Kind.FENCE_PASSED, 1, 5))
    )
    assert (found.freed.tolist(), found.reusable.tolist()) == ([2], [3])


def test_a_block_whose_fence_is_missing_never_became_reusable() -> None:
    found = find_blocks(events((Kind.ALLOCATE, 1, 5), (Kind.RECORD_STREAM, 1, 5), (Kind.FREE, 1, 5)))
    assert (found.freed.tolist(), found.reusable.tolist()) == ([2], [-1])


def test_frees_from_before_the_recording_are_counted_and_change_nothing() -> None:
    made = events((Kind.FREE, 9, 5), (Kind.ALLOCATE, 1, 5), (Kind.FREE, 2, 5), (Kind.FENCE_PASSED, 9, 5))
    found = find_blocks(made)
    assert found.unknown_frees == 2
    assert found.freed.tolist() == [-1]
    assert curves(made, found).requested.tolist() == [0, 5, 5, 5]


def test_no_events_are_no_blocks() -> None:
    found = find_blocks(events())
    assert len(found.allocated) == 0
    assert found.unknown_frees == 0


def test_what_is_held_counts_pages_where_they_are_created() -> None:
    made = events(
        (Kind.PAGE_CREATE, 1, 2048), (Kind.PAGE_MAP, 5, 2048), (Kind.PAGE_UNMAP, 5, 2048), (Kind.PAGE_RELEASE, 1, 2048)
    )
    assert curves(made, find_blocks(made)).reserved.tolist() == [2048, 2048, 2048, 0]


def test_what_is_held_counts_mappings_where_nothing_else_is_told() -> None:
    made = events((Kind.SEGMENT_RESERVE, 9, 512), (Kind.PAGE_MAP, 5, 2048), (Kind.PAGE_UNMAP, 5, 2048))
    assert curves(made, find_blocks(made)).reserved.tolist() == [512, 2560, 512]


ROWS = st.tuples(
    st.sampled_from([Kind.ALLOCATE, Kind.FREE, Kind.RECORD_STREAM, Kind.FENCE_PASSED, Kind.MARKER]),
    st.integers(0, 3),
    st.integers(1, 2000),
)


@given(st.lists(ROWS, max_size=40))
def test_any_order_of_events_is_paired_as_a_plain_loop_pairs_it(rows: list[tuple[Kind, int, int]]) -> None:
    made = events(*rows)
    freed: dict[int, int] = {}
    passed: dict[int, int] = {}
    waits: set[int] = set()
    latest: dict[int, int] = {}
    unknown = 0
    for place, (kind, address, _) in enumerate(rows):
        owner = latest.get(address)
        if kind is Kind.ALLOCATE:
            latest[address] = place
        elif kind is Kind.FREE:
            unknown += owner is None
            if owner is not None:
                freed.setdefault(owner, place)
        elif kind is Kind.FENCE_PASSED and owner is not None:
            passed.setdefault(owner, place)
        elif kind is Kind.RECORD_STREAM and owner is not None:
            waits.add(owner)
    found = find_blocks(made)
    allocated = [place for place, row in enumerate(rows) if row[0] is Kind.ALLOCATE]
    assert found.allocated.tolist() == allocated
    assert found.freed.tolist() == [freed.get(place, -1) for place in allocated]
    expected = [passed.get(place, -1 if place in waits else freed.get(place, -1)) for place in allocated]
    assert found.reusable.tolist() == expected
    assert found.unknown_frees == unknown
