"""The examples of the reference do what they print."""

from __future__ import annotations

import doctest
import operator
import re
from pathlib import Path

import cuplug
import pytest

PAGE = Path(__file__).parents[2] / "docs/reference/examples.md"


@pytest.mark.needs_sim
def test_each_example_of_the_reference_prints_what_it_says() -> None:
    test = doctest.DocTestParser().get_doctest(PAGE.read_text("utf-8"), {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    cuplug.shutdown()  # the page makes a runtime of its own
    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    cuplug.shutdown()
    assert not failed, "".join(told)
    assert tried > 80


def test_there_are_examples_of_fifty_names() -> None:
    text = PAGE.read_text("utf-8")
    code = "\n".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    shown = {name for name in re.findall(r"`([A-Za-z_.]+)`", text) if re.search(rf"\b{name.split('.')[-1]}\b", code)}
    assert len({name for name in shown if _is_there(name)}) >= 50


def _is_there(name: str) -> bool:
    try:
        operator.attrgetter(name)(cuplug)
    except AttributeError:
        return False
    return True
