"""Which line of the source an address in compiled code belongs to, by ``addr2line`` where it is installed."""

from __future__ import annotations

import linecache
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Protocol

_TIMEOUT_S = 20.0
_MOST_CHARACTERS = 100


def lines_of(image: bytes, offsets: Sequence[int]) -> dict[int, str]:
    """The lines of offsets into a module, as far as they are known: ``line 7``, or ``tools.h, line 3`` in an included
    file. Of functions that were inlined into one another the innermost that is the program's.
    """
    if not offsets:
        return {}
    try:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(image)
            file.flush()
            command = ["addr2line", "-a", "-i", "-e", file.name, *map(hex, offsets)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):  # a full disk among them: the fault itself is still to be told
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


def quoted(line: str, module: _Compiled) -> str:
    """A line as ``lines_of`` names it, with what stands there if it is one of the module's source: ``line 7,
    `x[i] = 2;` ``. And where it stands in the program, as far as that can be found:
    ``line 7 of the kernel's source (reduce.py:19), `x[i] = 2;` ``.
    """
    match = re.fullmatch(r"line (\d+)", line)
    lines = module.source.splitlines()
    if not match or int(match[1]) > len(lines):
        return line
    number = int(match[1])
    text = " ".join(lines[number - 1].split())
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[: _MOST_CHARACTERS - 1]}…"
    place = _line_in_program(module.source, number, module.program)
    if place:
        line = f"{line} of the kernel's source ({os.path.basename(module.program)}:{place})"
    return f"{line}, `{text}`" if text else line


class _Compiled(Protocol):
    source: str
    program: str


def _line_in_program(source: str, number: int, program: str) -> int:
    """Where a line of a source stands in the file that holds the source as it is; or, of a source that the program has
    put together, the only line of the file that reads so. 0: that cannot be told.
    """
    lines = linecache.getlines(program)
    text = "".join(lines)
    if source.strip() and text.count(source) == 1:
        return text.count("\n", 0, text.index(source)) + number
    wanted = source.splitlines()[number - 1].strip()
    places = [place for place, line in enumerate(lines, 1) if line.strip() == wanted] if wanted else []
    return places[0] if len(places) == 1 else 0
