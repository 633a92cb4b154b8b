"""An extension module that was built from older sources says so, where a name is missing in it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import cuplug
import pytest
from cuplug.allocators.core_choice import tell_if_outdated

OLDER = """
import os, sys
from types import ModuleType
os.environ["CUPLUG_NATIVE"] = "1"
core = ModuleType("cuplug.allocators._native")
core.__file__ = "/somewhere/_native.so"
sys.modules[core.__name__] = core
import cuplug
"""


def test_a_core_of_older_sources_is_one_error_that_says_what_to_do():
    done = subprocess.run([sys.executable, "-c", OLDER], capture_output=True, text=True, check=False, timeout=100)
    told = done.stderr.splitlines()[-1]
    assert told.startswith("ImportError: /somewhere/_native.so was built from other sources of cuplug, and has no '")
    assert told.endswith("(in a checkout: pip install -e .), or do without its C++ code (CUPLUG_NATIVE=0)")


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("older_core")
    module.__file__ = "/somewhere/older_core.so"
    module.there = 3
    tell_if_outdated(module)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize("asking", ["from older_core import gone", "import older_core; older_core.gone"])
def test_a_module_that_is_imported_is_told_however_it_asks_for_a_name_that_is_missing(
    older: ModuleType, asking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "asks_older_core.py").write_text(asking)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"was built from other sources of cuplug, and has no 'gone': ") as told:
        import_module("asks_older_core")
    assert (told.value.name, told.value.path) == ("older_core", older.__file__)


def test_a_name_that_is_missing_later_is_an_attribute_error_that_says_what_to_do(older: ModuleType):
    with pytest.raises(AttributeError, match=r"has no 'gone': install cuplug again"):
        older.gone  # noqa: B018 - the look alone fails
    assert getattr(older, "gone", None) is None


@pytest.mark.parametrize("dumps", [pickle.dumps, pickle._dumps], ids=["C", "Python"])
def test_pickle_finds_a_function_that_names_no_module(
    older: ModuleType, dumps: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
):
    def gone():
        pass

    gone.__module__, gone.__qualname__ = None, "gone"
    after = ModuleType("after_older_core")
    after.gone = gone
    monkeypatch.setitem(sys.modules, after.__name__, after)
    hasattr(cuplug, "gone")  # it imports its tensors at the first such question: pickle goes through no growing table
    assert pickle.loads(dumps(gone)) is gone


def test_names_that_are_there_and_those_that_python_asks_for_are_as_ever(older: ModuleType):
    from older_core import there

    assert older.there == there == 3
    assert not hasattr(older, "__path__")
