"""Volatile pointers into shared memory, by which sources from before CUDA 9 let a warp work in lockstep.

Such a pointer becomes one of ``headers/lockstep.h``, at whose stores the lanes of a warp meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..source import declarations as syntax
from ..source.edits import Edits
from ..source.tokens import Tokens


def used(identifiers: set[str]) -> bool:
    """Whether a source may work in lockstep: one that knows what came with CUDA 9 does not."""
    modern = {"__syncwarp", "cooperative_groups"} & identifiers or any(name.endswith("_sync") for name in identifiers)
    return "volatile" in identifiers and not modern


def wrap_shared(tokens: Tokens, head: int, semicolon: int, name: str, reference: str) -> str:
    """The reference to a shared variable, or for an array of volatile elements a pointer."""
    words = tokens.slice(head, semicolon)
    brackets = words[words.index(name) :].count("[")
    if "volatile" not in words[: words.index(name)] or brackets != 1 or "struct" in words:
        return reference
    for old in (f"& {name} =", f"(&{name})"):
        reference = reference.replace(old, old.replace(name, f"__cuplug_{name}"))
    return f"{reference} auto {name} = __cuplug::lockstep(&__cuplug_{name}[0]);"


def wrap_pointers(tokens: Tokens, edits: Edits, functions: Sequence[syntax.Declaration]) -> None:
    """Wrap what functions declare as pointers to volatile: their parameters and local variables."""
    for function in functions:
        if function.kind != "function":
            continue
        names = [name for _, star, name in _pointers(tokens, *function.head) if tokens[star + 2] in (",", ")", "=")]
        if names:
            kept = " ".join(f"auto __cuplug_{name} = __cuplug::lockstep({name});" for name in names)
            again = " ".join(f"auto& {name} = __cuplug_{name};" for name in names)
            edits.after(function.body[0], f"{kept} {{ {again} {{")
            edits.after(function.body[1], "} }")
        for first, star, _ in _pointers(tokens, *function.body):
            end = star + 2
            while tokens[end] not in (";", ""):
                end = tokens.partner(end) + 1 if tokens[end] in ("(", "[", "{") else end + 1
                if tokens[end] == ",":  # several in one declaration stay as they are
                    break
            if tokens[star + 2] == "=" and tokens[end] == ";":
                cast = tokens.text(first, star + 1)
                for position in range(first, star):
                    edits.drop(position)
                edits.replace(star, "auto ")
                edits.after(star + 2, f"__cuplug::lockstep(({cast})(")
                edits.before(end, "))")


def _pointers(tokens: Tokens, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """First word, star and name of each declaration of a pointer to volatile."""
    for position in range(start, end):
        if tokens[position] != "volatile":
            continue
        first = position
        while tokens[first - 1] not in ("(", ",", ";", "{", "}", ":") and first > start:
            first -= 1
        star = position
        while tokens.kind(star) == "word" or tokens[star] == "::":
            star += 1
        words = tokens.slice(first, star)
        if tokens[star] == "*" and tokens.kind(star + 1) == "word" and not {"const", "return", "="} & set(words):
            yield first, star, tokens[star + 1]
