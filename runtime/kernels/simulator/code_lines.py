"""Which line of the source an address in compiled code belongs to, by ``addr2line`` where it is installed."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence

__all__ = ["lines_of", "quoted", "text_of"]

_TIMEOUT_S = 20.0
_MOST_CHARACTERS = 100


def lines_of(image: bytes, offsets: Sequence[int]) -> dict[int, str]:
    """The lines of offsets into a module, as far as they are known: ``line 7``, or ``tools.h, line 3`` in an included
    file. Of functions that were inlined into one another the innermost that is the program's.
    """
    if not offsets:
        return {}
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(image)
        file.flush()
        command = ["addr2line", "-a", "-i", "-e", file.name, *map(hex, offsets)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return {}
    found: dict[int, str] = {}
    offset = 0
    for answer in done.stdout.splitlines():
        if answer.startswith("0x"):
            offset = int(answer, 16)
            continue
        match = re.match(r"(.*?)([^/]+):([1-9]\d*)", answer)
        if match and offset not in found and "/simulator/headers/" not in match[1] and not match[1].startswith("/usr/"):
            found[offset] = f"line {match[3]}" if match[2] == "kernel.cu" else f"{match[2]}, line {match[3]}"
    return found


def quoted(line: str, source: str) -> str:
    """A line as ``lines_of`` names it, with what stands there if it is one of ``source``: ``line 7, `x[i] = 2;` ``."""
    text = text_of(line, source)
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS - 1]}…"
    return f"{line}, `{text}`" if text else line


def text_of(line: str, source: str) -> str:
    """What stands in a line as ``lines_of`` names it, if it is one of ``source``; else nothing."""
    match = re.match(r"line (\d+)", line)
    lines = source.splitlines()
    return " ".join(lines[int(match[1]) - 1].split()) if match and int(match[1]) <= len(lines) else ""
