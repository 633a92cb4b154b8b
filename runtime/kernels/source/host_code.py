"""What sources say for the host around their kernels, which Python programs say in Python: it is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from . import declarations as syntax
from .tokens import Tokens

__all__ = ["without_host_code"]

_SIGNS = re.compile(r"<<<|\bmain\s*\(|\bcuda[A-Z]\w*\s*\(|\b(?:checkCudaErrors|getLastCudaError)\b")
_OF_RUNTIME = re.compile(r"cuda(?!Texture|Surface|ReadMode|Address|Filter|Boundary)[A-Z]\w*")
_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__managed__", "constexpr"})


def without_host_code(source: str) -> str:
    """The source without what concerns the host alone, if it launches kernels, calls the runtime's API or has a
    ``main``: functions that no kernel can reach, and declarations in terms of that API. Lines stay where they are."""
    if not _SIGNS.search(source):
        return source
    tokens = Tokens(source)
    declarations = syntax.read_declarations(tokens).declarations
    pieces = list(tokens.texts)
    for start, end in (*_host_functions(tokens, declarations), *_host_statements(tokens, declarations)):
        for index in range(tokens.words[start], tokens.words[end] + 1):
            pieces[index] = "\n" * pieces[index].count("\n")
    return "".join(pieces)


def _host_functions(tokens: Tokens, declarations: list[syntax.Declaration]) -> Iterator[tuple[int, int]]:
    """First and last word of each function that no function of the device mentions, however indirectly."""
    waiting: set[str] = set()
    mentions: dict[str, set[str]] = {}
    for it in declarations:
        mentioned = syntax.identifiers(tokens, it.head[0], it.body[1])
        mentions.setdefault(it.name, set()).update(mentioned)
        if it.kind == "type" or _DEVICE & mentioned:
            waiting |= mentioned
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= mentions.get(name, set()) - reached
    for it in declarations:
        inside = any(scope.kind == "type" for scope in it.scopes)
        for_device = _DEVICE.intersection(tokens.slice(*it.head))
        if it.kind == "function" and not inside and not for_device and (it.name not in reached or it.name == "main"):
            yield it.head[0], it.body[1]


def _host_statements(tokens: Tokens, declarations: list[syntax.Declaration]) -> Iterator[tuple[int, int]]:
    """First and last word of each declaration outside functions that is in terms of the runtime's API."""
    ends = {it.head[0]: it.body[1] for it in reversed(declarations)}
    head = position = 0
    while position < len(tokens):
        text = tokens[position]
        if position in ends:
            position = ends[position]
            head = position + 1
        elif text == ";":
            words = tokens.slice(head, position)
            if any(map(_OF_RUNTIME.fullmatch, words)) and not _DEVICE.intersection(words):
                yield head, position
            head = position + 1
        elif text in ("{", "}"):  # of a namespace or extern "C"
            head = position + 1
        position += 1
