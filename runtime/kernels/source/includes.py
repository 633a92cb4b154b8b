"""Which files a source includes, for compilers that do not tell (NVRTC).

The text is searched without a preprocessor, so files of branches that are not compiled count too: at worst something
is compiled again that need not be. Where a name is looked for and not found counts as well, since a file that appears
there later would be included instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["folders_of", "included_files", "included_names"]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*(?:include|include_next)\b[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.MULTILINE)
_TESTED = re.compile(r'\b__has_include[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
_FOLDER = re.compile(r"(?:-I|--?include-path(?=$|=))=?(.*)", re.DOTALL)
_FILE = re.compile(r"--?(?:pre-)?include(?=$|=)=?(.*)", re.DOTALL)


def folders_of(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """The folders that a compiler's options add for ``#include``, and the files that they include."""
    folders: list[str] = []
    files: list[str] = []
    rest = iter(options)
    for option in rest:
        for pattern, found in ((_FOLDER, folders), (_FILE, files)):
            match = pattern.fullmatch(option)
            if match:
                found.append(match[1] or next(rest, ""))
                break
    return folders, files


def included_files(source: str, folders: Sequence[str], files: Sequence[str] = ()) -> tuple[list[str], bool]:
    """Every place where a file that ``source`` includes, or one that is included there, is looked for.

    Args:
        source: the text.
        folders: where to look, after the current folder, in order.
        files: what is included besides.

    Returns:
        The paths, whether there is a file or not, and whether that is all: ``#include NAME`` is not followed.
    """
    places, _, complete = _search(source, folders, files)
    return places, complete


def included_names(source: str, folders: Sequence[str], files: Sequence[str] = ()) -> list[str]:
    """What a source includes, and what that includes, as the directives spell it. Arguments as ``included_files``."""
    return _search(source, folders, files)[1]


def _search(source: str, folders: Sequence[str], files: Sequence[str]) -> tuple[list[str], list[str], bool]:
    """Places, names, and whether that is all."""
    places: dict[str, None] = {}
    names: dict[str, None] = {}
    seen: set[Path] = set()
    complete = True
    waiting = [(source, Path()), *((f'#include "{name}"', Path()) for name in files)]
    while waiting:
        text, folder = waiting.pop()
        text = text.replace("\\\n", "")
        for quoted, angled, macro in (*_INCLUDE.findall(text), *((*pair, "") for pair in _TESTED.findall(text))):
            if macro:
                complete = False
                continue
            names[quoted or angled] = None
            for root in (folder, Path(), *map(Path, folders)) if quoted else (Path(), *map(Path, folders)):
                path = root.absolute() / (quoted or angled)
                places[str(path)] = None
                if path.is_file():
                    if path not in seen:
                        seen.add(path)
                        waiting.append((path.read_text(errors="replace"), path.parent))
                    break
    return list(places), list(names), complete
