"""What is left to the system, or to a container's group (cgroup), before memory of the host is locked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cuplug.allocators.errors import OutOfMemoryError
from cuplug.runtime.drivers.cuda import host_room

from ..native import native_core as core

GIB = 1 << 30
SOURCE = """
#include "runtime/drivers/cuda/native/host_room.h"
int main() { std::printf("%llu", (unsigned long long)cuplug::lockable_bytes()); }
"""
CASES = {
    "no group": ({}, 20 * GIB),
    "a group without a limit": ({"memory.max": "max", "memory.current": str(GIB)}, 20 * GIB),
    "a group": ({"memory.max": str(8 * GIB), "memory.current": str(3 * GIB)}, 5 * GIB),
    "a group of the first version": (
        {"memory/memory.limit_in_bytes": str(4 * GIB), "memory/memory.usage_in_bytes": str(GIB)},
        3 * GIB,
    ),
    "a group that is full": ({"memory.max": str(GIB), "memory.current": str(GIB)}, 0),
    "one that has more than the system": ({"memory.max": str(99 * GIB), "memory.current": "0"}, 20 * GIB),
}


@pytest.fixture(params=CASES)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int]:
    """Where a system tells of itself, and how much it has left."""
    files, left = CASES[request.param]
    files = {"proc/meminfo": f"MemTotal: {64 << 20} kB\nMemAvailable: {20 << 20} kB\n"} | {
        f"sys/fs/cgroup/{name}": text for name, text in files.items()
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    return tmp_path, left


def test_all_may_be_locked_but_one_gibibyte(system: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    root, left = system
    monkeypatch.setattr(host_room, "_ROOT", root)
    assert host_room.free_host_bytes() == left
    room = left - GIB
    if room > 0:
        host_room.check_host_room(room)
    with pytest.raises(OutOfMemoryError, match=r"which 1\.00 GiB .*are not touched"):
        host_room.check_host_room(max(room, 0) + 1)


@pytest.mark.skipif(core.compiler() is None, reason="there is no C++ compiler")
def test_the_core_leaves_as_much(system: tuple[Path, int], tmp_path: Path) -> None:
    root, left = system
    (tmp_path / "room.cpp").write_text(SOURCE)
    here = Path(__file__).parents[2]
    options = ["-std=c++17", f"-I{here}", f'-DCUPLUG_SYSTEM_ROOT="{root}"']
    subprocess.run([core.compiler() or "", *options, "room.cpp", "-o", "room"], cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "room"], capture_output=True, check=True, text=True).stdout
    assert int(said) == max(0, left - GIB)
