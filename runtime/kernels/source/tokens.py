"""A source in pieces: words, marks and literals, and what lies between them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""
    (?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")
    | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
    | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
    | (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    | (?P<directive>\#(?:\\\n|/\*.*?\*/|[^\n])*)
    | (?P<space>\s+)
    | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
    | (?P<word>[A-Za-z_$]\w*)
    | (?P<mark>::|->|\#\#|<<=|<<|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_SKIPPED = frozenset({"comment", "directive", "space"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_ATTRIBUTES = frozenset(
    {
        "__align__",
        "__attribute__",
        "__attribute",
        "__builtin_align__",
        "__block_size__",
        "__cluster_dims__",
        "__declspec",
        "__launch_bounds__",
        "__maxnreg__",
        "alignas",
        "decltype",
        "explicit",
        "noexcept",
    }
)


class Tokens:
    """A source in pieces. ``words`` are the indices of those that are not space, comments or directives. What the
    preprocessor took from a system's header is one piece, like a directive: nothing in it is CUDA's.
    """

    def __init__(self, text: str) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []
        for part, of_system in _parts(text):
            if of_system:
                self.kinds.append("directive")
                self.texts.append(part)
                continue
            for match in _TOKEN.finditer(part):
                kind = match.lastgroup or "mark"
                self.kinds.append("raw" if kind == "tag" else kind)
                self.texts.append(match.group())
        self.words = [index for index, kind in enumerate(self.kinds) if kind not in _SKIPPED]
        self._partners: dict[int, int] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, position: int) -> str:
        """The word at a position; empty beyond either end."""
        return self.texts[self.words[position]] if 0 <= position < len(self.words) else ""

    def line_of(self, position: int) -> tuple[str, int]:
        """File and line of a word, as the preprocessor's marks say; of a text without any, ``kernel.cu``."""
        before = "".join(self.texts[: self.words[position]])
        file, line, start = "kernel.cu", 1, 0
        for mark in _LINE.finditer(before):
            file, line, start = mark[2], int(mark[1]) - 1, mark.end()
        return file, line + before.count("\n", start)

    def adjacent(self, position: int) -> bool:
        """Whether nothing lies between the word at a position and the next."""
        return self.words[position] + 1 == self.words[position + 1]

    def kind(self, position: int) -> str:
        """``word``, ``number``, ``mark``, ``string``, ``char`` or ``raw``."""
        return self.kinds[self.words[position]]

    def slice(self, start: int, end: int) -> list[str]:
        """The words from ``start`` up to ``end``."""
        return [self.texts[index] for index in self.words[start:end]]

    def text(self, start: int, end: int) -> str:
        """What stands from the word ``start`` up to the word ``end``, on one line."""
        return " ".join(self.slice(start, end))

    def partner(self, position: int) -> int:
        """The position of the bracket that closes the one at ``position``, or the last one if none does."""
        if self._partners is None:
            self._partners = {}
            stack: list[int] = []
            for here, index in enumerate(self.words):
                text = self.texts[index]
                if text in _OPEN:
                    stack.append(here)
                elif text in _CLOSE and stack:
                    self._partners[stack.pop()] = here
        return self._partners.get(position, len(self.words) - 1)

    def after_angles(self, position: int) -> int:
        """The position behind the ``<...>`` that begins at ``position``."""
        depth = 0
        while position < len(self.words):
            text = self[position]
            if text in _OPEN:
                position = self.partner(position)
            elif text == "<":
                depth += 1
            elif text == ">":
                depth -= 1
                if depth == 0:
                    return position + 1
            elif text in (";", "{"):
                break
            position += 1
        return position

    def without_attributes(self, start: int, end: int) -> Iterator[int]:
        """The positions from ``start`` up to ``end`` that are not ``alignas(...)`` and the like, nor ``[[...]]``."""
        position = start
        while position < end:
            if self[position] in _ATTRIBUTES and self[position + 1] == "(":
                position = self.partner(position + 1) + 1
            elif self[position] == "[" and self[position + 1] == "[":
                position = self.partner(position) + 1
            else:
                yield position
                position += 1


_LINE = re.compile(r'^#[ \t]*(?:line[ \t]+)?(\d+)[ \t]+"([^"\n]*)"', re.MULTILINE)
_MARK = re.compile(r'^#[ \t]+\d+[ \t]+"[^"\n]*"([ \t\d]*)$', re.MULTILINE)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a preprocessed text, by the preprocessor's marks, and whether each is of a system's header."""
    start, of_system = 0, False
    for match in _MARK.finditer(text):
        flags = match[1].split()
        if not {"1", "2"} & set(flags):
            continue  # not into a file, nor back: a macro of the system's, say
        system = "3" in flags
        if system != of_system:
            if match.start() > start:
                yield text[start : match.start()], of_system
            start, of_system = match.start(), system
    yield text[start:], of_system
