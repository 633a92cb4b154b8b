"""Loads and stores through a pointer that was just cast: ``*(int *)(bytes + 2)``.

Compilers check the alignment of such a pointer, but not always the sum: g++ looks at ``bytes`` alone where what is
added is a constant. So the cast becomes one to ``Whole`` of ``headers/memory.h``, which checks what comes out.
"""

from __future__ import annotations

from ..source.edits import Edits
from ..source.tokens import Tokens


def check_alignment(tokens: Tokens, edits: Edits, start: int, end: int) -> None:
    """Let what is dereferenced right behind a cast, from ``start`` up to ``end``, be checked."""
    for position in range(start, end):
        if tokens[position] != "*":
            continue
        if tokens[position + 1] == "(":
            close = tokens.partner(position + 1)
            behind = close + 1
            operand = tokens[behind] in ("(", "&") or tokens.kind(behind) == "word"
            if operand and tokens[close - 1] == "*" and _is_type(tokens, position + 2, close - 1):
                edits.replace(position + 1, "(__cuplug::Whole<")
                edits.replace(close - 1, ">")
        elif tokens[position + 1] == "reinterpret_cast" and tokens[position + 2] == "<":
            close = tokens.after_angles(position + 2) - 1
            if tokens[close] == ">" and tokens[close - 1] == "*" and _is_type(tokens, position + 3, close - 1):
                edits.replace(position + 1, "static_cast")
                edits.before(position + 3, "__cuplug::Whole<")
                edits.replace(close - 1, ">")


def _is_type(tokens: Tokens, start: int, end: int) -> bool:
    """Whether these words can only name a type: words, ``::``, and angles behind a word."""
    if start >= end or tokens.kind(start) != "word":
        return False
    position = start
    while position < end:
        if tokens[position] == "<":
            position = tokens.after_angles(position)
            continue
        if tokens.kind(position) != "word" and tokens[position] != "::":
            return False
        position += 1
    return position == end
