"""The table of the strategies' figures: both forms have it, and use each line of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuplug.allocators import constants
from cuplug.allocators.constants import FIGURES
from cuplug.allocators.native import is_available

FOLDER = Path(constants.__file__).parent


def test_every_line_of_the_table_is_read() -> None:
    text = (FOLDER / "native" / "constants.def").read_text()
    assert len(FIGURES) == len(re.findall(r"^FIGURE\(", text, re.MULTILINE))
    assert (constants.MOST_SEGMENT, FIGURES["MOST_SEGMENT"].value) == (64 << 20, 64 << 20)


@pytest.mark.parametrize("pattern", ["*.py", "native/*.[ch]*"])
def test_both_forms_use_every_figure(pattern: str) -> None:
    texts = [path.read_text() for path in FOLDER.glob(pattern)]
    unused = [name for name in FIGURES if not any(re.search(rf"\b{name}\b", text) for text in texts)]
    assert unused == []


@pytest.mark.skipif(not is_available(), reason="there is no core to give a figure to")
def test_the_core_knows_every_figure_by_its_name() -> None:
    from cuplug.allocators import _native

    for figure in FIGURES.values():
        _native.set_figure(figure.name, figure.value)
    with pytest.raises(ValueError, match="there is no figure MOST_LUCK"):
        _native.set_figure("MOST_LUCK", 7)
