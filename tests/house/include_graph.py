"""Who includes whom among the C++ of the package, and which floor each file stands on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["FLOORS", "PUBLIC_HEADER", "floor_of", "includes", "sources"]

FLOORS: tuple[tuple[str, ...], ...] = (
    ("allocators/native",),
    ("allocators/binding", "runtime/drivers/cuda/native"),
    ("runtime/drivers/sim/native",),
    ("plugins/tracing/native",),
    ("runtime/machine/native",),
    ("runtime/kernels/launch",),
    ("runtime/tensor/native",),
    ("runtime/interop/native", "runtime/interop/torch/bridge"),
    ("tools/replaying/native", "tools/benchmarks/native"),
)
"""The folders that hold C++, lowest first; those of one floor know nothing of each other."""
PUBLIC_HEADER = "allocators/native/cuplug_allocator.h"
"""What other programs include by its bare name."""
_INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.MULTILINE)


def sources(root: Path) -> list[Path]:
    """The C++ of the package, but for the headers that kernels on the simulator include: those are CUDA's."""
    found = [path for top in ("allocators", "plugins", "runtime", "tools") for path in (root / top).rglob("*")]
    found = [path for path in found if path.suffix in (".cpp", ".h")]
    return [path for path in found if "headers" not in path.relative_to(root).parts]


def floor_of(name: str) -> int | None:
    """The number of the floor that a folder stands on; None where it is on none."""
    return next((number for number, rooms in enumerate(FLOORS) if name in rooms), None)


def includes(root: Path, path: Path, text: str) -> Iterator[str]:
    """The files of the package that ``path`` includes if ``text`` is what it says, by their names from the root."""
    for written in _INCLUDE.findall(text):
        if (path.parent / written).exists():
            yield str((path.parent / written).resolve().relative_to(root))
        elif (root / written).exists() and "/" in written:
            yield written
        elif written == Path(PUBLIC_HEADER).name:
            yield PUBLIC_HEADER
