"""No module reaches itself by imports, wherever in a file they stand. What is there can be read in one order."""

from __future__ import annotations

from pathlib import Path

import pytest

from .import_graph import circles, import_graph, imports

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("allocators", "plugins", "runtime", "tools")


@pytest.fixture(scope="module")
def graph():
    return import_graph(ROOT, FLOORS)


def test_there_is_no_circle(graph):
    assert len(graph) > 250
    assert sum(map(len, graph.values())) > 1000
    assert circles(graph) == []


@pytest.mark.parametrize(
    ("module", "code", "circle"),
    [
        ("allocators.sizes", "from .caching import CachingAllocator\n", "allocators.caching"),
        (
            "runtime.machine.current",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .runtime import Runtime\n",
            "runtime.machine.runtime",
        ),
        (
            "runtime.streams.stream",
            "def later():\n    from ..memory.copies import memcpy\n    return memcpy\n",
            "runtime.memory.copies",
        ),
        ("runtime.tensor.core.shapes", "def later():\n    import cuplug\n    return cuplug\n", ""),
    ],
    ids=["at the top", "for an annotation", "in a function", "by way of the package"],
)
def test_a_planted_circle_is_found(graph, module, code, circle):
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    planted = set(imports(path.read_text() + "\n\n" + code, module, set(graph)))
    assert planted > graph[module]
    found = circles({**graph, module: planted})
    assert len(found) == 1
    assert {module, circle} <= set(found[0])
