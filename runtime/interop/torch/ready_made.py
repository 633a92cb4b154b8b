"""Bridges to PyTorch that a wheel of cuplug carries ready-made, for machines where no compiler and no toolkit is.

One file for each version of PyTorch, kind of CUDA and machine: compressed, a line that says what it was made of and
for, and then the library. It counts only where that is exactly what is here. ``.ci/bridges`` makes them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import platform
import sys
from pathlib import Path
from types import ModuleType

from ....allocators.native import get_include

SOURCES = Path(__file__).parent / "bridge"
FOLDER = Path(__file__).parent / "ready"


def bridge_sources() -> list[str]:
    """The texts that a bridge is compiled from, its own and the core's header, each behind its name."""
    files = [*sorted(SOURCES.iterdir()), Path(get_include()) / "cuplug_allocator.h"]
    return [f"{file.name}\n{file.read_text()}" for file in files if file.is_file()]


def find_ready_made(torch: ModuleType, folder: Path = FOLDER) -> bytes | None:
    """The library for ``torch`` on this machine, if it is there and was made of these sources."""
    try:
        content = lzma.decompress((folder / _name(torch)).read_bytes())
    except (OSError, EOFError, lzma.LZMAError):
        return None
    head, _, library = content.partition(b"\n")
    try:
        return library if json.loads(head) == _described(torch) else None
    except ValueError:
        return None


def keep_ready_made(torch: ModuleType, library: bytes, folder: Path = FOLDER) -> Path:
    """Write the library for ``torch`` into ``folder``, where a wheel takes it from. Returns its file."""
    folder.mkdir(exist_ok=True)
    made = folder / _name(torch)
    made.write_bytes(lzma.compress(json.dumps(_described(torch)).encode() + b"\n" + library, preset=9))
    return made


def ready_made_versions(folder: Path = FOLDER) -> list[str]:
    """The versions of PyTorch that there are bridges for, on whatever machine."""
    return sorted({file.name.partition("-")[0] for file in folder.glob("*.xz")})


def _name(torch: ModuleType) -> str:
    said = _described(torch)
    return f"{said['torch']}-cu{said['cuda']}-{said['system']}-{said['machine']}.xz"


def _described(torch: ModuleType) -> dict[str, str]:
    """What a library is made of and for. The calls that it makes are the same for all of a CUDA's minor versions."""
    return {
        "torch": torch.__version__.partition("+")[0],
        "git": str(torch.version.git_version),
        "cuda": str(torch.version.cuda).partition(".")[0],
        "system": sys.platform,
        "machine": platform.machine(),
        "sources": hashlib.sha256("\0".join(bridge_sources()).encode()).hexdigest(),
    }
