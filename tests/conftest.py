"""What the tests need and how they are multiplied.

Tests are grouped by what they need: nothing; a driver (the fixtures ``driver``, ``make_driver``, ``allocator``: every
schedule of the simulator, or what ``--driver`` says); the simulator itself (``needs_sim``); a GPU (``needs_gpu``: run
with ``--driver cuda``); another library (``needs_torch`` and its kin). No test asks for a GPU unless ``--driver`` does.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from cuplug.plugins.selection import parse_selection

pytest_plugins = ["cuplug.plugins.conformance"]

LIBRARIES = ("torch", "cupy", "numba", "rmm", "pycuda")


class RootIsNoTestPackage:
    """Keeps pytest from importing the repository's root, which is the package, a second time and by another name."""

    @pytest.hookimpl
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if path != Path(__file__).parents[1]:
            return None
        directory: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
        return directory


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RootIsNoTestPackage(), "cuplug-root")
    config.addinivalue_line("markers", "needs_sim: tests what only the simulator does")
    config.addinivalue_line("markers", "needs_gpu: needs a GPU; runs with --driver cuda")
    for library in LIBRARIES:
        config.addinivalue_line("markers", f"needs_{library}: needs the library {library}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    driver = parse_selection(item.config.getoption("--driver")).name
    if item.get_closest_marker("needs_gpu") and driver != "cuda":
        pytest.skip("needs a GPU: run with --driver cuda")
    if item.get_closest_marker("needs_sim") and driver != "sim":
        pytest.skip("tests the simulator: run with --driver sim")
    for library in LIBRARIES:
        if item.get_closest_marker(f"needs_{library}") and find_spec(library) is None:
            pytest.skip(f"needs {library}, which is not installed")


# As the conformance kit registers it, which is loaded after this file: the same examples in every run.
hypothesis.settings.register_profile(
    "reproducible", max_examples=30, stateful_step_count=40, deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("reproducible")
