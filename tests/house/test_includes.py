"""An ``#include`` runs up a floor no more than an import does, and reaches no neighbour on the same floor."""

from __future__ import annotations

from pathlib import Path

import pytest

from .include_graph import FLOORS, floor_of, includes, sources

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_OF_THE_CORE = {"Python.h", "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h"}
"""What ``allocators/native`` must do without: it is built without an interpreter and without CUDA."""


def runs_up(path: Path, text: str) -> list[str]:
    """The files on a floor above, or beside it on the same one, that ``path`` includes if ``text`` is what it says."""
    here = str(path.parent.relative_to(ROOT))
    own = floor_of(here)
    assert own is not None, f"{path} stands on no floor: name its folder in include_graph.py"
    found = []
    for name in includes(ROOT, path, text):
        folder = str(Path(name).parent)
        floor = floor_of(folder)
        assert floor is not None, name
        if floor > own or (floor == own and folder != here):
            found.append(name)
    return found


def test_every_include_runs_down():
    found = {str(path.relative_to(ROOT)): up for path in sources(ROOT) if (up := runs_up(path, path.read_text()))}
    assert not found


def test_every_floor_has_files_and_most_of_them_include_something():
    counted = [(path, list(includes(ROOT, path, path.read_text()))) for path in sources(ROOT)]
    assert len(counted) > 70
    assert sum(bool(found) for _, found in counted) > 60
    folders = {str(path.parent.relative_to(ROOT)) for path, _ in counted}
    assert folders == {room for rooms in FLOORS for room in rooms}


@pytest.mark.parametrize(
    ("file", "include", "up"),
    [
        ("allocators/native/events.h", "plugins/tracing/native/trace_log.h", "plugins/tracing/native/trace_log.h"),
        ("allocators/native/space.h", "allocators/binding/python_binding.h", "allocators/binding/python_binding.h"),
        ("runtime/machine/native/python_owner.cpp", "runtime/interop/torch/bridge/core.h", "core.h"),
        (
            "runtime/drivers/cuda/native/cuda_upstream.cpp",
            "allocators/binding/python_binding.h",
            "allocators/binding/python_binding.h",
        ),
    ],
    ids=["the trace in the core", "the interpreter in the core", "a library's door in the machine", "a neighbour"],
)
def test_a_planted_include_that_runs_up_is_found(file, include, up):
    path = ROOT / file
    found = runs_up(path, f'#include "{include}"\n' + path.read_text())
    assert len(found) == 1
    assert found[0].endswith(up)


def test_the_core_knows_neither_the_interpreter_nor_cuda():
    for path in (ROOT / "allocators" / "native").iterdir():
        if path.suffix in (".cpp", ".h"):
            text = path.read_text()
            assert not [name for name in SYSTEM_OF_THE_CORE if f"#include <{name}>" in text], path
            assert "Py_" not in text, path


def test_the_extension_is_built_from_every_floor_but_those_with_one_of_their_own():
    built = (ROOT / "setup.py").read_text()
    own = {"runtime/kernels/launch", "runtime/interop/torch/bridge"}  # a module of its own; compiled where PyTorch is
    listed = [room for rooms in FLOORS for room in rooms if room not in own]
    assert not [room for room in listed if f'"{room}",' not in built]
