"""``host_tags=optimizer`` in the choice of PyTorch's allocator: what it asks for, and what it tags in a step."""

from __future__ import annotations

from typing import Any

import pytest
from cuplug.allocators.errors import CuplugError
from cuplug.allocators.tags import ON_HOST, here, tag_name
from cuplug.runtime.interop.torch import host_tags
from cuplug.runtime.interop.torch.host_tags import without_host_tags


@pytest.mark.parametrize(
    ("asked", "allocator", "tags"),
    [
        ("expandable:host=64GiB,host_tags=optimizer", "expandable:host=64GiB", ("optimizer",)),
        ("planned:learn=3,host_tags=optimizer,host=1GiB", "planned:learn=3,host=1GiB", ("optimizer",)),
        ("expandable:host=64GiB", "expandable:host=64GiB", ()),
        ("caching", "caching", ()),
    ],
)
def test_the_option_is_taken_off_what_the_allocator_is_given(asked: str, allocator: str, tags: tuple[str, ...]) -> None:
    assert without_host_tags(asked) == (allocator, tags)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("expandable:host=64GiB,host_tags=optimiser", "known: optimizer"),
        ("expandable:host_tags=optimizer", r"may take none there; say how much.*host=64GiB"),
        ("expandable:host=0,host_tags=optimizer", "may take none there"),
    ],
)
def test_what_cannot_be_done_is_said(asked: str, said: str) -> None:
    with pytest.raises(CuplugError, match=said):
        without_host_tags(asked)


class Optimizer:
    """As PyTorch's: it makes states in ``_init_group``, and allocates besides."""

    def __init__(self) -> None:
        self.state: dict[Any, Any] = {}
        self.seen: list[int] = []

    def _init_group(self, group: object) -> object:
        self.seen.append(here.tag)
        return group

    def step(self, *, fails: bool = False) -> None:
        host_tags._begins(self, (), {})
        assert self._init_group("group") == "group"
        self.seen.append(here.tag)
        if fails:
            raise RuntimeError("in the middle of a step")
        host_tags._has_ended(self, (), {})


def test_what_makes_states_is_tagged_for_the_host_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    optimizer = Optimizer()
    for _ in range(2):
        optimizer.step()
    states, besides, *_ = optimizer.seen
    assert (tag_name(states - ON_HOST), besides) == ("optimizer", 0)
    assert "_init_group" not in vars(optimizer)  # so that it can be pickled as before
    assert capsys.readouterr().err.count("Optimizer has states of 0 MiB on devices") == 1


def test_a_step_that_raises_leaves_the_next_one_as_it_was() -> None:
    optimizer = Optimizer()
    with pytest.raises(RuntimeError, match="middle"):
        optimizer.step(fails=True)
    assert here.tag == 0
    optimizer.step()
    assert len(optimizer.seen) == 4
    assert "_init_group" not in vars(optimizer)


def test_an_optimiser_that_makes_states_in_a_way_of_its_own_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    class Other:
        pass

    host_tags._begins(Other())
    host_tags._has_ended(Other())
    assert "Other makes its states in a way of its own" in capsys.readouterr().err
