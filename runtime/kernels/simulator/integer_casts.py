"""Casts to integers, of which CUDA says what they make of numbers that are too large: by ``headers/integers.h``."""

from __future__ import annotations

from ..source.edits import Edits
from ..source.tokens import Tokens

_WORDS = frozenset({"int", "unsigned", "signed", "long", "short", "char"})
_NAMES = _WORDS.union(
    ("size_t", "uchar", "ushort", "uint", "ulong"),
    (f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_BEFORE_CASTS = frozenset({"return", "case", "else", "do"})
"""The words behind which a type in brackets is a cast."""
_NO_OPERANDS = frozenset(
    {
        *("const", "volatile", "noexcept", "override", "final", "mutable", "__attribute__", "operator"),
        *("sizeof", "alignof", "new", "delete", "throw"),
    }
)
_PREFIXES = frozenset("+-!~*&")
_BEFORE_CALLS = frozenset("=(,+-*/%[?&|!^") | {"return"}
"""What stands before ``int(x)`` where that is a value. Behind ``<`` it may be the type of a function."""


def define_casts(tokens: Tokens, edits: Edits) -> None:
    """Let casts to integers go by ``headers/integers.h``: ``(int)x``, ``static_cast<int>(x)`` and ``int(x)``."""
    texts = tokens.texts
    for first in [at for at, index in enumerate(tokens.words) if texts[index] in _NAMES]:
        before, behind = tokens[first - 1], first + 1
        if tokens[first] in _WORDS:
            while tokens[behind] in _WORDS:
                behind += 1
        if before == "(" and tokens[behind] == ")":
            end = _end_of_operand(tokens, behind + 1) if _is_cast(tokens, first - 1) else None
            if end is not None:
                edits.replace(first - 1, "__cuplug::to_integer<")
                edits.replace(behind, ">(")
                edits.after(end - 1, ")")
        elif before == "<" and tokens[first - 2] == "static_cast" and tokens[behind] == ">":
            edits.replace(first - 2, "__cuplug::to_integer")
        elif before in _BEFORE_CALLS and tokens[behind] == "(" and behind == first + 1:
            inside = tokens[behind + 1]
            if inside not in _NAMES | {"*", "&", ")", "void", "float", "double", "const"}:
                edits.replace(first, f"__cuplug::to_integer<{tokens[first]}>")


def _is_cast(tokens: Tokens, bracket: int) -> bool:
    """Whether a type in brackets is a cast, and not what a function takes or ``sizeof`` measures."""
    before = tokens[bracket - 1]
    if before == ")":  # of another cast
        here = bracket - 2
        while tokens.kind(here) == "word" or tokens[here] == "*":
            here -= 1
        return tokens[here] == "(" and here < bracket - 2
    return before != "]" and (tokens.kind(bracket - 1) != "word" or before in _BEFORE_CASTS)


def _end_of_operand(tokens: Tokens, start: int) -> int | None:
    """The position behind the operand of a cast; None for a number that is written out, and what is not known."""
    position = start
    while tokens[position] in _PREFIXES and tokens[position]:
        position += 1
    if tokens[position] == "(":
        inside = [tokens.kind(at) for at in range(position + 1, tokens.partner(position))]
        position = tokens.partner(position) + 1
        after = tokens[position]
        if all(kind == "word" for kind in inside) and (after == "(" or tokens.kind(position) in ("word", "number")):
            return _end_of_operand(tokens, position)  # a cast itself
    elif tokens.kind(position) == "word" or tokens[position] == "::":
        if tokens[position] in _NO_OPERANDS:
            return None
        while tokens[position] == "::" or tokens[position + 1] == "::":
            position += 1
        position += 1
        if tokens[position] == "<":
            behind = tokens.after_angles(position)
            if tokens[behind] in ("(", "::") and _are_angles(tokens, position, behind):
                position = behind
                while tokens[position] == "::":
                    position += 2
    else:
        return None
    while True:
        text = tokens[position]
        if text in ("[", "("):
            position = tokens.partner(position) + 1
        elif text in (".", "->"):
            if tokens[position + 1] == "template":
                return None
            position += 2
        elif text in ("+", "-") and tokens[position + 1] == text and tokens.adjacent(position):
            if tokens[position + 2] == "(" or tokens.kind(position + 2) in ("word", "number"):
                return position
            position += 2
        else:
            return position


def _are_angles(tokens: Tokens, start: int, end: int) -> bool:
    """Whether ``<...>`` names what a template is made of, and does not compare: ``(int)i < n && j > (m)``."""
    inside = range(start + 1, end - 1)
    named = all(tokens.kind(at) in ("word", "number") or tokens[at] in ("::", ",", "*", "<", ">") for at in inside)
    return named and tokens[end - 1] == ">"
