"""Which files a source includes, for compilers that do not tell (NVRTC).

The text is searched without a preprocessor, so files of branches that are not compiled count too: at worst something
is compiled again that need not be. Where a name is looked for and not found counts as well, since a file that appears
there later would be included instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from .tokens import Tokens

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


def flattened(source: str, name: str, folders: Sequence[str]) -> str:
    """A source with the files that it includes, and that can be found, in the place of the directives.

    Args:
        source: the text.
        name: what messages call it.
        folders: where to look, in order; before, for ``"..."``, in the including file's own folder and the current one.

    Returns:
        The text, in which ``#line`` says what stands where. A file that is not found, or that is being included
        already, stays a directive or is left out.
    """
    return _Flattened(folders).text(source, name, Path(), ())


class _Flattened:
    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [Path(folder) for folder in folders]
        self._done: set[Path] = set()
        """Files that are to be included once."""

    def text(self, source: str, name: str, folder: Path, outer: tuple[Path, ...]) -> str:
        """What a file that stands in ``folder`` and is included by the files ``outer`` becomes."""
        tokens, parts, line = Tokens(source), list[str](), 1
        for text, kind in zip(tokens.texts, tokens.kinds, strict=True):
            line += text.count("\n")
            match = _INCLUDE.match(text) if kind == "directive" else None
            path = self._find(match[1] or match[2] or "", folder if match[1] else None) if match else None
            if path is None:
                parts.append(text)
            elif path not in outer and path not in self._done:
                inside = path.read_text(errors="replace")
                if _ONCE.search(inside):
                    self._done.add(path)
                inside = self.text(inside, str(path), path.parent, (*outer, path))
                parts.append(f'\n#line 1 "{path}"\n{inside}\n#line {line} "{name}"\n')
        return "".join(parts)

    def _find(self, wanted: str, folder: Path | None) -> Path | None:
        paths = (root.absolute() / wanted for root in ((folder, Path(), *self._folders) if folder else self._folders))
        return next((path.resolve() for path in paths if path.is_file()), None)


_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", re.MULTILINE)


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
